"""The first screen over HTTP, as a browser without a script has it."""

import html
import re
from collections.abc import Iterator

import pytest

from protocol.luxi.queue import DeleteFilter, ReplaceFilter
from tests.daemon.luxid.ops import after, command, dummy, gated
from tests.support.wait import wait_until
from tests.support.web.rapid import Web
from tests.support.web.visitor import Visitor

USERS = "op op-secret operate\n"
FAILED = 27


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with Web(tmp_path_factory.mktemp("web")) as web:
        web.put_users(USERS)
        web.start()
        yield web


@pytest.fixture
def operator(web: Web) -> Visitor:
    visitor = Visitor(web)
    assert visitor.log_in("op", "op-secret").status_code == 303
    return visitor


def part(visitor: Visitor, name: str) -> str:
    """The texts of a part of the page, and its links."""
    page = visitor.get("/ui").text
    found = re.search(rf'<section class="card" id="{name}">(.*?)</section>', page, re.DOTALL)
    assert found, page
    return html.unescape(found[1])


def plain(text: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", text).split())


def test_an_empty_queue_says_that_nothing_needs_anybody(operator: Visitor) -> None:
    assert "Nothing failed." in part(operator, "failed")
    assert "No job waits for another one" in part(operator, "blockers")
    assert "No job waits." in part(operator, "longest")
    assert "No job runs." in part(operator, "running")


def test_failures_beyond_the_bound_are_a_number_that_leads_to_the_list(web: Web, operator: Visitor) -> None:
    names = [f"{first}{second}" for first in "abcdefghi" for second in ("one", "two", "six")][:FAILED]
    jobs = [web.cluster.submit(command("sh", "-c", f"echo the {name} broke; exit 1", comment=name)) for name in names]
    web.cluster.wait(*jobs)
    # two that never run, as they follow from another failure
    web.cluster.wait(*(web.cluster.submit(dummy(depends=after(jobs[0]))) for _ in range(2)))

    failed = part(operator, "failed")

    assert f"{FAILED + 2} in the last hour" in failed
    ids = [int(each) for each in re.findall(r'id="failed-(\d+)"', failed)]
    assert len(ids) == 20
    assert f"last output: the {names[ids[0] - jobs[0]]} broke" in plain(failed)
    assert "2 never ran , as a job that they depend on" in plain(failed)
    more = re.search(rf'href="([^"]*)">and {FAILED - 20} more<', failed)
    assert more
    assert f"of {FAILED}" in operator.get(more[1]).text


def test_the_mark_is_a_cookie_of_the_visitor(web: Web, operator: Visitor) -> None:
    (job,) = (web.cluster.submit(command("false")),)
    web.cluster.wait(job)
    marked = re.search(r'name="until" value="([0-9.]+)"', part(operator, "failed"))
    assert marked

    reply = operator.post("/ui/seen", until=marked[1], back="/ui")

    assert (reply.status_code, reply.headers["location"]) == (303, "/ui")
    for word in ("gantry-looked=", "httponly", "secure", "samesite=strict", "path=/ui"):
        assert word in reply.headers["set-cookie"].lower()
    assert "none of these new to you" in plain(part(operator, "failed"))
    later = web.cluster.submit(command("false"))
    web.cluster.wait(later)
    assert "1 of these new to you" in plain(part(operator, "failed"))
    other = Visitor(web)
    other.log_in("op", "op-secret")
    assert "of these new to you" not in plain(part(other, "failed"))


@pytest.mark.parametrize("until", ["", "-1", "nan", "1e9", "9" * 40, "<script>", "1; Path=/"])
def test_a_mark_that_is_no_instant_changes_nothing(operator: Visitor, until: str) -> None:
    reply = operator.post("/ui/seen", until=until)

    assert (reply.status_code, "set-cookie" in reply.headers) == (303, False)
    operator.client.cookies.set("gantry-looked", until.partition(";")[0])
    assert operator.get("/ui").status_code == 200


def test_a_forged_mark_is_refused(operator: Visitor) -> None:
    assert operator.post("/ui/seen", "0" * 64, until="1").status_code == 403


def test_culprits_longest_waits_and_what_runs_are_told_with_links(web: Web, operator: Visitor) -> None:
    gate = web.cluster.root / "gate"
    lock = {"locks": {"node/n1": "exclusive"}}
    conditions, trail = (["opcode", ["==", "comment", "paused"]],), (("gnt:user", "mirror is down", 1),)
    uuid = web.cluster.luxi(ReplaceFilter(None, 0, conditions, "PAUSE", trail))
    root = web.cluster.submit(gated(gate) | lock)
    web.cluster.wait(root, status="running")
    middle = web.cluster.submit(gated(gate) | lock)
    web.cluster.wait(middle, status="waiting")
    last = web.cluster.submit(dummy(depends=after(middle)))
    paused = web.cluster.submit_many(*[(dummy(comment="paused"),)] * 4)
    wait_until(lambda: "4 wait" in plain(part(operator, "blockers")), what="the paused jobs are told")

    blockers, longest, running = (part(operator, name) for name in ("blockers", "longest", "running"))

    told = plain(blockers)
    assert told.index("mirror is down") < told.index(f"job {root}")
    assert f"/ui/filters#rule-{uuid}" in blockers
    assert f"job {middle} has waited" in told
    assert f"node/n1 of job {root}" in told
    assert f"job {last} job {middle} node/n1 of job {root}" in plain(longest)
    assert f'href="/ui/jobs/{root}"' in running
    assert '<text x="0"' in part(operator, "timeline")

    web.cluster.luxi(DeleteFilter(uuid))
    gate.touch()
    web.cluster.wait(root, middle, last, *paused)


@pytest.mark.parametrize("by", ["job", "opcode", "user"])
def test_the_timeline_has_lanes_by(operator: Visitor, by: str) -> None:
    page = operator.get(f"/ui?by={by}").text

    assert ("jobs that failed, hold others back, or take long" in page) == (by == "job")
