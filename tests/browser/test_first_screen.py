"""The first screen at three in the morning: what failed, who holds whom back, what waits longest, and what runs."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs
import pytest

from common.queue.terms import JobTerms, terms_entry
from tests.browser.browser import Browser
from tests.browser.conftest import USERS
from tests.browser.test_watching import held
from tests.support.wait import wait_until
from tests.support.web.rapid import Web

SIZES = ((1440, 1800), (800, 2400), (390, 3600))
FAILED = 24
LAST_WORDS = (
    "disk /dev/disk/by-id/scsi-36001405b9f1e0a3c4d5e6f708192a3b4 has 4711 blocks that cannot be read; give it to nobody"
)


@attrs.frozen
class Night:
    """A cluster in which something of everything happens."""

    web: Web
    gate: Path
    root: int
    middle: int
    last: int
    scans: tuple[int, ...]
    limited: tuple[int, ...]
    failed: tuple[int, ...]
    broken: int


def named(name: str, op: Mapping[str, object], *reasons: str) -> dict[str, object]:
    entries = [terms_entry(JobTerms(name=name), 1).to_wire(), *(["gnt:user", each, 1] for each in reasons)]
    return {**op, "reason": entries}


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Night]:
    gate = tmp_path_factory.mktemp("gates") / "gate"
    with Web(tmp_path_factory.mktemp("night"), "[luxid]\nmax_running_jobs = 40\n") as web:
        web.put_users(USERS)
        web.start()
        try:
            yield _fall(web, gate)
        finally:
            gate.touch()


def _fall(web: Web, gate: Path) -> Night:
    submit, wait = web.cluster.submit, web.cluster.wait
    failing = {"OP_ID": "OP_RUN_COMMAND", "argv": ["sh", "-c", "echo checking; echo no space left >&2; exit 3"]}
    failed = [submit(named(f"check-disk-{each}", failing)) for each in range(1, FAILED)]
    wait(*failed)
    words = {"OP_ID": "OP_RUN_COMMAND", "argv": ["sh", "-c", f"echo '{LAST_WORDS}'; exit 4"]}
    broken = submit(named("scrub-disks", words))
    report = submit(named("report-on-disks", {"OP_ID": "OP_TEST_DUMMY", "depends": [[broken, ["success"]]]}))
    wait(broken, report)
    root = submit(named("nightly-dump", held(gate, lock="node/db1")))
    wait(root, status="running")
    middle = submit(named("copy-dump", held(gate, lock="node/db1")))
    wait(middle, status="waiting")
    last = submit(named("verify-dump", {"OP_ID": "OP_TEST_DUMMY", "depends": [[middle, ["success"]]]}))
    tail = submit(named("tell-of-dump", {"OP_ID": "OP_TEST_DUMMY", "depends": [[last, ["success"]]]}))
    limited = [submit(named(f"upgrade-web{each}", held(gate), "rate-limit:3:upgrade")) for each in range(1, 9)]
    scans = [submit(named(f"scan-host-{each:02}", held(gate))) for each in range(1, 26)]
    web.cluster.wait(*limited[:3], *scans, status="running")
    wait(last, tail, status="waiting")
    return Night(web, gate, root, middle, last, tuple(scans), tuple(limited), (*failed, broken), broken)


@pytest.fixture
def browser(night: Night, window: Browser) -> Iterator[Browser]:
    """An operator's browser, at the cluster of this night."""
    window.open(f"{night.web.url}/ui/login")
    window.driver.delete_all_cookies()
    window.open(f"{night.web.url}/ui/login")
    window.console()
    window.log_in(night.web.url, "op", "op-secret")
    window.wait_for("nav", text="Dashboard")
    yield window
    window.check_console()


def test_failures_are_told_with_their_last_words_newest_first_and_the_rest_as_a_number(
    night: Night, browser: Browser
) -> None:
    browser.open(f"{night.web.url}/ui")

    browser.wait_for("#failed", text=f"{FAILED + 1} in the last hour")
    # what came newest is the consequence of another failure
    first, second = browser.ids("#failed li")
    assert first == f"failed-{night.broken}"
    assert LAST_WORDS in browser.text(f"#{first} .reason")
    # those that failed alike are one line
    assert "check-disk-*" in browser.text(f"#{second}")
    assert f"× {FAILED - 1}" in browser.text(f"#{second}")
    assert "last output: no space left" in browser.text(f"#{second} .reason")
    assert "1 never ran" in browser.text("#failed .more")

    browser.follow("check-disk-*")

    browser.wait_for("main", text=f"1 to {FAILED - 1} of {FAILED - 1}")


