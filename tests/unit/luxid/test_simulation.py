"""The simulator: traces small enough to work out by hand, and what holds for all.

Source: predictive-queue design; wconfd.md 5.1 to 5.3; DESIGN section 6.
"""

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.errors import InvalidRequest
from common.ids import JobId
from common.locks import BGL, Lock, LockMode, LockRequest, Owner, parse_lock, parse_mode
from common.paths import Paths
from common.queue.jobfile import encode_job
from common.queue.jobs import Job, JobOp, JobState, Timestamp
from daemons.luxid.core.choice.weights import WeightRules
from daemons.luxid.simulate.program import KINDS, export, generate
from daemons.luxid.simulate.replay import (
    FIRST_COME,
    PRIORITY,
    Policy,
    Run,
    SimulatedLimits,
    VirtualLocks,
    conflict,
    measure,
    policies,
    predictive,
    replay,
)
from daemons.luxid.simulate.trace import TraceJob, in_order, read_trace, write_trace
from daemons.wconfd.core.locks.waiting import LockState, free_all, update_or_queue

PREDICTIVE = predictive(30, WeightRules())


def job(arrival_s: float, duration_s: float, priority: int = 0, **locks: str) -> TraceJob:
    named = {parse_lock(name.replace("_", "/", 1)): parse_mode(mode) for name, mode in locks.items()}
    return TraceJob(arrival_s, duration_s, named, priority)


def times(trace: Sequence[TraceJob], policy: Policy, slots: int) -> list[tuple[float, float, float]]:
    """(started, executed, ended) of each job."""
    return [(run.started_s, run.executed_s, run.ended_s) for run in replay(trace, policy, SimulatedLimits(slots))]


# three jobs want one node, a fourth wants another one; all come at once, and there are two slots
CROWD = (
    job(0, 10, node_a="exclusive"),
    job(0, 10, node_a="exclusive"),
    job(0, 10, node_a="exclusive"),
    job(0, 10, node_b="exclusive"),
)


def test_first_come_spends_a_slot_on_waiting_for_a_lock() -> None:
    assert times(CROWD, FIRST_COME, 2) == [(0, 0, 10), (0, 10, 20), (10, 20, 30), (20, 20, 30)]


def test_prediction_starts_what_can_run_beside_the_others() -> None:
    assert times(CROWD, PREDICTIVE, 2) == [(0, 0, 10), (10, 10, 20), (10, 20, 30), (0, 0, 10)]


def test_prediction_ends_as_soon_as_weights_have_faded() -> None:
    # K=1 and a tick of 1 s: when the first job ends all others weigh nothing
    trace = (job(0, 20, node_a="exclusive"), *CROWD[1:], job(0, 10, node_c="exclusive"))
    hasty = Policy("hasty", WeightRules(tick_s=1, ticks=1))

    assert [started for started, _, _ in times(trace, hasty, 2)] == [0, 10, 20, 0, 30]
    assert [started for started, _, _ in times(trace, PREDICTIVE, 2)] == [0, 20, 20, 0, 10]


def test_priority_counts_but_for_first_come() -> None:
    trace = (job(0, 10), job(1, 10, priority=10), job(2, 10, priority=-10))

    assert [run[0] for run in times(trace, FIRST_COME, 1)] == [0, 10, 20]
    assert [run[0] for run in times(trace, PRIORITY, 1)] == [0, 20, 10]


def test_priority_counts_before_locks_too() -> None:
    trace = (
        job(0, 10, node_a="exclusive"),
        job(1, 10, priority=10, node_a="exclusive"),
        job(2, 10, priority=-10, node_a="exclusive"),
    )

    assert [run[1] for run in times(trace, FIRST_COME, 3)] == [0, 10, 20]
    assert [run[1] for run in times(trace, PRIORITY, 3)] == [0, 20, 10]


