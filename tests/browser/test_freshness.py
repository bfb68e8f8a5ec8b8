"""An open page says whether what it shows is of now: luxid away or hung, rapid away or hung."""

import os
import signal
from collections.abc import Callable

import pytest

from tests.browser.browser import Browser
from tests.support.wait import wait_until
from tests.support.web.rapid import Web

BAR = ".bar .health"


def is_shown(browser: Browser, css: str) -> bool:
    return bool(browser.one(css).is_displayed())


def freeze(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)


def test_a_page_that_is_told_of_changes_is_live(web: Web, browser: Browser) -> None:
    browser.open(f"{web.url}/ui/jobs")
    browser.wait_for("#fresh", text="live")

    assert is_shown(browser, BAR)


@pytest.mark.parametrize("state", ["away", "hung"])
def test_without_luxid_it_says_so_and_shows_no_health_of_the_past(web: Web, browser: Browser, state: str) -> None:
    browser.open(f"{web.url}/ui/jobs")
    browser.wait_for("#fresh", text="live")
    browser.mark()
    if state == "hung":
        freeze(web.cluster.daemons["luxid"].pid)
    else:
        web.cluster.kill("luxid")
    try:
        browser.wait_for("#fresh.bad", text="luxid does not answer")
        browser.wait_for("#fresh.bad", text="what is shown is of")
        assert not is_shown(browser, BAR)
    finally:
        if state == "hung":
            os.kill(web.cluster.daemons["luxid"].pid, signal.SIGCONT)
        else:
            web.cluster.start("luxid")

    browser.wait_for("#fresh.good", text="live")
    assert is_shown(browser, BAR)
    assert browser.is_marked
    assert "Traceback" not in web.log()


@pytest.mark.parametrize("state", ["away", "hung"])
def test_without_rapid_it_counts_until_it_is_connected_again(web: Web, browser: Browser, state: str) -> None:
    browser.open(f"{web.url}/ui/jobs")
    browser.wait_for("#fresh", text="live")
    back: Callable[[], object]
    if state == "hung":
        pid = web.pid
        freeze(pid)
        back = lambda: os.kill(pid, signal.SIGCONT)  # noqa: E731
    else:
        web.cluster.kill("rapid")
        back = lambda: web.cluster.start("rapid")  # noqa: E731
    try:
        browser.wait_for("#fresh.cut", text="not connected")
        browser.wait_for("#fresh.cut", text="what is shown is of")
        assert not is_shown(browser, BAR)
        before = browser.text("#fresh")
        wait_until(lambda: browser.text("#fresh") != before, what="it counts")
    finally:
        back()

    # who has logged in is known to the next rapid
    browser.wait_for("#fresh.good", text="live")
    # refused connections are in the console of every browser
    browser.console()
