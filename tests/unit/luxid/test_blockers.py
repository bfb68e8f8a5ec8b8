"""What holds the most jobs back: by hand, and from a queue (DESIGN section 6, "Explain")."""

from collections.abc import Mapping, Sequence

from common.ids import JobId
from common.locks import LockMode, LockRequest, Owner, parse_lock
from common.objects.filter import Action, ActionKind, FilterRule
from common.queue.jobs import Job, JobOp
from common.queue.reasons import Batch, batch_entry
from common.queue.terms import JobTerms, read_use, terms_entry
from common.resources import Resource
from daemons.luxid.core.queue.jobqueue import JobQueue
from daemons.luxid.core.why.blockers import (
    DirectWaits,
    HeldLock,
    LockOwner,
    Ranked,
    lock_waits,
    rank,
    waits_of,
    way_from,
)
from protocol.luxi.why import Blocker, BlockerKind, LongWait, WayStep
from protocol.wconfd.locks import LocksStatus, Pending

COUNT = 3_000
X, S = LockMode.EXCLUSIVE, LockMode.SHARED
Locks = Mapping[LockOwner, Sequence[HeldLock]]
NO_LOCKS: Locks = {}


def job(job_id: int, *targets: int, reasons: Sequence[object] = (), priority: int = 0) -> Job:
    op = {"OP_ID": "OP_TEST_DUMMY", "depends": [[each, ["success"]] for each in targets], "reason": list(reasons)}
    return Job(JobId(job_id), (JobOp(op, priority=priority),), received_at=(1000 + job_id, 0))


def bucket(text: str) -> list[object]:
    return [["gnt:user", f"rate-limit:{text}", 1]]


def queue_with(*jobs: Job, slots: int = 10, rules: Sequence[FilterRule] = (), resources: Mapping[str, int] | None = None) -> JobQueue:  # fmt: skip  # noqa: E501
    """The queue after all jobs that can have been started."""
    queue = JobQueue(slots, slots, lambda _: None)
    queue.install_rules(rules)
    queue.units.replace([Resource("", key, total) for key, total in (resources or {}).items()])
    queue.add_all(jobs)
    while decisions := queue.decide(2000.0).start:
        for job_id in decisions:
            queue.started(job_id)
    return queue


def waits(queue: JobQueue, locks: Locks = NO_LOCKS) -> DirectWaits:
    return waits_of(queue, locks, lambda job_id: 1000.0 + job_id)


def ranked(queue: JobQueue, locks: Locks = NO_LOCKS, steps: int = 10_000) -> Ranked:
    return rank(waits(queue, locks), 10, steps)


def steps_of(wait: LongWait | None) -> list[tuple[str, str, str]]:
    assert wait is not None
    return [(step.kind.value, step.name, step.lock) for step in wait.way]


def brief(blocker: Blocker) -> tuple[str, str, int, int]:
    return blocker.kind.value, blocker.name, blocker.direct, blocker.behind


def test_a_chain_of_locks_and_dependencies_leads_to_the_job_that_waits_for_nothing() -> None:
    queue = queue_with(job(1), job(2), job(3), job(4, 3), job(5, 4))
    locks: Locks = {JobId(2): (HeldLock("node/a", JobId(1)),), JobId(3): (HeldLock("node/b", JobId(2)),)}

    (blocker,) = ranked(queue, locks).blockers

    assert brief(blocker) == ("job", "1", 1, 4)
    assert (blocker.is_at_least, blocker.job_ids, blocker.limit) == (False, (), None)
    # job 2 waits longest
    assert blocker.longest == LongWait(JobId(2), 1002.0, (WayStep(BlockerKind.JOB, "1", "node/a"),))
    way = way_from(waits(queue, locks), JobId(5))
    assert steps_of(way) == [("job", "4", ""), ("job", "3", ""), ("job", "2", "node/b"), ("job", "1", "node/a")]