def test_an_end_frees_slot_and_locks_before_the_arrival_of_the_same_moment() -> None:
    trace = (job(0, 10, node_a="exclusive"), job(10, 5, node_a="exclusive"))

    assert times(trace, FIRST_COME, 1) == [(0, 0, 10), (10, 10, 15)]


def test_the_big_lock_is_waited_for_by_all() -> None:
    trace = (job(0, 10), job(0, 10, cluster_BGL="exclusive"), job(1, 10))

    assert times(trace, FIRST_COME, 3) == [(0, 0, 10), (0, 11, 21), (1, 1, 11)]


def test_measures_of_a_crowd() -> None:
    runs = replay(CROWD, FIRST_COME, SimulatedLimits(2))

    found = measure("first come", runs, runs)

    # waits are 0, 10, 20, 20; two of the jobs are blocked for 10 s each, of 60 s in slots
    assert (found.makespan_s, found.mean_wait_s, found.p95_wait_s, found.longest_wait_s) == (30, 12.5, 20, 20)
    assert (found.blocked_s, found.blocked_share, found.starvation) == (20, 20 / 60, 1)


def test_starvation_is_told_by_the_longest_wait_of_the_first_policy() -> None:
    trace = (job(0, 10), job(1, 10, priority=10), job(2, 10, priority=-10))
    before = replay(trace, FIRST_COME, SimulatedLimits(1))

    found = measure("priority", replay(trace, PRIORITY, SimulatedLimits(1)), before)

    # the longest wait is 19 s in place of 18 s
    assert found.starvation == pytest.approx(19 / 18)
    assert measure("alone", before[:1], before[:1]).starvation is None


# locks


def ask(locks: VirtualLocks, number: int, priority: int = 0, **wanted: str) -> bool:
    return locks.ask(JobId(number), priority, job(0, 0, 0, **wanted).locks)


@pytest.mark.parametrize(
    ("mine", "theirs", "is_conflict"),
    [
        ({"node_a": "shared"}, {"node_a": "shared"}, False),
        ({"node_a": "shared"}, {"node_a": "exclusive"}, True),
        ({"node_a": "exclusive"}, {"node_b": "exclusive"}, False),
        ({"node_[lockset]": "shared"}, {"node_a": "shared"}, False),
        ({"node_[lockset]": "shared"}, {"node_a": "exclusive"}, True),
        ({"node_[lockset]": "exclusive"}, {"node_a": "shared"}, True),
        ({"node_[lockset]": "exclusive"}, {"instance_a": "exclusive"}, False),
        ({"node_[lockset]": "shared"}, {"node_a": "shared", "node_b": "exclusive"}, True),
        ({}, {"node_a": "exclusive"}, False),
    ],
)
def test_who_conflicts(mine: dict[str, str], theirs: dict[str, str], is_conflict: bool) -> None:
    first, second = job(0, 0, 0, **mine).locks, job(0, 0, 0, **theirs).locks

    assert conflict(first, second) is is_conflict
    assert conflict(second, first) is is_conflict


def test_a_request_that_waits_reserves_nothing_and_is_granted_whole() -> None:
    locks = VirtualLocks(None)

    assert ask(locks, 1, node_a="exclusive")
    assert not ask(locks, 2, node_a="exclusive", node_b="exclusive")
    assert ask(locks, 3, node_b="exclusive")
    assert locks.free(JobId(1)) == []
    assert locks.free(JobId(3)) == [2]


def test_those_who_wait_are_granted_by_priority_then_number() -> None:
    locks = VirtualLocks(None)
    ask(locks, 1, node_a="exclusive")
    for number, priority in ((4, 0), (3, 0), (2, 10), (5, -10)):
        assert not ask(locks, number, priority, node_a="shared" if number != 5 else "exclusive")

    assert locks.free(JobId(1)) == [5]
    assert locks.free(JobId(5)) == [3, 4, 2]


