"""What the page of the nodes says of each."""

from collections.abc import Sequence
from typing import Any, cast

from common.words.fields import JobRow
from daemons.rapid.page.views.nodeview import ConfiguredNode, NodesNow, NodeTableRow, node_lines
from protocol.luxi.daemon import QueueVerdict
from protocol.luxi.queries import QueueLag
from protocol.wconfd.config import NodeBehind


def job(job_id: int, node: str = "") -> JobRow:
    return cast(JobRow, {"id": job_id, "status": "running", "name": f"job-{job_id}", "summary": [], "node": node})


def now(roles: str, **values: Any) -> NodesNow:
    """Nodes n1, n2, ... with these roles."""
    nodes = tuple(ConfiguredNode(f"n{at}", role, "default", f"192.0.2.{at}") for at, role in enumerate(roles, 1))
    given = {
        "is_copied": True,
        "answering": frozenset(each.name for each in nodes),
        "lags": {},
        "verdicts": {},
        "behind": {},
        "unknown": "",
        "running": (),
        **values,
    }
    return NodesNow(nodes, **given)


def texts(line: NodeTableRow) -> Sequence[tuple[str, str]]:
    return [(each.kind, each.text) for each in line.copies]


def test_the_master_comes_first_and_each_role_is_a_word() -> None:
    lines = node_lines(now("CRMDO"))

    assert [(each.name, each.role) for each in lines] == [
        ("n3", "master"),
        ("n1", "candidate"),
        ("n2", "regular"),
        ("n4", "drained"),
        ("n5", "offline"),
    ]
    assert texts(lines[0]) == [("muted", "queue: its own"), ("good", "configuration: complete")]
    assert texts(lines[1]) == [("good", "queue: complete"), ("good", "configuration: complete")]
    assert texts(lines[2])[0] == ("muted", "queue: none, as it is no candidate")
    assert lines[3].note == "takes nothing new"
    assert (lines[4].daemon.text, texts(lines[4])) == ("not asked", [("muted", "gets none")])


def test_what_a_node_lacks_is_told_with_the_time_and_the_failure() -> None:
    lags = {"n2": QueueLag("n2", 3, 90.0, "connection refused"), "n3": QueueLag("n3", 0, 5.0, None)}
    verdicts = {"n3": QueueVerdict("n3", lost=2)}
    behind = {"n2": NodeBehind(name="n2", lacks=("config.data", "ssconf"), behind_s=61.0, reason="no route")}

    lines = node_lines(now("MCC", answering=frozenset({"n1", "n3"}), lags=lags, verdicts=verdicts, behind=behind))

    assert [each.daemon.text for each in lines] == ["answers", "does not answer", "answers"]
    assert texts(lines[1]) == [
        ("bad", "queue: behind by 3 files for 1m30s: connection refused"),
        ("bad", "configuration: lacks config.data, ssconf for 1m01s: no route"),
    ]
    assert texts(lines[2]) == [
        ("bad", "queue: not known for 5.0s, it is being compared"),
        ("good", "configuration: complete"),
        ("bad", "2 files set aside: the master has lost them; gnt-cluster verify tells more"),
    ]


def test_jobs_of_no_node_run_on_the_master_and_the_rest_is_counted() -> None:
    jobs = (*(job(each) for each in range(1, 8)), job(8, "n2"), job(9, "gone"))

    master, other = node_lines(now("MC", running=jobs))

    assert [(each.text, each.whole) for each in master.jobs][:2] == [("job 1", "job-1"), ("job 2", "job-2")]
    assert (len(master.jobs), master.more) == (5, 2)
    assert [each.text for each in other.jobs] == ["job 8"]


def test_where_nothing_is_copied_no_daemon_is_missed() -> None:
    (line,) = node_lines(now("M", is_copied=False, answering=frozenset()))

    assert (line.daemon.kind, line.daemon.text) == ("muted", "none is needed: nothing is copied")
    assert texts(line) == [("muted", "nothing is copied")]


def test_what_is_not_known_is_said() -> None:
    (line,) = node_lines(now("M", answering=None, unknown="wconfd is away", running=None))

    assert line.daemon.text == "not known: no reply in time"
    assert ("bad", "configuration: not known: wconfd is away") in texts(line)
    assert line.jobs == ()
