"""What happens is seen without a reload: jobs, their output, and why they wait."""

from pathlib import Path

from common.queue.terms import JobTerms, terms_entry
from tests.browser.browser import Browser
from tests.support.wait import wait_until
from tests.support.web.rapid import Web


def held(gate: Path, *, before: str = "", after: str = "", lock: str | None = None) -> dict[str, object]:
    """A command that waits for a file."""
    wait = f"until [ -e {gate} ]; do sleep 0.05; done"
    command = "; ".join(part for part in (before, wait, after) if part)
    locks = {} if lock is None else {"locks": {lock: "exclusive"}}
    return {"OP_ID": "OP_RUN_COMMAND", "argv": ["sh", "-c", command], "comment": "held by a file", **locks}


def test_a_job_starts_and_ends_without_a_reload(web: Web, browser: Browser, tmp_path: Path) -> None:
    browser.open(f"{web.url}/ui/jobs")
    browser.mark()

    job = web.cluster.submit(held(tmp_path / "gate"))
    browser.wait_for(f"#job-{job}", text="running")
    (tmp_path / "gate").touch()
    browser.wait_for(f"#job-{job}", text="success")

    assert browser.is_marked


def test_the_dashboard_shows_what_runs_and_then_that_it_ended(web: Web, browser: Browser, tmp_path: Path) -> None:
    browser.open(f"{web.url}/ui")
    browser.mark()

    # jobs of other tests may run, too: equal names are one line
    name = terms_entry(JobTerms(name="only-this-one"), 1).to_wire()
    job = web.cluster.submit({**held(tmp_path / "gate"), "reason": [name]})
    browser.wait_for("#running", text=f"job {job}")
    (tmp_path / "gate").touch()
    wait_until(lambda: f"job {job}" not in browser.text("#running"), what="it runs no more on the page")

    assert browser.is_marked


def test_output_follows_and_can_be_stopped_and_read_from_a_line_on(web: Web, browser: Browser, tmp_path: Path) -> None:
    job = web.cluster.submit(held(tmp_path / "gate", before="echo '<b>first</b>'", after="echo second"))
    browser.open(f"{web.url}/ui/jobs/{job}")
    browser.wait_for("#output", text="<b>first</b>")
    browser.mark()

    (tmp_path / "gate").touch()
    browser.wait_for("#output", text="second")
    browser.wait_for("#jobhead", text="success")
    assert browser.is_marked

    browser.follow("stop")
    browser.wait_until_gone("#output[data-follow]")
    browser.type("input[name=line]", "2")
    browser.press("show")
    browser.wait_for(".pager", text="lines 2 to 2")
    assert browser.text("#output") == "second"


def test_why_a_job_waits_leads_to_the_culprit(web: Web, browser: Browser, tmp_path: Path) -> None:
    holder = web.cluster.submit(held(tmp_path / "gate", lock="node/web1"))
    browser.open(f"{web.url}/ui/jobs")
    browser.wait_for(f"#job-{holder}", text="running")
    waiter = web.cluster.submit(held(tmp_path / "gate", lock="node/web1"))
    browser.wait_for(f"#job-{waiter} td.why", text=f"job/{holder}")

    browser.open(f"{web.url}/ui/locks")
    browser.wait_for("#locks", text="node/web1")
    browser.wait_for("#graph", text=f"{holder} RUN_COMMAND")
    browser.open(f"{web.url}/ui/jobs/{waiter}")
    browser.wait_for("#jobhead .lines", text=f"job/{holder}")
    browser.click(f"#jobhead .lines a[href='/ui/jobs/{holder}']")

    browser.wait_for("h1", text=f"job {holder}")
    browser.wait_for("#relations", text=f"job/{waiter}")
    (tmp_path / "gate").touch()
    assert web.cluster.wait(holder, waiter) == ["success", "success"]


def test_curves_show_their_values_and_go_on(web: Web, browser: Browser) -> None:
    browser.open(f"{web.url}/ui/rates")
    browser.wait_for(".plot .u-legend", text="submitted")
    browser.mark()
    before = browser.attribute(".plot", "data-plot")

    wait_until(lambda: browser.attribute(".plot", "data-plot") != before, what="the next sample")

    assert browser.all("#plot-1 canvas")
    assert len(browser.all("#plot-1 .uplot")) == 1
    assert browser.is_marked


def test_a_job_that_ends_while_its_page_is_open_says_so(web: Web, browser: Browser, tmp_path: Path) -> None:
    job = web.cluster.submit(held(tmp_path / "gate", after="exit 3"))
    browser.open(f"{web.url}/ui/jobs/{job}")
    browser.wait_for("#jobhead", text="running")

    (tmp_path / "gate").touch()

    browser.wait_for("#jobhead", text="Why it ended so")
    browser.wait_for("#jobhead .lines", text="3")
