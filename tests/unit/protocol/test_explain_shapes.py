"""The reasons of a job, on the wire: exactly these bytes, and back."""

import pytest

from common.errors import InvalidRequest
from common.ids import JobId
from common.jsontext import ascii_json
from common.locks import BGL, LockMode, parse_lock
from common.objects.filter import Action, ActionKind
from common.queue.explanation import (
    Cause,
    HeldByOrphan,
    HeldByRule,
    Holding,
    LevelWeight,
    LockChain,
    LockWait,
    Outlived,
    Reason,
    SilentNode,
    Span,
    TakenUp,
    WaitKind,
    WaitsForJob,
)
from common.queue.jobs import JobState
from common.queue.reasons import ReasonEntry
from common.shapes import OtherKind
from common.wire import unstructure
from protocol.luxi.why import ExplainJobs, ReadJobWaits
from protocol.messages import structure_reply

HOLDING = Holding("job/4", JobId(4), parse_lock("node/a"), LockMode.SHARED, 5.5)
HOLDING_TEXT = b'{"owner":"job/4","job_id":4,"lock":"node/a","mode":"shared","since":5.5}'
WRITTEN: list[tuple[Reason, bytes]] = [
    (
        WaitsForJob(JobId(7), JobState.RUNNING, None, (JobState.SUCCESS,)),
        b'{"kind":"dependency","job_id":7,"state":"running","since":null,"wanted":["success"]}',
    ),
    (
        HeldByRule("u", Action(ActionKind.RATE_LIMIT, 2), (ReasonEntry("gnt:user", "why", 9),)),
        b'{"kind":"filter","uuid":"u","action":["RATE_LIMIT",2],"reason_trail":[["gnt:user","why",9]]}',
    ),
    (
        LevelWeight("big lock", 1.5, (), (HOLDING,)),
        b'{"kind":"weight","level":"big lock","weight":1.5,"job_ids":[],"held":[' + HOLDING_TEXT + b"]}",
    ),
    (
        LockChain((LockWait("me", None, BGL, LockMode.EXCLUSIVE, 8.0, (HOLDING,)),), ("job/4",), (JobId(4),), (), 1.0),
        b'{"kind":"lock chain","waits":[{"owner":"me","job_id":null,"lock":"cluster/BGL","mode":"exclusive",'
        b'"waiting_since":8.0,"holders":[' + HOLDING_TEXT + b"]}],"
        b'"roots":["job/4"],"root_job_ids":[4],"rings":[],"counting_since":1.0}',
    ),
    (
        HeldByOrphan("job/4", JobId(4), ("web1",), 5.5, None),
        b'{"kind":"ghost","owner":"job/4","job_id":4,"nodes":["web1"],"since":5.5,"ends_at":null}',
    ),
    (
        SilentNode("web1", 2.0, 302.0, may_run=False, why="refused"),
        b'{"kind":"silent node","node":"web1","since":2.0,"until":302.0,"may_run":false,"why":"refused"}',
    ),
    (Outlived((311, 312)), b'{"kind":"outlived","pids":[311,312]}'),
    (TakenUp("web1", 2), b'{"kind":"taken up","node":"web1","deaths":2}'),
    (OtherKind("phase of the moon", {"days": 3}), b'{"kind":"phase of the moon","days":3}'),
]


@pytest.mark.parametrize(("reason", "text"), WRITTEN)
def test_a_reason_is_written_with_its_kind_in_front_and_read_as_its_class(reason: Reason, text: bytes) -> None:
    wire = unstructure(((reason,), None))

    assert ascii_json(wire) == b"[[" + text + b"],null]"
    assert structure_reply(ExplainJobs, wire) == ((reason,), None)


def test_a_known_kind_with_other_fields_is_refused() -> None:
    with pytest.raises(InvalidRequest, match=r"unknown key 'why' @ \$\[0\]\[0\]"):
        structure_reply(ExplainJobs, [[{"kind": "obstacle", "what": "x", "why": "y"}]])


def test_spans_are_written_without_what_is_empty() -> None:
    span = Span(Cause(WaitKind.LIMIT, names=("3:backup",), limit=3, is_bucket=True), 2.0, None)

    wire = unstructure(((span,), None))

    text = b'{"kind":"limit","names":["3:backup"],"limit":3,"is_bucket":true,"since":2.0,"until":null}'
    assert ascii_json(wire) == b"[[" + text + b"],null]"
    assert structure_reply(ReadJobWaits, wire) == ((span,), None)