def test_an_exclusive_request_is_passed_so_often_and_not_more() -> None:
    locks = VirtualLocks(2)
    ask(locks, 1, node_a="shared")
    assert not ask(locks, 2, node_a="exclusive")

    assert ask(locks, 3, node_a="shared")
    assert ask(locks, 4, node_a="shared")
    assert not ask(locks, 5, node_a="shared")
    assert ask(locks, 6, node_b="shared")

    assert [locks.free(JobId(number)) for number in (1, 3, 4)] == [[], [], [2]]
    assert locks.free(JobId(2)) == [5]


# all traces

LOCKS = st.dictionaries(
    st.sampled_from(("node/a", "node/b", "node/[lockset]", "instance/i", "cluster/BGL")).map(parse_lock),
    st.sampled_from(LockMode),
    max_size=3,
)
JOBS = st.builds(TraceJob, st.integers(0, 30), st.integers(0, 20), LOCKS, st.sampled_from((-10, 0, 10)))
TRACES = st.lists(JOBS, min_size=1, max_size=25).map(in_order)
POLICIES = st.sampled_from((*policies((1, 30), WeightRules()), Policy("quick", WeightRules(tick_s=2, ticks=3))))


@settings(max_examples=400, deadline=None)
@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 9), st.sampled_from((-10, 0, 10)), LOCKS), max_size=60),
    st.sampled_from((None, 0, 1, 3)),
)
def test_locks_are_granted_as_wconfd_does(
    steps: list[tuple[bool, int, int, dict[Lock, LockMode]]], max_bypass: int | None
) -> None:
    virtual, real = VirtualLocks(max_bypass), LockState.fair(max_bypass)
    present: list[int] = []
    for number, (is_ask, place, priority, locks) in enumerate(steps):
        if is_ask:
            owner, requests = Owner(number, "/l"), [LockRequest(lock, mode) for lock, mode in sorted(locks.items())]
            change = update_or_queue(real, owner, priority, requests)
            assert virtual.ask(JobId(number), priority, locks) is not change.is_queued
            present.append(number)
        elif present:
            left = present.pop(place % len(present))
            if real.pending_of(Owner(left, "/l")):
                present.append(left)
                continue
            change = free_all(real, Owner(left, "/l"))
            assert virtual.free(JobId(left)) == [owner.ident for owner in change.granted]
        else:
            continue
        real = change.state


@settings(deadline=None)
@given(TRACES, POLICIES, st.integers(1, 5), st.sampled_from((None, 0, 2)))
def test_every_job_runs_once_and_none_beside_what_excludes_it(
    trace: tuple[TraceJob, ...], policy: Policy, slots: int, max_bypass: int | None
) -> None:
    runs = replay(trace, policy, SimulatedLimits(slots, max_bypass))

    assert [run.job for run in runs] == list(trace)
    for run in runs:
        assert run.job.arrival_s <= run.started_s <= run.executed_s
        assert run.ended_s == run.executed_s + run.job.duration_s
    for run, other in combinations(runs, 2):
        assert not (_overlap(run, other) and conflict(_taken(run), _taken(other)))
    for run in runs:
        assert sum(other.started_s <= run.started_s < other.ended_s for other in runs) <= slots


def _overlap(run: Run, other: Run) -> bool:
    return max(run.executed_s, other.executed_s) < min(run.ended_s, other.ended_s)


def _taken(run: Run) -> dict[Lock, LockMode]:
    return {BGL: LockMode.SHARED, **run.job.locks}


@settings(deadline=None)
@given(TRACES, st.integers(1, 5))
def test_without_locks_and_priorities_all_policies_are_one(trace: tuple[TraceJob, ...], slots: int) -> None:
    plain = [TraceJob(each.arrival_s, each.duration_s) for each in trace]

    first, *others = [replay(plain, policy, SimulatedLimits(slots)) for policy in policies((1, 30), WeightRules())]

    assert all(each == first for each in others)


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_gives_the_same_trace_and_another_one_another(kind: str) -> None:
    trace = generate(kind, 100, 7)

    assert trace == generate(kind, 100, 7)
    assert trace != generate(kind, 100, 8)
    assert len(trace) == 100


