"""Which job is next: filters in the queue, the seed's examples, weights, and what an event costs."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from common.errors import InvalidRequest
from common.ids import JobId
from common.locks import LockMode, parse_lock
from common.objects.filter import FilterRule
from common.queue.jobs import Job, JobOp, JobState
from common.queue.reasons import ReasonEntry
from daemons.luxid.core.choice.readings import next_needs
from daemons.luxid.core.choice.weights import WeightRules
from daemons.luxid.core.filters.judging import SLICE
from daemons.luxid.core.queue.entry import Decisions, Phase, Rejected
from daemons.luxid.core.queue.jobqueue import JobQueue
from tests.support.filterrules import filter_rule

NOW = 1_800_000_000
TRAIL = (ReasonEntry("gnt:user", "maintenance of rack 5", 1),)


def rule(action: Any, *predicates: Any, uuid: str = "u", priority: int = 0, watermark: int = 0) -> FilterRule:
    return filter_rule(
        watermark=JobId(watermark),
        priority=priority,
        predicates=predicates,
        action=action,
        reason_trail=TRAIL,
        uuid=uuid,
    )


def make_job(job_id: int, *ops: Mapping[str, Any], reason: str = "", priority: int = 0, age_s: int = 0) -> Job:
    trail = {"reason": [["gnt:user", reason, 1]]}
    made = tuple(
        JobOp({**trail, **op}, priority=priority) for op in ops or ({"OP_ID": "OP_TEST_DELAY", "duration": 1},)
    )
    return Job(JobId(job_id), made, received_at=(NOW - age_s, 0))


def command(**locks: str) -> Mapping[str, Any]:
    named = {name.replace("_", "/", 1): mode for name, mode in locks.items()}
    return {"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], "locks": named}


REPLACE = {"OP_ID": "OP_INSTANCE_REPLACE_DISKS", "mode": "replace_auto"}
CREATE = {"OP_ID": "OP_INSTANCE_CREATE"}
# jobs that come after the rule was made, as `gnt-filter drain` and `soft-drain` have it
NEWER = ["jobid", [">", "id", "watermark"]]


def make_queue(*jobs: Job, slots: int = 100) -> JobQueue:
    queue = JobQueue(slots, slots, lambda _: None)
    queue.add_all(jobs)
    return queue


def start(queue: JobQueue, now_s: float = NOW) -> tuple[int, ...]:
    started = queue.decide(now_s).start
    for job_id in started:
        queue.started(job_id)
    return started


def test_an_orphaned_job_takes_a_place_of_the_rule_that_came_while_its_file_was_read() -> None:
    queue = make_queue(make_job(1))
    start(queue)
    queue.install_rules([rule(["RATE_LIMIT", 1])])
    queue.hold(JobId(1))
    queue.install_rules([rule(["RATE_LIMIT", 2])])

    queue.orphan(make_job(1))
    queue.add_all([make_job(2), make_job(3)])

    assert start(queue) == (2,)
    queue.end(JobId(2), JobState.SUCCESS)
    assert start(queue) == (3,)
    queue.end(JobId(1), JobState.SUCCESS)
    queue.end(JobId(3), JobState.SUCCESS)
    assert queue.limit_usage.counts() == (0, 0)


# the examples of the filters design


def test_a_drain_lets_what_is_queued_run_and_refuses_what_comes() -> None:
    queue = make_queue(make_job(1), make_job(2))
    drain = rule("REJECT", NEWER, watermark=2)

    queue.install_rules([drain])

    assert queue.decide(NOW) == Decisions(start=(JobId(1), JobId(2)))
    assert queue.rejecting_rule(make_job(3)) is drain


def test_a_soft_drain_lets_what_is_queued_run_and_what_comes_waits_until_it_is_deleted() -> None:
    queue = make_queue(make_job(1), make_job(2))

    queue.install_rules([rule("PAUSE", NEWER, watermark=2)])

    assert start(queue) == (1, 2)
    assert queue.rejecting_rule(make_job(3)) is None
    queue.add(make_job(3))
    assert start(queue) == ()
    queue.install_rules([])
    assert start(queue) == (3,)


def test_all_but_one_maintenance_is_paused() -> None:
    queue = make_queue(make_job(1, reason="nightly"), make_job(2, reason="maintenance of rack 5"))

    queue.install_rules(
        [
            rule("ACCEPT", ["reason", ["=~", "reason", "maintenance of rack 5"]], uuid="a", priority=0),
            rule("PAUSE", uuid="b", priority=1),
        ]
    )

    assert start(queue) == (2,)
    queue.install_rules([])
    assert start(queue) == (1,)


def test_instance_creations_are_canceled_and_nothing_else() -> None:
    queue = make_queue(
        make_job(1, {**CREATE, "instance_name": "a"}),
        make_job(2, {**REPLACE, "instance_name": "b"}),
        make_job(3, {**REPLACE, "instance_name": "c"}, {**CREATE, "instance_name": "d"}),
    )

    queue.install_rules([rule("REJECT", ["opcode", ["==", "OP_ID", "OP_INSTANCE_CREATE"]])])

    decisions = queue.decide(NOW)
    assert [each.job_id for each in decisions.rejected] == [1, 3]
    assert decisions.start == (2,)


def test_at_most_ten_disk_replacements_run() -> None:
    queue = make_queue(*(make_job(n, {**REPLACE, "instance_name": f"i{n}"}) for n in range(1, 21)), make_job(21))

    queue.install_rules([rule(["RATE_LIMIT", 10], ["opcode", ["==", "OP_ID", "OP_INSTANCE_REPLACE_DISKS"]])])

    assert sorted(start(queue)) == [*range(1, 11), 21]
    queue.end(JobId(21), JobState.SUCCESS)
    assert start(queue) == ()
    queue.end(JobId(4), JobState.ERROR)
    assert start(queue) == (11,)


# the chain and jobs that run


def test_a_rule_that_rejects_all_cancels_what_waits_lets_what_runs_run_and_refuses_what_comes() -> None:
    queue = make_queue(make_job(1))
    assert start(queue) == (1,)
    queue.add(make_job(2))
    reject = rule("REJECT")

    queue.install_rules([reject])

    assert queue.decide(NOW) == Decisions(rejected=(Rejected(JobId(2), reject),))
    assert queue.phase(JobId(2)) is Phase.HELD
    assert queue.phase(JobId(1)) is Phase.RUNNING
    assert queue.rejecting_rule(make_job(3)) is reject


def test_a_rule_limit_counts_running_jobs_to_which_this_rule_applies() -> None:
    queue = make_queue(*(make_job(n, reason="x" if n < 3 else "y") for n in range(1, 7)))
    assert start(queue) == (1, 2, 3, 4, 5, 6)
    queue.add_all([make_job(7, reason="y"), make_job(8, reason="x")])

    queue.install_rules(
        [
            rule(["RATE_LIMIT", 3], ["reason", ["==", "reason", "x"]], uuid="a"),
            rule(["RATE_LIMIT", 3], uuid="b", priority=1),
        ]
    )

    assert start(queue) == (8,)


def test_a_running_job_is_told_to_pause_once_and_to_go_on_once() -> None:
    queue = make_queue(make_job(1), make_job(2, reason="spared"))
    start(queue)
    queue.install_rules([rule("ACCEPT", ["reason", ["==", "reason", "spared"]], uuid="a"), rule("PAUSE", uuid="b")])

    assert queue.decide(NOW) == Decisions(pause=(JobId(1),))
    assert queue.decide(NOW) == Decisions()
    assert queue.should_pause(JobId(1))

    queue.install_rules([])

    assert queue.decide(NOW) == Decisions(resume=(JobId(1),))
    assert not queue.should_pause(JobId(1))


def test_a_job_that_stopped_between_opcodes_waits_until_the_rule_is_gone() -> None:
    queue = make_queue(make_job(1))
    start(queue)
    queue.install_rules([rule("PAUSE")])
    queue.decide(NOW)

    queue.hold(JobId(1))
    queue.add(make_job(1))

    assert queue.decide(NOW) == Decisions(resume=(JobId(1),))
    queue.install_rules([])
    assert start(queue) == (1,)


def test_a_job_that_begins_under_a_new_pause_is_told() -> None:
    queue = make_queue(make_job(1))
    assert queue.decide(NOW).start == (1,)
    queue.install_rules([rule("PAUSE")])
    assert queue.decide(NOW) == Decisions()

    queue.started(JobId(1))

    assert queue.decide(NOW).pause == (1,)


def test_a_bad_rule_leaves_the_chain_in_force() -> None:
    queue = make_queue(make_job(1))
    queue.install_rules([rule("PAUSE")])

    with pytest.raises(InvalidRequest):
        queue.install_rules([rule("ACCEPT", ["reason", ["=~", "reason", "("]])])

    assert start(queue) == ()


def test_a_job_is_judged_once_for_each_chain() -> None:
    queue = make_queue(*(make_job(n) for n in range(1, 11)), slots=2)
    chain = [rule("ACCEPT", ["jobid", ["<", "id", 100]])]
    queue.install_rules(chain)
    assert start(queue) == (1, 2)
    assert queue.judged == 10

    queue.install_rules(chain)
    queue.end(JobId(1), JobState.SUCCESS)
    assert start(queue) == (3,)
    for job in (make_job(4, priority=-10), make_job(2)):
        queue.hold(job.job_id)
        queue.add(job)
    start(queue)

    assert queue.judged == 10


def test_a_new_chain_is_applied_slice_by_slice_and_nobody_starts_before_those_that_it_may_let_through() -> None:
    queue = make_queue(*(make_job(n, reason="x") for n in range(1, 2 * SLICE + 2)), slots=1)
    queue.install_rules([rule("PAUSE")])
    while queue.decide(NOW).is_unfinished:
        pass

    queue.install_rules([rule("PAUSE", ["jobid", ["<=", "id", 2 * SLICE]])])

    assert queue.decide(NOW) == Decisions(is_unfinished=True)
    assert queue.decide(NOW) == Decisions(is_unfinished=True)
    assert queue.decide(NOW).start == (2 * SLICE + 1,)


def test_who_was_let_through_is_judged_when_it_is_the_best_and_started_before_the_rest_is_judged() -> None:
    queue = make_queue(*(make_job(n, age_s=30 * n) for n in range(1, 10 * SLICE)), slots=1)
    oldest = 10 * SLICE - 1

    queue.install_rules([rule("PAUSE", ["jobid", ["==", "id", oldest]])])

    assert queue.decide(NOW) == Decisions(start=(JobId(oldest - 1),), is_unfinished=True)
    assert queue.judged == SLICE + 2


@pytest.mark.parametrize(
    "unlike",
    [
        ["==", "OP_ID", "OP_NODE_ADD"],
        ["&", ["=~", "OP_ID", "INSTANCE"], ["==", "instance_name", "web1"]],
        ["|", ["==", "OP_ID", "OP_NODE_ADD"], ["&", ["==", "OP_ID", "OP_NODE_REMOVE"], ["?", "name"]]],
    ],
)
def test_a_rule_about_opcodes_that_no_job_has_is_looked_at_once_however_many_wait(unlike: list[Any]) -> None:
    queue = make_queue(*(make_job(n, command(**{f"node_n{n}": "exclusive"})) for n in range(1, 1_000)), slots=1)
    start(queue)
    before, judged = queue.touched, queue.judged

    queue.install_rules([rule("PAUSE", ["opcode", unlike])])
    assert queue.decide(NOW) == Decisions()
    queue.install_rules([])
    assert queue.decide(NOW) == Decisions()

    # the jobs with a process are judged each time
    assert queue.judged - judged == 1
    assert queue.touched - before <= 4


def test_a_rule_that_goes_is_forgotten_by_those_to_whom_it_applied_and_nobody_else_is_looked_at() -> None:
    kept = rule("ACCEPT", ["reason", ["==", "reason", "spared"]], uuid="a")
    queue = make_queue(*(make_job(n, reason="spared" if n % 100 else "") for n in range(1, 1_000)), slots=1)
    queue.install_rules([kept, rule("PAUSE", uuid="b", priority=1)])
    while queue.decide(NOW).is_unfinished:
        pass
    judged, touched = queue.judged, queue.touched

    queue.install_rules([kept])
    queue.decide(NOW)

    assert queue.phase(JobId(100)) is Phase.READY
    assert queue.judged - judged <= 1
    assert queue.touched - touched < 10 * 9 + 20


def test_when_a_rule_goes_the_ones_behind_it_get_their_say() -> None:
    first, second = rule("ACCEPT", uuid="a"), rule("PAUSE", uuid="b", priority=1)
    queue = make_queue(make_job(1))
    queue.install_rules([first, second])
    queue.decide(NOW, may_start=False)

    queue.install_rules([second])

    assert start(queue) == ()
    queue.install_rules([])
    assert start(queue) == (1,)


def test_a_chain_that_comes_before_the_last_one_was_applied_is_what_counts() -> None:
    queue = make_queue(*(make_job(n, reason="x" if n % 2 else "y") for n in range(1, 4 * SLICE)))
    first = rule("PAUSE", ["reason", ["==", "reason", "x"]], uuid="a")
    second = rule("PAUSE", ["reason", ["==", "reason", "y"]], uuid="b")
    queue.install_rules([first])
    queue.decide(NOW, may_start=False)
    queue.install_rules([second])
    queue.decide(NOW, may_start=False)
    queue.install_rules([first, rule("REJECT", ["jobid", ["==", "id", 3]], uuid="c", priority=1)])

    while (decisions := queue.decide(NOW, may_start=False)).is_unfinished:
        assert not decisions.rejected

    assert start(queue) == tuple(range(2, 4 * SLICE, 2))


# weights


def test_of_equal_priority_the_lighter_job_is_first() -> None:
    queue = make_queue(make_job(1, command(node_a="exclusive")), slots=2)
    assert start(queue) == (1,)
    queue.add_all(
        [
            make_job(2, command(node_a="exclusive")),
            make_job(3, command(node_b="exclusive")),
            make_job(4, command(node_b="shared")),
        ]
    )

    assert start(queue) == (4,)
    queue.end(JobId(4), JobState.SUCCESS)
    assert start(queue) == (3,)


def test_priority_comes_before_weight() -> None:
    """DIFF-25."""
    queue = make_queue(make_job(1, command(node_a="exclusive")), slots=2)
    start(queue)
    queue.add_all([make_job(2, command()), make_job(3, command(node_a="exclusive"), priority=-10)])

    assert start(queue) == (3,)


def test_a_job_picked_before_in_the_same_decision_counts_as_running() -> None:
    jobs = [make_job(n, command(node_a="exclusive")) for n in (1, 2)]

    assert start(make_queue(*jobs, make_job(3, command(node_b="exclusive")))) == (1, 3, 2)


def test_live_locks_change_the_order() -> None:
    queue = make_queue(make_job(1, command(node_a="exclusive")), slots=2)
    start(queue)
    queue.add_all([make_job(2, command(node_a="exclusive")), make_job(3, command(node_b="exclusive"))])

    queue.set_locks(JobId(1), {parse_lock("node/b"): LockMode.EXCLUSIVE})

    assert start(queue) == (2,)


def test_the_opcode_under_way_is_what_counts_of_a_running_job() -> None:
    """DIFF-26: the real branch looked at first opcodes only."""
    first, second = command(node_a="exclusive"), command(node_b="exclusive")
    queue = make_queue(make_job(1, first, second), slots=2)
    start(queue)
    queue.add_all([make_job(2, first), make_job(3, second)])

    done = make_job(1, first, second)
    queue.advanced(Job(done.job_id, (JobOp(first, state=JobState.SUCCESS), done.ops[1]), received_at=done.received_at))

    assert start(queue) == (2,)


def test_news_of_a_job_whose_process_is_gone_take_no_locks() -> None:
    queue = make_queue(make_job(1, command(node_a="exclusive")), slots=2)
    start(queue)
    queue.hold(JobId(1))

    queue.advanced(make_job(1, command(node_b="exclusive")))
    queue.set_locks(JobId(1), {parse_lock("node/b"): LockMode.EXCLUSIVE})

    assert queue.running_locks.weight_of(next_needs(make_job(2, command(node_b="exclusive")))) == 1


def test_age_makes_a_heavy_job_overtake() -> None:
    def first(age_s: int) -> tuple[int, ...]:
        queue = make_queue(make_job(1, command(node_a="exclusive")), slots=2)
        start(queue)
        queue.add_all([make_job(2, command(node_a="exclusive"), age_s=age_s), make_job(3, command(node_b="shared"))])
        return start(queue)

    assert first(0) == (3,)
    assert first(600) == (3,)
    assert first(690) == (2,)


@pytest.mark.parametrize("base", [1.0, 0.0])
def test_nobody_starves_behind_an_endless_stream_of_lighter_jobs(base: float) -> None:
    """After K ticks, whoever came later waits behind it."""
    weights = WeightRules(base=base, tick_s=30, ticks=30)
    queue = JobQueue(2, 2, lambda _: None, weights)
    queue.add(make_job(1, command(node_a="exclusive")))
    start(queue)
    heavy = range(2, 12)
    queue.add_all(make_job(n, command(node_a="exclusive")) for n in heavy)
    waiting, now_s, next_id = set(heavy), NOW, 100

    while waiting and now_s < NOW + 31 * 30 + len(heavy):
        now_s += 1
        for _ in range(2):
            queue.add(make_job(next_id, command(), age_s=NOW - now_s))
            next_id += 1
        for job_id in start(queue, now_s):
            waiting.discard(job_id)
            queue.end(JobId(job_id), JobState.SUCCESS)

    assert not waiting
    assert now_s >= NOW + 20 * 30


# what an event costs


def cost(queued: int, event: Callable[[JobQueue], None]) -> int:
    """Groups and jobs touched by the event, in a queue of so many other jobs with locks of their own."""
    queue = make_queue(make_job(1, command(node_a="exclusive", node_b="shared")), slots=1)
    start(queue)
    for n in range(2, queued):
        name = {f"node_n{n}": "exclusive"} if n % 2 else {"instance_[lockset]": "shared", f"node_m{n}": "shared"}
        queue.add(make_job(n, command(**name), reason=f"rate-limit:1:{n % 7}"))
    queue.add_all([make_job(queued, command(node_a="exclusive")), make_job(queued + 1, command(node_b="exclusive"))])
    queue.decide(NOW)
    before = queue.touched
    event(queue)
    return queue.touched - before


def end_and_start(queue: JobQueue) -> None:
    queue.end(JobId(1), JobState.SUCCESS)
    assert start(queue)


def change_locks(queue: JobQueue) -> None:
    queue.set_locks(JobId(1), {parse_lock("node/b"): LockMode.EXCLUSIVE})
    queue.decide(NOW)


def arrive(queue: JobQueue) -> None:
    queue.add(make_job(10**6, command(node_a="exclusive")))
    queue.decide(NOW)


@pytest.mark.parametrize("event", [end_and_start, change_locks, arrive])
def test_an_event_touches_as_much_with_many_queued_jobs_as_with_few(event: Callable[[JobQueue], None]) -> None:
    """DESIGN section 6: only the classes that name one of the locks."""
    assert cost(100, event) == cost(3_000, event) <= 25


def change_locks_and_back(queue: JobQueue) -> None:
    """And then somebody chooses, among jobs that are where they were."""
    change_locks(queue)
    queue.set_locks(JobId(1), {parse_lock("node/a"): LockMode.EXCLUSIVE})
    assert queue.ready.best(NOW) == 2


@pytest.mark.parametrize("event", [change_locks, change_locks_and_back])
def test_a_change_of_locks_touches_the_same_however_many_gates_divide_the_jobs_that_need_them(
    event: Callable[[JobQueue], None],
) -> None:
    """Nobody chooses between two changes: what a class's jobs are divided by is looked at when somebody does."""

    def spent(gates: int) -> int:
        queue = make_queue(make_job(1, command(node_a="exclusive")), slots=1)
        start(queue)
        for n in range(2, gates + 2):
            queue.add(make_job(n, command(node_b="exclusive"), reason=f"rate-limit:1:{n}"))
        queue.decide(NOW)
        before = queue.touched
        event(queue)
        return queue.touched - before

    assert spent(2) == spent(1_000) <= 3


def test_a_clock_tick_touches_no_job() -> None:
    assert cost(1_000, lambda queue: void(queue.decide(NOW + 10_000))) == 0


def void(_: object) -> None:
    pass
