"""Changes: each is listed first, and then done."""

import re
from pathlib import Path
from typing import Final

from tests.browser.browser import Browser
from tests.browser.test_watching import held
from tests.support.wait import wait_until
from tests.support.web.rapid import Web

FAILS: Final = {"OP_ID": "OP_TEST_DUMMY", "fail": "as wanted"}


def test_jobs_are_paused_by_a_filter_after_a_dry_run(web: Web, browser: Browser, tmp_path: Path) -> None:
    holder = web.cluster.submit(held(tmp_path / "gate", lock="node/web2"))
    delayed = web.cluster.submit({"OP_ID": "OP_TEST_DELAY", "duration": 0.01, "depends": [[holder, []]]})
    browser.open(f"{web.url}/ui/filters")
    browser.type("main input[name=where]", "op=OP_TEST_DELAY")
    browser.type("input[name=reason]", "the mirror is down")
    browser.press("pause")

    browser.wait_for("h1", text="Pause jobs with op=OP_TEST_DELAY?")
    browser.wait_for("table.jobs", text=str(delayed))
    assert f"job-{holder}" not in browser.ids("table.jobs tr")
    browser.press("pause them")
    browser.wait_for("h1", text="Paused")

    (tmp_path / "gate").touch()
    browser.open(f"{web.url}/ui/jobs")
    browser.wait_for(f"#job-{delayed} td.why", text="the mirror is down")
    browser.open(f"{web.url}/ui/filters")
    browser.wait_for("#rules", text="the mirror is down")
    browser.press("delete")
    browser.wait_for("table.jobs", text=str(delayed))
    browser.press("delete the rule")
    browser.wait_for("h1", text="Deleted")
    assert web.cluster.wait(delayed) == ["success"]


def test_two_jobs_are_cancelled_by_their_boxes(web: Web, browser: Browser, tmp_path: Path) -> None:
    holder = web.cluster.submit(held(tmp_path / "gate", lock="node/web3"))
    # else another one may get the lock
    wait_until(lambda: web.cluster.status(holder) == "running", what="the holder of the lock")
    ids = [web.cluster.submit(held(tmp_path / "gate", lock="node/web3")) for _ in range(3)]
    browser.open(f"{web.url}/ui/jobs")
    # rows become higher with what they tell, and those below them move
    for job in ids:
        browser.wait_for(f"#job-{job}", text="waiting")
        browser.wait_for(f"#job-{job} td.why", text=f"job/{holder}")
    for job in ids[:2]:
        browser.click(f"#job-{job} input")
    # the rows are drawn anew as time goes on
    before = browser.text(f"#job-{ids[0]} .time")
    wait_until(lambda: browser.text(f"#job-{ids[0]} .time") not in ("", before), what="the next update")
    assert browser.ids("tr:has(input[name=job]:checked)") == [f"job-{job}" for job in reversed(ids[:2])]
    browser.press("cancel")

    browser.wait_for("h1", text="Cancel 2 jobs?")
    assert [web.cluster.status(job) for job in ids] == ["waiting"] * 3
    browser.press("cancel 2 jobs")

    browser.wait_for("h1", text="Canceled: 2 of 2")
    assert web.cluster.wait(*ids[:2]) == ["canceled"] * 2
    (tmp_path / "gate").touch()
    assert web.cluster.wait(holder, ids[2]) == ["success"] * 2


def test_failed_jobs_run_again_by_their_boxes_and_are_archived(web: Web, browser: Browser, tmp_path: Path) -> None:
    holder = web.cluster.submit(held(tmp_path / "gate", lock="node/web4"))
    old = web.cluster.submit(FAILS)
    assert web.cluster.wait(old) == ["error"]
    browser.open(f"{web.url}/ui/jobs")
    browser.wait_for(f"#job-{old}", text="error")
    browser.wait_for(f"#job-{holder}", text="running")
    for job in (old, holder):
        browser.click(f"#job-{job} input")
    browser.press("run again")

    browser.wait_for("h1", text="Run 1 job again?")
    browser.wait_for("main", text=f"1 of the chosen jobs has not ended: {holder}.")
    browser.press("run 1 job again")
    browser.wait_for("h1", text="Run again: 1 of 1")
    (told,) = re.findall(rf"job {old} runs again as job (\d+)", browser.text("main"))
    browser.follow(f"job {told}")
    browser.wait_for("#jobhead", text=f"rerun-of={old}")
    browser.wait_for("#jobhead", text="error")

    browser.open(f"{web.url}/ui/jobs/{old}")
    browser.press("archive")
    browser.wait_for("h1", text="Archive 1 job?")
    browser.press("archive 1 job")
    browser.wait_for("h1", text="Archived: 1 of 1")
    browser.open(f"{web.url}/ui/jobs")
    browser.wait_for(f"#job-{told}", text="error")
    assert f"job-{old}" not in browser.ids("table.jobs tr")
    (tmp_path / "gate").touch()
    assert web.cluster.wait(holder) == ["success"]


def test_the_queue_is_drained_and_opened(web: Web, browser: Browser) -> None:
    browser.open(f"{web.url}/ui/filters")
    browser.press("drain")
    browser.wait_for("h1", text="Drain the queue?")
    browser.press("drain")
    browser.wait_for(".health", text="drained")

    browser.open(f"{web.url}/ui/filters")
    browser.press("open")
    browser.wait_for("h1", text="Open the queue?")
    browser.press("open")
    browser.wait_for(".health", text="open")


def test_the_colours_are_chosen_and_kept(web: Web, browser: Browser) -> None:
    browser.open(f"{web.url}/ui/jobs")
    browser.press("dark")
    wait_until(lambda: browser.all('html[data-theme="dark"]'), what="the page in dark colours")

    assert browser.driver.current_url == f"{web.url}/ui/jobs"
    browser.open(f"{web.url}/ui/locks")
    assert browser.all('html[data-theme="dark"]')
    browser.press("auto")
    browser.wait_until_gone('html[data-theme="dark"]')


def test_text_that_was_typed_survives_a_change_of_colours(web: Web, worker: Browser) -> None:
    worker.open(f"{web.url}/ui/submit")
    worker.type("#f-command", "sh -c 'exit 0'")
    worker.press("look at it")
    worker.wait_for("#look", text="exit 0")
    worker.type("#f-command", "sh -c 'exit 3'")
    worker.mark()

    worker.press("dark")
    wait_until(lambda: worker.all('html[data-theme="dark"]'), what="the page in dark colours")

    assert worker.is_marked
    assert worker.one("#f-command").get_attribute("value") == "sh -c 'exit 3'"
    assert worker.text("#theme [aria-pressed]") == "dark"
    worker.press("look at it")
    worker.wait_for("#look", text="exit 3")
    assert worker.all('html[data-theme="dark"]')
    worker.press("auto")
    worker.wait_until_gone('html[data-theme="dark"]')


def test_without_a_script_colours_are_chosen_where_nothing_is_typed(web: Web) -> None:
    def has_choice(path: str) -> bool:
        reply = web.local.get(path)
        assert reply.status_code == 200
        return 'action="/ui/theme">' in reply.text

    assert has_choice("/ui/jobs")
    assert has_choice("/ui/schedules")
    assert not has_choice("/ui/filters")