def test_independent_jobs_are_never_blocked() -> None:
    for policy in policies((30,), WeightRules()):
        assert all(run.blocked_s == 0 for run in replay(generate("independent", 300, 1), policy, SimulatedLimits(10)))


# traces as files


@settings(deadline=None)
@given(TRACES)
def test_a_trace_survives_its_file(trace: tuple[TraceJob, ...]) -> None:
    assert read_trace(write_trace(trace), "t") == trace


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[]", "t, line 2: expected an object, got []"),
        ("{", "t, line 2: unexpected end of data: line 1 column 2 (char 1)"),
        ('{"arrival": -1, "duration": 1}', "t, line 2: arrival must be seconds, at least 0, got -1"),
        ('{"arrival": 0}', "t, line 2: duration must be seconds, at least 0, got None"),
        ('{"arrival": 0, "duration": 1, "lock": {}}', "t, line 2: unknown key 'lock'; keys are"),
        ('{"arrival": 0, "duration": 1, "priority": 20}', "t, line 2: priority must be from -20 to 19, got 20"),
        ('{"arrival": 0, "duration": 1, "locks": {"web": "shared"}}', "t, line 2: lock name 'web' has no level"),
        ('{"arrival": 0, "duration": 1, "locks": {"cluster/config": "shared"}}', "no job may ask for 'cluster/config'"),
    ],
)
def test_a_line_that_is_no_job_is_refused_by_its_number(line: str, message: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_trace(b'{"arrival": 0, "duration": 1}\n' + line.encode(), "t")

    assert message in str(caught.value)


def test_a_trace_without_jobs_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="has no jobs"):
        read_trace(b"\n", "t")


# from job files


def op(exec_s: int | None, end_s: int | None, priority: int = 0, **fields: object) -> JobOp:
    return JobOp(
        {"OP_ID": "OP_TEST_DUMMY", **fields},
        JobState.SUCCESS if end_s else JobState.QUEUED,
        priority=priority,
        exec_at=_at(exec_s),
        end_at=_at(end_s),
    )


def _at(seconds: int | None) -> Timestamp | None:
    return None if seconds is None else (1000 + seconds, 0)


def ended(number: int, received_s: int, *ops: JobOp) -> Job:
    return Job(JobId(number), ops, received_at=_at(received_s), end_at=ops[-1].end_at)


def test_an_export_has_what_was_executed_in_queue_and_archive(tmp_path: Path) -> None:
    paths = Paths.under_root(tmp_path)
    (paths.archive / "0").mkdir(parents=True)
    first = op(5, 15, -10, locks={"node/a": "shared"})
    second = op(16, 20, locks={"node/a": "exclusive", "node/b": "shared"})
    paths.archived_job_file(1).write_bytes(encode_job(ended(1, 3, first, second)))
    paths.job_file(2).write_bytes(encode_job(ended(2, 4, op(21, 22, depends=[[1, ["success"]]]))))
    paths.job_file(3).write_bytes(encode_job(ended(3, 5, op(None, None))))
    paths.job_file(4).write_bytes(b"{")
    unknown = JobOp({"OP_ID": "OP_BY_OTHERS"}, JobState.ERROR, exec_at=_at(30), end_at=_at(31))
    paths.job_file(5).write_bytes(encode_job(ended(5, 23, unknown)))

    found = export(paths)

    assert found.trace == (
        job(0, 14, -10, node_a="exclusive", node_b="shared"),
        # came when the job ended that it waited for
        job(17, 1),
        job(20, 1),
    )
    assert (found.unfinished, found.unreadable, found.partly_known) == (1, 1, 1)