def test_the_culprits_are_ranked_with_the_way_to_each(night: Night, browser: Browser) -> None:
    browser.open(f"{night.web.url}/ui")

    browser.wait_for("#blockers .events > li:nth-child(1)", text="3:upgrade")
    first, second = (browser.text(f"#blockers .events > li:nth-child({place})") for place in (1, 2))
    assert "5 wait" in first
    assert "3 of 3 taken" in first
    assert all(f"job {job_id}" in first for job_id in night.limited[:3])
    assert f"job {night.root}" in second
    assert "nightly-dump" in second
    assert "3 wait" in second
    assert "(1 directly)" in second
    assert "node/db1" in second
    # the whole chain of the last one
    browser.wait_for(f"#wait-{night.last}", text=f"job {night.middle}")
    way = browser.text(f"#wait-{night.last} .way").split()
    assert [word for word in way if word.isdigit()] == [str(each) for each in (night.last, night.middle, night.root)]

    # those that wait for the same are one line
    alike = browser.text(f"#wait-{night.limited[3]}")
    assert "upgrade-web*" in alike
    assert "× 5" in alike

    browser.click(f"#blockers a[href='/ui/jobs/{night.root}']")

    browser.wait_for("h1", text=f"job {night.root}")


def test_equal_names_run_as_one_line_that_leads_to_their_list(night: Night, browser: Browser) -> None:
    browser.open(f"{night.web.url}/ui")

    browser.wait_for("#running li:nth-child(1)", text="scan-host-*")
    assert "× 25" in browser.text("#running li:nth-child(1)")
    assert "upgrade-web*" in browser.text("#running li:nth-child(2)")

    browser.follow("scan-host-*")

    browser.wait_for("#joblist", text="25 on this page")
    assert set(browser.ids("#joblist tbody tr")) == {f"job-{each}" for each in night.scans}


def test_the_timeline_draws_what_matters(night: Night, browser: Browser) -> None:
    browser.open(f"{night.web.url}/ui")

    browser.wait_for("#timeline", text="nightly-dump")
    assert "scrub-disks" in browser.text("#timeline")
    # the newest job that runs is one of many, and does not matter
    assert "scan-host-25" not in browser.text("#timeline")


def test_marked_failures_are_not_new_and_later_ones_are_without_a_reload(night: Night, browser: Browser) -> None:
    browser.open(f"{night.web.url}/ui")
    assert "new" not in browser.text("#failed header")
    # sent without leaving the page: now and then the driver waits for ever for the page that a click leads to
    browser.driver.execute_async_script(
        "const form = document.querySelector('#failed form');"
        "fetch(form.action, {method: 'POST', body: new URLSearchParams(new FormData(form))}).then(arguments[0])"
    )
    browser.open(f"{night.web.url}/ui")
    browser.wait_for("#failed header", text="none of these new to you")
    assert browser.all("#failed button") == []
    browser.mark()

    late = night.web.cluster.submit(named("late-check", {"OP_ID": "OP_RUN_COMMAND", "argv": ["false"]}))

    browser.wait_for(f"#failed-{late}", text="new")
    browser.wait_for("#failed header", text="1 of these new to you")
    assert browser.is_marked


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES, ids=lambda size: str(size[0]))
def test_the_screen_fits_and_cuts_no_reason(
    night: Night, browser: Browser, tmp_path_factory: pytest.TempPathFactory, size: tuple[int, int], theme: str
) -> None:
    wanted = os.environ.get("GANTRY_SCREENSHOTS")
    folder = Path(wanted) if wanted else tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    browser.press(theme)
    wait_until(lambda: browser.all(f'html[data-theme="{theme}"]'), what=f"the page in {theme} colours")
    browser.resize(size)
    browser.open(f"{night.web.url}/ui")
    browser.wait_for("#blockers", text="nightly-dump")
    browser.shoot(folder / f"first-screen-{theme}-{size[0]}.png")

    assert browser.overflow() <= 0
    cut = browser.driver.execute_script(
        "return [...document.querySelectorAll('.reason, .way, .why > span, .tile .note')].filter(each =>"
        " each.scrollWidth > each.clientWidth + 1 && getComputedStyle(each).display !== 'inline'"
        " || each.scrollHeight > each.clientHeight + 2 && getComputedStyle(each).overflowY === 'hidden')"
        ".map(each => each.innerText)"
    )
    assert cut == []
    browser.resize((1440, 1000))