def test_a_full_limit_is_told_with_its_jobs_as_long_as_several_go_on() -> None:
    queue = queue_with(*[job(each, reasons=bucket("2:disk")) for each in range(1, 8)], job(8, 7))

    (blocker,) = ranked(queue).blockers

    # job 8 waits for one that waits at the limit
    assert brief(blocker) == ("bucket", "2:disk", 5, 6)
    assert (blocker.job_ids, blocker.used, blocker.limit) == ((1, 2), 2, 2)
    assert blocker.longest == LongWait(JobId(3), 1003.0, (WayStep(BlockerKind.BUCKET, "2:disk"),))


def test_a_limit_whose_only_job_that_goes_on_is_known_leads_to_it() -> None:
    queue = queue_with(*[job(each, reasons=bucket("2:disk")) for each in range(1, 6)], job(6))
    locks: Locks = {JobId(1): (HeldLock("node/a", JobId(6)),)}

    blockers = ranked(queue, locks).blockers

    assert [brief(each) for each in blockers] == [("job", "2", 3, 3), ("job", "6", 1, 1)]
    assert steps_of(blockers[0].longest) == [("bucket", "2:disk", ""), ("job", "2", "")]


def test_a_limit_of_which_no_job_goes_on_leads_to_those_for_whom_they_wait() -> None:
    queue = queue_with(*[job(each, reasons=bucket("2:disk")) for each in range(1, 6)], job(6))
    locks: Locks = {JobId(each): (HeldLock("node/a", JobId(6)),) for each in (1, 2)}

    (blocker,) = ranked(queue, locks).blockers

    assert brief(blocker) == ("job", "6", 2, 5)
    assert steps_of(way_from(waits(queue, locks), JobId(5))) == [
        ("bucket", "2:disk", ""),
        ("job", "1", ""),
        ("job", "6", "node/a"),
    ]


def test_batches_resources_rules_and_slots_are_told_each_with_those_whom_they_hold() -> None:
    rule = FilterRule(
        uuid="00000000-0000-4000-8000-000000000001",
        watermark=JobId(99),
        priority=0,
        predicates=(),
        action=Action(ActionKind.PAUSE),
        reason_trail=(),
    )
    in_batch = [batch_entry(Batch("b1", 1, 3, at_most=2), 1).to_wire()]
    wants = [terms_entry(JobTerms(uses=(read_use("kits", 2),)), 1).to_wire()]
    jobs = [
        *(job(each, reasons=in_batch, priority=-10) for each in (1, 2, 3)),
        *(job(each, reasons=wants, priority=-10) for each in (4, 5, 6)),
        *(job(each) for each in (7, 8, 9, 10)),
    ]
    queue = queue_with(*jobs, slots=5, resources={"kits": 5})

    found = {each.kind: each for each in ranked(queue).blockers}

    assert brief(found[BlockerKind.BATCH]) == ("batch", "b1", 1, 1)
    assert brief(found[BlockerKind.RESOURCE]) == ("resource", "kits", 1, 1)
    resource = found[BlockerKind.RESOURCE]
    assert (resource.job_ids, resource.used, resource.limit) == ((4, 5), 4, 5)
    assert resource.longest == LongWait(JobId(6), 1006.0, (WayStep(BlockerKind.RESOURCE, "kits"),))
    assert brief(found[BlockerKind.SLOTS]) == ("slots", "", 3, 3)
    assert (found[BlockerKind.SLOTS].used, found[BlockerKind.SLOTS].limit) == (5, 5)

    paused = queue_with(*jobs, rules=[rule])

    (blocker,) = ranked(paused).blockers
    assert brief(blocker) == ("pause", rule.uuid, 10, 10)
    assert blocker.longest is not None
    assert blocker.longest.job_id == 1


