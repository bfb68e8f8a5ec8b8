"""What a job process writes of its waits for locks (DESIGN section 6, "Explain"; ours)."""

import signal
import time
from os import kill
from pathlib import Path

import pytest

from common.ids import JobId
from common.locks import BGL, LockMode, LockRequest, Owner, parse_lock
from common.queue.explanation import NAMED, SHORTEST_S, Cause, Span, WaitKind, assemble
from common.queue.jobs import JobState
from common.queue.sidefiles import read_spans
from daemons.jobproc import jobrecord
from daemons.jobproc.jobrecord import WaitRecord
from protocol.wconfd.locks import InTheWay
from tests.support.daemons.forkserver import JobHost
from tests.support.wait import wait_until

STRANGER = Owner("stranger", "/run/stranger")
HOLDER = Owner(18, "/run/18")
NODE = LockRequest(parse_lock("node/n1"), LockMode.EXCLUSIVE)
WEB = LockRequest(parse_lock("instance/web1"), LockMode.EXCLUSIVE)
WITH_NODE = {"OP_ID": "OP_TEST_DUMMY", "locks": {"node/n1": "exclusive"}}
BGL_SHARED = LockRequest(BGL, LockMode.SHARED)
BEHIND_HOLDER = Cause(WaitKind.LOCKS, (18,), ("node/n1",))


def spans(host: JobHost) -> list[Span]:
    return read_spans(host.paths.waits_file(1), 1)


def wait_for_beginning(host: JobHost) -> None:
    wait_until(lambda: [span.until for span in spans(host)] == [None], what="the wait is told")


def test_a_wait_is_told_while_it_lasts_and_when_it_is_over(host: JobHost) -> None:
    host.wconfd.hold(HOLDER, NODE)
    started = host.start(1, WITH_NODE)
    before = time.time()
    wait_for_beginning(host)

    host.wconfd.free(HOLDER)
    host.wait_exit(started.pid)

    beginning, whole = spans(host)
    assert beginning.cause == whole.cause == BEHIND_HOLDER
    assert beginning.since == whole.since
    assert whole.until is not None
    assert whole.until - whole.since >= SHORTEST_S
    assert abs(whole.since - before) < 60
    assert assemble([beginning, whole], [], 0.0, None) == (whole,)
    # the first one was only as long as what is not worth telling
    assert host.wconfd.methods.count("waitLocks") == 2


def test_a_wait_that_was_canceled_is_told(host: JobHost) -> None:
    host.wconfd.hold(STRANGER, NODE)
    started = host.start(1, WITH_NODE)
    wait_for_beginning(host)

    kill(started.pid, signal.SIGTERM)
    host.wait_exit(started.pid)

    assert host.job(1).state is JobState.CANCELED
    assert [span.cause for span in spans(host)] == [Cause(WaitKind.LOCKS, names=("node/n1",), owners=("stranger",))] * 2
    assert spans(host)[1].until is not None


def test_locks_that_are_free_leave_no_trace(host: JobHost) -> None:
    host.run(1, WITH_NODE, WITH_NODE)

    assert host.states(1) == ["success", "success"]
    assert list(host.paths.waits.iterdir()) == []


def test_a_history_that_cannot_be_written_stops_no_job(host: JobHost) -> None:
    host.paths.waits.rmdir()
    host.wconfd.hold(STRANGER, NODE)
    started = host.start(1, WITH_NODE)
    wait_until(lambda: "waits.not_written" in host.log(), what="the failure is logged")

    host.wconfd.free(STRANGER)
    host.wait_exit(started.pid)

    assert host.states(1) == ["success"]


class Clock:
    """Stands still until it is told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(jobrecord, "time", self)

    def time(self) -> float:
        return self.now


def test_only_a_wait_that_is_long_enough_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    record = WaitRecord(tmp_path / "0", JobId(1))

    for length in (0.05, 0.25):
        with record.waiting([NODE], [HOLDER]):
            clock.now += length

    assert read_spans(tmp_path / "0", 1) == [Span(BEHIND_HOLDER, 100.05, clock.now)]


def test_a_wait_that_was_told_has_an_end_whatever_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    record = WaitRecord(tmp_path / "0", JobId(1))

    def wait() -> None:
        with record.waiting([BGL_SHARED, NODE, WEB], [HOLDER, STRANGER]) as lasts:
            lasts(())
            clock.now -= 5
            raise SystemExit

    with pytest.raises(SystemExit):
        wait()

    cause = Cause(WaitKind.LOCKS, (18,), ("node/n1", "instance/web1"), ("stranger",))
    assert read_spans(tmp_path / "0", 1) == [Span(cause, 100.0, None), Span(cause, 100.0, 95.0)]


def test_what_is_known_to_be_in_the_way_is_named_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    other = Owner(19, "/run/19")
    in_the_way = [
        InTheWay(NODE.lock, LockMode.EXCLUSIVE, holder, NODE.lock, LockMode.SHARED, 90.0) for holder in (HOLDER, other)
    ]

    with WaitRecord(tmp_path / "0", JobId(1)).waiting([BGL_SHARED, NODE, WEB], [HOLDER]) as lasts:
        lasts(in_the_way)
        clock.now += 1

    cause = Cause(WaitKind.LOCKS, (18, 19), ("node/n1",))
    assert read_spans(tmp_path / "0", 1) == [Span(cause, 100.0, None), Span(cause, 100.0, 101.0)]


def test_the_big_lock_is_named_if_nothing_else_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)

    with WaitRecord(tmp_path / "0", JobId(1)).waiting([BGL_SHARED], [HOLDER]):
        clock.now += 1

    assert read_spans(tmp_path / "0", 1)[0].cause == Cause(WaitKind.LOCKS, (18,), ("cluster/BGL",))


def test_of_many_locks_and_owners_the_first_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    requests = [LockRequest(parse_lock(f"node/n{number}"), LockMode.SHARED) for number in range(NAMED + 5)]
    owners = [Owner(number, f"/run/{number}") for number in range(NAMED + 3)]

    with WaitRecord(tmp_path / "0", JobId(1)).waiting(requests, owners):
        clock.now += 1

    [span] = read_spans(tmp_path / "0", 1)
    assert span.cause.job_ids == tuple(range(NAMED))
    assert span.cause.more == 3
    assert span.cause.names == tuple(f"node/n{number}" for number in range(NAMED))
