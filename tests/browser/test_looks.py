"""Every page in light, dark and narrow: it fits its window, and a picture of it is kept for people to look at.

The pictures are in the folder that GANTRY_SCREENSHOTS names, or in one of the test's own.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol.luxi.queue import ReplaceFilter
from tests.browser.axe import findings
from tests.browser.browser import NARROW, WIDE, Browser
from tests.browser.test_watching import held
from tests.support.wait import wait_until
from tests.support.web.rapid import Web

THEMES = ("light", "dark")
PHONE = (390, 844)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    wanted = os.environ.get("GANTRY_SCREENSHOTS")
    folder = Path(wanted) if wanted else tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="module")
def pages(web: Web, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Name of a picture -> path of the page, in a queue in which something happens."""
    gate = tmp_path_factory.mktemp("gates") / "gate"
    submit = web.cluster.submit
    text = "echo 'pulling 3 packages'; echo 'unpacking ...'"
    ended = submit({"OP_ID": "OP_RUN_COMMAND", "argv": ["sh", "-c", text], "comment": "upgrade web9"})
    failed = submit(
        {"OP_ID": "OP_RUN_COMMAND", "argv": ["false"], "comment": "backup of main", "locks": {"node/db": "shared"}}
    )
    web.cluster.wait(ended, failed)
    holder = submit(held(gate, before=text, lock="node/web8") | {"reason": [["gnt:user", "rate-limit:3:upgrade", 1]]})
    # else another one may get the lock
    wait_until(lambda: web.cluster.status(holder) == "running", what="the holder of the lock")
    waiting = [submit(held(gate, lock="node/web8")) for _ in range(3)]
    submit({"OP_ID": "OP_TEST_DELAY", "duration": 1.0, "depends": [[waiting[0], ["success"]]]})
    web.cluster.luxi(
        ReplaceFilter(
            None, 5, (["opcode", ["==", "comment", "paused"]],), "PAUSE", (("gnt:user", "the mirror is down", 1),)
        )
    )
    for _ in range(4):
        submit({"OP_ID": "OP_TEST_DELAY", "duration": 1.0, "comment": "paused"})
    yield {
        "dashboard": "/ui",
        "dashboard-by-opcode": "/ui?by=opcode",
        "jobs": "/ui/jobs",
        "jobs-wrong-filter": "/ui/jobs?where=stat%3Dx",
        "job-running": f"/ui/jobs/{holder}",
        "job-waiting": f"/ui/jobs/{waiting[1]}",
        "job-failed": f"/ui/jobs/{failed}",
        "locks": "/ui/locks",
        "graph": "/ui/graph",
        "nodes": "/ui/nodes",
        "schedules": "/ui/schedules",
        "resources": "/ui/resources",
        "filters": "/ui/filters",
        "rates": "/ui/rates",
        "history": "/ui/history",
        "keys": "/ui/keys",
        "missing": "/ui/jobs/99999999",
    }
    gate.touch()
    web.cluster.wait(holder, *waiting)


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_the_pages_fit_their_window(
    web: Web, browser: Browser, pages: dict[str, str], folder: Path, size: tuple[int, int], theme: str
) -> None:
    browser.press(theme)
    wait_until(lambda: browser.all(f'html[data-theme="{theme}"]'), what=f"the page in {theme} colours")
    browser.resize(size)
    for name, path in pages.items():
        browser.open(web.url + path)
        browser.shoot(folder / f"{name}-{theme}-{size[0]}.png")

        assert browser.overflow() <= 0, name
        # whatever has been changed on the page since it was loaded, each job of the list has a box
        assert browser.all("tr:has(td.check):not(:has(input[name=job]))") == [], name
    browser.resize(WIDE)
    # a page that is not there is told by the browser, too
    assert [line for line in browser.console() if "404" not in line] == []


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_axe_finds_nothing_on_any_page(
    web: Web, browser: Browser, pages: dict[str, str], size: tuple[int, int], theme: str
) -> None:
    browser.press(theme)
    wait_until(lambda: browser.all(f'html[data-theme="{theme}"]'), what=f"the page in {theme} colours")
    browser.resize(size)
    found = {}
    for name, path in pages.items():
        browser.open(web.url + path)
        found[name] = findings(browser)
    browser.open(f"{web.url}/ui/filters")
    browser.type("main input[name=where]", "op=OP_TEST_DELAY")
    browser.press("pause")
    browser.wait_for("h1", text="Pause")
    found["dry-run"] = findings(browser)
    browser.driver.delete_all_cookies()
    browser.open(f"{web.url}/ui/login")
    found["login"] = findings(browser)
    browser.resize(WIDE)

    assert {name: each for name, each in found.items() if each} == {}
    assert [line for line in browser.console() if "404" not in line] == []


def test_the_login_and_a_dry_run_fit_their_window(
    web: Web, browser: Browser, pages: dict[str, str], folder: Path
) -> None:
    for size in (WIDE, NARROW):
        browser.resize(size)
        browser.open(f"{web.url}/ui/filters")
        browser.type("main input[name=where]", "op=OP_TEST_DELAY")
        browser.press("pause")
        browser.wait_for("h1", text="Pause")
        browser.shoot(folder / f"dry-run-light-{size[0]}.png")
        assert browser.overflow() <= 0
        browser.open(f"{web.url}/ui/login")
        browser.shoot(folder / f"login-light-{size[0]}.png")
        assert browser.overflow() <= 0
    browser.resize(WIDE)