def test_jobs_that_wait_for_each_other_are_told_as_a_ring() -> None:
    queue = queue_with(job(1), job(2), job(3), job(4, 3))
    locks: Locks = {
        JobId(1): (HeldLock("node/a", JobId(2)),),
        JobId(2): (HeldLock("node/b", JobId(1)),),
        JobId(3): (HeldLock("node/b", JobId(1)),),
    }

    (blocker,) = ranked(queue, locks).blockers

    assert (blocker.kind, set(blocker.job_ids), blocker.used, blocker.behind) == (BlockerKind.RING, {1, 2}, 2, 2)
    assert blocker.longest is not None
    assert blocker.longest.job_id == 3

    alone = ranked(queue_with(job(1), job(2)), {each: locks[each] for each in (JobId(1), JobId(2))}).blockers

    assert [(each.kind, set(each.job_ids), each.behind) for each in alone] == [(BlockerKind.RING, {1, 2}, 0)]


def test_an_owner_that_is_no_job_is_named() -> None:
    queue = queue_with(job(1), job(2))
    locks: Locks = {JobId(1): (HeldLock("cluster/BGL", "watcher"),)}

    (blocker,) = ranked(queue, locks).blockers

    assert brief(blocker) == ("owner", "watcher", 1, 1)

    (blocker,) = ranked(queue, {**locks, "watcher": (HeldLock("node/a", JobId(2)),)}).blockers

    # jobs are counted, not what stands between them
    assert brief(blocker) == ("job", "2", 1, 1)
    assert steps_of(blocker.longest) == [("owner", "watcher", "cluster/BGL"), ("job", "2", "node/a")]


def test_the_work_is_bounded_however_long_a_chain_is_and_its_number_says_so() -> None:
    queue = queue_with(job(1), *[job(each, each - 1) for each in range(2, COUNT + 1)])

    whole, part = ranked(queue), ranked(queue, steps=100)

    assert (whole.is_partial, part.is_partial) == (False, True)
    (blocker,) = whole.blockers
    assert (blocker.behind, blocker.is_at_least) == (COUNT - 1, False)
    (blocker,) = part.blockers
    assert (100 <= blocker.behind < 110, blocker.is_at_least) == (True, True)
    last = way_from(waits(queue), JobId(COUNT))
    assert (len(last.way), last.left_out > 0) == (6, True)


def test_of_many_jobs_with_many_dependents_the_largest_are_told() -> None:
    pairs = [job(each) if each % 2 else job(each, each - 1) for each in range(1, 401)]
    crowd = [job(each, 1) for each in range(401, 501)]

    found = ranked(queue_with(*pairs, *crowd, slots=1000)).blockers

    assert brief(found[0]) == ("job", "1", 101, 101)
    assert [each.behind for each in found[1:]] == [1] * 9


def test_who_waits_for_a_lock_waits_for_all_whose_locks_meet_it() -> None:
    def owner(ident: int | str) -> Owner:
        return Owner(ident, f"/run/{ident}")

    one, group, bgl = parse_lock("node/one"), parse_lock("node/[lockset]"), parse_lock("cluster/BGL")
    status = LocksStatus(
        ((one, ((owner(1), X),)), (group, ((owner(2), S),)), (bgl, ((owner(1), S), (owner("x"), S), (owner(3), S)))),
        (
            Pending(0, owner(3), (LockRequest(bgl, S), LockRequest(one, S))),
            Pending(0, owner(4), (LockRequest(group, S),)),
            Pending(0, owner(5), (LockRequest(one, X), LockRequest(bgl, X))),
            Pending(0, owner(6), (LockRequest(parse_lock("node/two"), X),)),
            Pending(0, owner("y"), (LockRequest(one, X),)),
            Pending(0, owner(7), (LockRequest(parse_lock("network/free"), X),)),
        ),
    )

    found = {waiter: [(each.lock, each.holder) for each in held] for waiter, held in lock_waits(status).items()}

    assert found == {
        3: [("node/one", 1)],
        4: [("node/[lockset]", 1)],
        "y": [("node/one", 1), ("node/one", 2)],
        5: [("cluster/BGL", 1), ("cluster/BGL", "x"), ("cluster/BGL", 3), ("node/one", 1), ("node/one", 2)],
        6: [("node/two", 2)],
    }
