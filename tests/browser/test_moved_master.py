"""The master moves while a page is open: it goes on at the next one, and who has logged in stays so."""

import shutil
from pathlib import Path

from tests.browser.browser import Browser
from tests.browser.conftest import USERS
from tests.daemon.luxid.ops import dummy
from tests.support.wait import wait_until
from tests.support.web.rapid import Web


def test_an_open_page_goes_on_at_the_next_master(window: Browser, tmp_path: Path) -> None:
    """The address moves with the master. The next one has what candidates have: copies of the files."""
    browser = window
    with Web(tmp_path / "old") as old:
        old.put_users(USERS)
        old.start()
        job = old.cluster.submit(dummy())
        old.cluster.wait(job)
        browser.open(f"{old.url}/ui/login")
        browser.driver.delete_all_cookies()
        browser.open(f"{old.url}/ui/login")
        browser.log_in(old.url, "op", "op-secret")
        browser.wait_for("nav", text="Dashboard")
        browser.open(f"{old.url}/ui/jobs")
        browser.wait_for("#fresh", text="live")
        browser.wait_for(f"#job-{job}", text="success")
        wait_until(old.paths.sessions_data.exists, what="the session is noted")
        old.cluster.crash()
        browser.wait_for("#fresh.cut", text="not connected")

        copies = Web(tmp_path / "next", port=old.port).paths.data
        shutil.rmtree(copies)
        shutil.copytree(old.paths.data, copies, ignore=shutil.ignore_patterns("lock", "*.tmp"))
        with Web(tmp_path / "next", port=old.port) as moved:
            moved.start()

            browser.wait_for("#fresh.good", text="live")
            later = moved.cluster.submit(dummy())
            browser.wait_for(f"#job-{later}", text="success")
            browser.follow("Schedules")
            wait_until(lambda: browser.driver.current_url.endswith("/ui/schedules"), what="the next page is shown")
            assert "/ui/login" not in browser.driver.current_url
    # refused connections are in the console of every browser
    browser.console()
