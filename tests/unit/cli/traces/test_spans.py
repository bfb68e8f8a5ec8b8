"""The spans of a job follow from its row and its waits, and from nothing else."""

from typing import Any

import pytest

from cli.traces.spans import TracedCluster, TraceSpan, job_spans
from common.queue.explanation import Cause, Span, WaitKind
from tests.unit.cli.traces.rows import CLUSTER, row

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def wait(kind: WaitKind, since: float, until: float | None, **facts: Any) -> Span:
    return Span(Cause(kind, **facts), since, until)


def named(spans: list[TraceSpan], name: str) -> TraceSpan:
    (found,) = [span for span in spans if span.name == name]
    return found


def test_a_job_is_a_span_with_one_for_each_opcode() -> None:
    root, first, second = job_spans(row(), (), CLUSTER)

    assert (root.name, root.start, root.end, root.is_success) == ("RUN_COMMAND, TEST_DUMMY", 100.0, 131.0, True)
    assert (first.name, first.start, first.end, first.events) == ("RUN_COMMAND", 110.0, 125.0, {"locks held": 120.0})
    assert [each.parent_id for each in (root, first, second)] == [None, root.span_id, root.span_id]
    assert root.attributes["gantry.job.user"] == "ada"
    assert "gantry.job.name" not in root.attributes


def test_the_ids_follow_from_the_cluster_and_the_job() -> None:
    waits = [wait(WaitKind.TURN, 101.0, 102.0), wait(WaitKind.TURN, 104.0, 109.0)]
    spans = job_spans(row(), waits, CLUSTER)
    ids = {span.span_id for span in spans}

    assert job_spans(row(), waits, CLUSTER) == spans
    assert len(ids) == len(spans) == 5
    assert {len(span.trace_id) for span in spans} == {32}
    assert {len(span_id) for span_id in ids} == {16}
    for other in (job_spans(row(id=8), waits, CLUSTER), job_spans(row(), waits, TracedCluster("another", "alpha"))):
        assert other[0].trace_id != spans[0].trace_id
        assert not ids & {span.span_id for span in other}


def test_a_traceparent_is_the_parent_if_it_is_recorded() -> None:
    root, opcode, _ = job_spans(row(traceparent=f"00-{TRACE}-{SPAN}-01"), (), CLUSTER)

    assert (root.trace_id, root.parent_id, root.is_parent_remote) == (TRACE, SPAN, True)
    assert (opcode.trace_id, opcode.parent_id, opcode.is_parent_remote) == (TRACE, root.span_id, False)
    assert job_spans(row(traceparent=f"00-{TRACE}-{SPAN}-00"), (), CLUSTER) == []


def test_a_wait_for_locks_is_within_its_opcode_and_others_are_within_the_job() -> None:
    waits = (
        wait(WaitKind.DEPENDENCY, 100.0, 109.0, job_ids=(3, 4)),
        # the clock was read a little before the opcode's
        wait(WaitKind.LOCKS, 129.9999, 130.4, job_ids=(5,), names=("node/a",)),
        wait(WaitKind.LOCKS, 60.0, 61.0),
    )

    spans = job_spans(row(), waits, CLUSTER)

    root = spans[0]
    dependency, within, elsewhere = spans[-3:]
    assert (dependency.parent_id, dependency.attributes["gantry.wait.jobs"]) == (root.span_id, [3, 4])
    assert dependency.attributes["gantry.wait.reason"] == "for jobs 3, 4 to end"
    assert (within.parent_id, within.start, within.end) == (named(spans, "TEST_DUMMY").span_id, 130.0, 130.4)
    assert within.attributes["gantry.wait.names"] == ["node/a"]
    assert elsewhere.parent_id == root.span_id


@pytest.mark.parametrize("kind", WaitKind)
def test_every_kind_of_wait_has_a_name_and_a_reason(kind: WaitKind) -> None:
    span = job_spans(row(), [wait(kind, 101.0, None)], CLUSTER)[-1]

    assert span.name == f"wait {kind.value}"
    assert span.end == 131.0
    assert span.attributes["gantry.wait.reason"]


def test_a_failure_is_told_and_what_never_began_has_no_span() -> None:
    failed = row(
        status="error",
        opstatus=["error", "error"],
        opresult=[["CommandFailed", ["'x' ended with exit code 1", {"exit_code": 1}]], ["OpPrereqError", ["no"]]],
        opstart=[[110, 0], None],
        opexec=[[120, 0], None],
        opend=[[125, 0], [125, 0]],
        exit_code=1,
        labels={"team": "web"},
    )

    root, opcode = job_spans(failed, (), CLUSTER)

    assert (root.is_success, opcode.is_success) == (False, False)
    assert "exit code 1" in root.failure
    assert opcode.failure == "'x' ended with exit code 1"
    assert (root.attributes["gantry.job.exit_code"], root.attributes["gantry.job.label.team"]) == (1, "web")


def test_a_canceled_job_has_neither_succeeded_nor_failed() -> None:
    values = {"opstatus": ["canceled"] * 2, "opstart": [None] * 2, "opexec": [None] * 2, "opend": [None] * 2}

    (root,) = job_spans(row(status="canceled", start_ts=None, **values), (), CLUSTER)

    assert (root.is_success, root.failure, root.attributes["gantry.job.status"]) == (None, "", "canceled")


def test_no_span_ends_before_it_begins_and_texts_are_bounded() -> None:
    turned = row(received_ts=[200, 0], summary=["x" * 9000, "y"])

    root, *rest = job_spans(turned, [wait(WaitKind.TURN, 300.0, 200.0)], CLUSTER)

    assert (root.start, root.end) == (200.0, 200.0)
    assert all(span.start <= span.end for span in rest)
    assert len(str(root.attributes["gantry.job.summary"])) == 500
    assert job_spans(row(end_ts=None), (), CLUSTER) == []
