"""Who waits for whom: names and states, folded boxes, zoom, a walk that was cut, and dependencies that are no locks."""

from collections.abc import Sequence
from pathlib import Path

from common.ids import JobId
from common.queue.terms import JobTerms, terms_entry
from daemons.rapid.page.views.graphview import MOST_BESIDE
from tests.browser.browser import Browser
from tests.browser.test_watching import held
from tests.support.wait import wait_until
from tests.support.web.rapid import Web


def named(name: str, op: dict[str, object], *depends: int) -> tuple[dict[str, object]]:
    """The job with this name, which waits for the success of others. Args: depends: negative: places before it."""
    reason = terms_entry(JobTerms(name=name), 1).to_wire()
    return ({**op, "depends": [[each, ["success"]] for each in depends], "reason": [reason]},)


DELAY: dict[str, object] = {"OP_ID": "OP_TEST_DELAY", "duration": 0.0}


def submitted(web: Web, *jobs: tuple[dict[str, object]]) -> list[JobId]:
    """Submit them, as many at once as may be."""
    found: list[JobId] = []
    for at in range(0, len(jobs), 100):
        found += web.cluster.submit_many(*jobs[at : at + 100])
    return found


def wait_until_shown(browser: Browser, *texts: str) -> None:
    for text in texts:
        browser.wait_for("#graph", text=text)


def boxes(browser: Browser) -> Sequence[str]:
    """The names on all boxes."""
    names = "return [...document.querySelectorAll('#graph .node .name')].map(each => each.textContent)"
    return list(browser.driver.execute_script(names))


def test_a_fan_is_one_box_with_counts_and_is_unfolded_by_a_link(web: Web, browser: Browser, tmp_path: Path) -> None:
    done = submitted(web, *(named(f"scan-host-{number}", DELAY) for number in range(20)))
    web.cluster.wait(*done)
    gate = tmp_path / "gate"
    left = submitted(web, *(named(f"scan-host-{number}", held(gate)) for number in range(20, 25)))
    wait_until(lambda: {web.cluster.status(each) for each in left} == {"running"}, what="all that are left run")
    (report,) = submitted(web, named("report-of-all", DELAY, *done, *left))

    browser.open(f"{web.url}/ui/jobs/{report}")
    wait_until_shown(browser, "report-of-all", "scan-host-* × 25", "5 running", "20 success", "26 jobs in 2 boxes")
    browser.click("#graph a.node:has(.fold)")
    browser.wait_for("#graph", text="scan-host-7")

    assert len(boxes(browser)) == 26
    assert f"{left[0]} scan-host-20" in boxes(browser)
    # each job leads to its page, and its state is told by sign and word, too
    assert browser.attribute(f"#graph a.node[href='/ui/jobs/{left[0]}'] use", "href") == "#sign-running"
    browser.follow("fold")
    wait_until(lambda: len(boxes(browser)) == 2, what="the folded graph")
    browser.mark()
    gate.touch()
    # it changes without a reload
    browser.wait_for("#graph", text="25 success")
    assert browser.is_marked
    web.cluster.wait(report)


def test_a_thousand_jobs_stay_usable(web: Web, browser: Browser, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    (root,) = submitted(web, named("mirror", held(gate)))
    wave = submitted(web, *(named(f"upgrade-{number}", DELAY, root) for number in range(1000)))

    browser.open(f"{web.url}/ui/graph?job={root}")
    wait_until_shown(browser, "upgrade-* × 1000", "1,001 jobs in 2 boxes", "waits for nobody")
    browser.follow("unfold all")
    wait_until(lambda: len(boxes(browser)) == 1001, what="a box for each job")
    browser.follow("25 %")
    browser.wait_for("#graph [aria-label=zoom] [aria-current]", text="25 %")

    assert browser.overflow() <= 0
    quarter = int(browser.attribute("#graph .graph > svg", "height") or 0)
    browser.follow("100 %")
    browser.wait_for("#graph [aria-label=zoom] [aria-current]", text="100 %")
    assert abs(int(browser.attribute("#graph .graph > svg", "height") or 0) - 4 * quarter) < 4
    assert len(boxes(browser)) == 1001
    gate.touch()
    web.cluster.wait(root, *wave)


def test_a_walk_that_is_cut_says_so_and_shows_the_reason(web: Web, browser: Browser, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    (root,) = submitted(web, named("the-reason", held(gate)))
    chain, last = [], root
    for number in range(MOST_BESIDE + 40):
        chain += submitted(web, named(f"{'ab'[number % 2]}-step-{number}", DELAY, last))
        last = chain[-1]

    browser.open(f"{web.url}/ui/jobs/{last}")
    wait_until_shown(browser, "the-reason", "waits for nobody", "The graph is cut", "41 between")

    assert browser.text("#graph").count("waits for nobody") == 1
    # whoever waits for something that is not drawn does not look like the reason
    browser.open(f"{web.url}/ui/jobs/{root}")
    browser.wait_for("#graph-cut", text="left out")
    assert browser.text("#graph").count("waits for nobody") == 1
    gate.touch()
    web.cluster.wait(root, *chain)


def test_dependencies_are_not_listed_as_locks(web: Web, browser: Browser, tmp_path: Path) -> None:
    holder = web.cluster.submit(held(tmp_path / "gate", lock="node/web3"))
    (waiter,) = submitted(web, named("after-it", DELAY, holder))

    browser.open(f"{web.url}/ui/locks")
    browser.wait_for("#locks", text="node/web3")
    browser.wait_for("#awaited", text=f"job/{waiter}")
    assert f"job/{waiter}" not in browser.text("#locks")
    browser.open(f"{web.url}/ui/jobs/{waiter}")
    browser.wait_for("#relations", text="It holds no lock and waits for none.")
    browser.wait_for("#relations", text=f"job/{holder} to end in success")
    (tmp_path / "gate").touch()
    web.cluster.wait(waiter)


def test_wrong_addresses_of_a_graph_are_told(web: Web, browser: Browser) -> None:
    for query, told in (("job=abc", "ids of jobs are numbers"), ("job=" + "7+" * 101, "7"), ("zoom=x&unfold=", "jobs")):
        browser.open(f"{web.url}/ui/graph?{query}")
        browser.wait_for("main", text=told)
