"""What is ours beside the job files reaches the candidates too, and whether all have the same is told (DESIGN 12)."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.ids import JobId
from common.queue.explanation import Cause, Span, WaitKind
from common.queue.sidefiles import append_spans
from protocol.luxi.daemon import CheckQueueCopies
from protocol.luxi.jobs import SubmitJob, SubmitManyJobs
from tests.cli.command import Ended, run
from tests.daemon.luxid.ops import dummy, gated
from tests.support.machines.fleet import Fleet, FleetNode, state_files
from tests.support.wait import wait_until


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """A master and two candidates, whose queues are equal."""
    with Fleet(tmp_path, 2) as fleet:
        fleet.start()
        fleet.master.start("forkserver", "luxid")
        fleet.until_same_queue(*fleet.nodes)
        yield fleet


def _restart_luxid(fleet: Fleet) -> None:
    fleet.master.restart("luxid")


def _keys(node: FleetNode) -> int:
    return sum(1 for name in state_files(node.paths) if name.startswith("submissions/"))


def test_the_key_of_a_submission_is_on_the_candidates_with_its_jobs(fleet: Fleet, tmp_path: Path) -> None:
    job_id = fleet.master.luxi(SubmitJob((gated(tmp_path / "gate"),), "once"))
    have_keys = [_keys(node) for node in fleet.nodes]
    is_told = "copies.slow" in fleet.master.log("luxid")
    (tmp_path / "gate").touch()
    fleet.master.wait(job_id)

    # on a busy machine an attempt may take too long, but then that is told
    assert is_told or have_keys == [1, 1]
    fleet.until_same_state(*fleet.nodes)


def test_the_note_of_a_batch_is_gone_in_the_end(fleet: Fleet) -> None:
    fleet.master.luxi(SubmitManyJobs(((dummy(),), (dummy(),), (dummy(),)), "many"))
    fleet.master.wait(*map(JobId, (1, 2, 3)))

    fleet.until_same_queue(*fleet.nodes)
    fleet.until_same_state(*fleet.nodes)
    assert [_keys(node) for node in fleet.nodes] == [1, 1]


def test_histories_of_waits_follow_the_changes_of_their_jobs(fleet: Fleet) -> None:
    # as a job process does, of whose writes luxid is not told
    append_spans(fleet.master.paths.waits_file(1), [(1, Span(Cause(WaitKind.DEPENDENCY), 1.0, 2.0))])

    fleet.master.submit(dummy())

    fleet.until_same_state(*fleet.nodes)


def test_a_returning_candidate_gets_what_it_lacks_and_loses_what_is_gone(fleet: Fleet) -> None:
    first, second = fleet.nodes
    stale = {
        first.paths.submissions / ("a" * 40): "an old key",
        first.paths.job_file(JobId(77)): "an old job",
        first.paths.archive / "3" / "job-30001": "an old archived job",
    }
    first.kill()
    for path, text in stale.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    fleet.master.luxi(SubmitJob((dummy(),), "k"))
    fleet.master.wait(JobId(1))
    _restart_luxid(fleet)

    first.start()

    fleet.until_same_queue(first, second)
    fleet.until_same_state(first, second)
    told = f"copies.compared node={first.name}"
    wait_until(lambda: told in fleet.master.log("luxid"), what="the comparison is over")
    assert "copies.purge" not in fleet.master.log("luxid")


def test_a_node_of_ganeti_gets_the_queue_and_nothing_of_ours(fleet: Fleet) -> None:
    first, second = fleet.nodes
    first.kill()
    first.be_of_ganeti()
    first.start()
    fleet.master.luxi(SubmitJob((dummy(),), "k"))
    fleet.master.wait(JobId(1))
    fleet.until_same_queue(first, second)
    fleet.until_same_state(second)
    # the first attempts after the change of node daemons fail
    wait_until(lambda: "copies.of_ganeti" in fleet.master.log("luxid"), what="luxid has found out")
    # whoever has not found out yet may ask once
    first_refusals = first.cluster.log("noded").count("gantry_")
    fleet.master.luxi(SubmitJob((dummy(),), "k1"))
    fleet.until_same_state(second)
    wait_until(
        lambda: "lacks" not in _verify(fleet).out, what="the node has everything", state=lambda: _verify(fleet).out
    )
    verified = _verify(fleet)
    refusals = first.cluster.log("noded").count("gantry_")
    was_without = state_files(first.paths)

    assert verified.code == 0, verified.out
    assert f"same on {first.name}, {second.name}" in verified.out
    assert f"node '{first.name}' runs Ganeti's node daemon: it does not get keys of submissions" in verified.out
    assert was_without == {}
    assert refusals == first_refusals <= 1
    assert fleet.master.log("luxid").count("copies.of_ganeti") == 1

    first.kill()
    fleet.master.luxi(SubmitJob((dummy(),), "k2"))
    first.be_of_ganeti(False)
    first.start()
    fleet.until_same_state(first, second)


def _verify(fleet: Fleet) -> Ended:
    return run("gnt-cluster", "--root", fleet.master.root, "verify")


def test_a_history_whose_copy_is_late_by_design_is_no_difference(fleet: Fleet) -> None:
    fleet.master.submit(dummy())
    fleet.master.wait(JobId(1))
    # as its process does, just after the job's file: it is copied some seconds later
    append_spans(fleet.master.paths.waits_file(1), [(1, Span(Cause(WaitKind.DEPENDENCY), 1.0, 2.0))])

    verdicts = fleet.master.luxi(CheckQueueCopies())

    assert verdicts is not None
    assert [(each.differ, each.files, each.failure) for each in verdicts] == [(0, (), None)] * 2


def test_a_difference_is_told_and_mended(fleet: Fleet) -> None:
    first, second = fleet.nodes
    fleet.master.submit(dummy())
    fleet.master.wait(JobId(1))
    fleet.until_same_queue(first, second)
    fleet.until_same_state(first, second)
    before = fleet.master.luxi(CheckQueueCopies())
    first.paths.job_file(JobId(1)).write_text("something else")
    first.paths.job_file(JobId(9)).write_text("a job that nobody submitted")
    second.paths.serial_file.write_text("0\n")

    verified = run("gnt-cluster", "--root", fleet.master.root, "verify", "--output", "json")
    fleet.until_same_queue(first, second)
    after = fleet.master.luxi(CheckQueueCopies())

    assert before is not None
    assert [(each.node, each.differ) for each in before] == [(first.name, 0), (second.name, 0)]
    assert verified.code == 1
    found = json.loads(verified.out)["queue copies"]
    assert f"node '{first.name}' differed in 2 files: job-1, queue/job-9" in found[0]
    assert f"node '{second.name}' differed in 1 file: queue/serial" in found[1]
    assert after is not None
    assert [each.differ for each in after] == [0, 0]


def test_a_candidate_that_cannot_be_compared_is_told(fleet: Fleet) -> None:
    first, second = fleet.nodes
    first.kill()

    verified = run("gnt-cluster", "--root", fleet.master.root, "verify")

    assert verified.code == 1
    assert f"node '{first.name}' could not be compared: node '{first.name}' at" in verified.out
    assert f"same on {second.name}" in verified.out


def test_the_first_comparison_is_shown_by_status(fleet: Fleet) -> None:
    def status() -> str:
        return run("gantry", "--root", fleet.master.root, "status").out

    # histories of waits follow some seconds after their jobs
    wait_until(
        lambda: "copies: queue same on 2 nodes when last compared" in status(), what="all is copied", state=status
    )
    shown = json.loads(run("gantry", "--root", fleet.master.root, "status", "--output", "json").out)

    # the nodes were new when wconfd was started, and obeyed nobody
    assert "copies: configuration not compared with 2 nodes" in status()
    assert [(each["node"], each["differ"]) for each in shown["queue_verdicts"]] == [
        (node.name, 0) for node in fleet.nodes
    ]
