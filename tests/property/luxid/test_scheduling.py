"""The choice of the next job against a twin that weighs every job for every choice.

Source: DESIGN section 6; predictive-queue and filters designs.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import attrs
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from common.access import Role
from common.ids import JobId
from common.locks import LockMode, parse_lock
from common.objects.filter import ActionKind
from common.queue.explanation import BatchFull, Faded, HeldByRule, InLine, LimitFull, SlotsReserved, UserAtBound
from common.queue.filters import compile_chain
from common.queue.jobs import Job, JobOp, JobState, set_priority
from common.queue.reasons import OWNER_SOURCE, batch_of
from common.queue.ruleloads import BucketLoad, RuleLoad
from daemons.luxid.core.choice.limits import UserBounds
from daemons.luxid.core.choice.weights import LEVELS, Aliases, WeightRules
from daemons.luxid.core.filters import judging
from daemons.luxid.core.queue.entry import Phase
from daemons.luxid.core.queue.jobqueue import JobQueue
from daemons.luxid.core.why.explain import AHEAD_NAMED, explain
from tests.support.filterrules import filter_rule
from tests.support.naive.schedule import NaiveJob, NaiveSchedule, batch_name

SLOTS, START_LIMIT = 5, 3
WEIGHTS = WeightRules(base=1.0, tick_s=10.0, ticks=4)
PRIORITIES = (-10, 0, 0, 0, 10)
NAMES = ("node/a", "node/b", "instance/i1", "instance/i2", "node/[lockset]", "node-res/a")

BATCHES = (
    "id=one;place=1;jobs=9;at-most=1",
    "id=two;place=1;jobs=9;at-most=2;failures=0",
    "id=all;place=1;jobs=9;failures=1",
)
# two users, and an operator; others' jobs are the daemons' user's
OWNERS = ("uid=1001;login=anna", "uid=1002;login=ben", "uid=1003;login=olga")
OPERATORS = frozenset((1003,))
# of the slots two are reserved, and one user may run two jobs where others wait
BOUNDS = UserBounds(2**20, 2**20, running_per_user=2, slots_reserve=2)
NAMES_ONLY = ("a", "b", "i1", "i2", "g")

locks = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(("shared", "exclusive")), max_size=3)
held_locks = st.dictionaries(
    st.sampled_from((*NAMES, "cluster/BGL")).map(parse_lock), st.sampled_from(LockMode), max_size=3
)
commands = locks.map(lambda held: {"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], "locks": held})
others = st.sampled_from(
    [
        {"OP_ID": "OP_INSTANCE_STARTUP", "instance_name": "i1"},
        {"OP_ID": "OP_INSTANCE_CONSOLE", "instance_name": "i2"},
        {"OP_ID": "OP_CLUSTER_VERIFY_CONFIG"},
        {"OP_ID": "OP_CLUSTER_VERIFY_GROUP", "group_name": "g"},
        {"OP_ID": "OP_CLUSTER_RENEW_CRYPTO"},
        {"OP_ID": "OP_NODE_MODIFY_STORAGE", "node_name": "a", "storage_type": "lvm-vg", "name": "x", "changes": {}},
        {"OP_ID": "OP_NODE_ADD", "node_name": "n"},
    ]
)
reasons = st.lists(
    st.sampled_from(("rate-limit:1", "rate-limit:2:x", "rate-limit:3:y", "spring cleaning", *BATCHES, *OWNERS)),
    max_size=3,
    unique=True,
)
opcodes = st.tuples(st.one_of(commands, others), reasons)
predicates = st.sampled_from(
    [
        [],
        [["opcode", ["==", "OP_ID", "OP_RUN_COMMAND"]]],
        [["opcode", ["=~", "OP_ID", "INSTANCE"]]],
        [["opcode", ["!", ["==", "OP_ID", "OP_RUN_COMMAND"]]]],
        [["opcode", ["&", ["=~", "OP_ID", "INSTANCE"], ["==", "instance_name", "i1"]]]],
        [["opcode", ["==", "OP_ID", "OP_RUN_COMMAND"]], ["reason", ["=~", "reason", "rate"]]],
        [["reason", ["=~", "reason", "spring"]]],
        [["jobid", [">", "id", "watermark"]]],
    ]
)
actions = st.sampled_from(
    ["ACCEPT", "ACCEPT", "CONTINUE", "PAUSE", "REJECT", ["RATE_LIMIT", 1], ["RATE_LIMIT", 2]],
)


def make_job(job_id: int, ops: list[tuple[dict[str, Any], list[str]]], priority: int, received_s: int) -> Job:
    made = [JobOp({**op, "reason": list(map(_entry, trail))}, priority=priority) for op, trail in ops]
    return Job(JobId(job_id), tuple(made), received_at=(received_s, 0))


def _entry(reason: str) -> list[object]:
    if reason in OWNERS:
        return [OWNER_SOURCE, reason, 1]
    return ["gantry:batch" if reason in BATCHES else "user", reason, 1]


class Scheduling(RuleBasedStateMachine):
    # judged in one go by a new chain: all, or very few
    slice_jobs = 50

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 1_000_000
        self.twin = NaiveSchedule(WEIGHTS, SLOTS, START_LIMIT, operators=OPERATORS, reserved=2, per_user=2)
        self.queue = self.make_queue()
        self.ended: dict[int, JobState] = {}
        self.failed: list[Job] = []
        # failures of the batches with jobs that have not ended
        self.failures: Counter[str] = Counter()
        self.next_id = 1
        # number of jobs by rule
        self.rejected: Counter[str] = Counter()

        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(judging, "SLICE", self.slice_jobs)

    def teardown(self) -> None:
        self.patch.undo()

    def make_queue(self) -> JobQueue:
        queue = JobQueue(SLOTS, START_LIMIT, lambda _: None, WEIGHTS, bounds=BOUNDS)
        for uid in OPERATORS:
            queue.users.note_role(uid, Role.OPERATE)
        return queue

    # the two side by side

    def settle(self) -> None:
        stopped = self.twin.stopped(self.failures)
        for job_id in stopped:
            self.twin.jobs[job_id].busy = Phase.HELD
        rejected = {
            job_id
            for job_id in self.twin.ids(None)
            if self.twin.action(self.twin.jobs[job_id].job) is ActionKind.REJECT
        }
        expected = self.twin.pick(self.now_s)

        decisions = [self.queue.decide(self.now_s)]
        while decisions[-1].is_unfinished:
            decisions.append(self.queue.decide(self.now_s))

        assert [job_id for each in decisions for job_id in each.start] == expected
        assert {found.job_id for each in decisions for found in each.rejected} == rejected
        assert {found.job_id for each in decisions for found in each.doomed} == stopped
        for job_id in stopped:
            self.remove(job_id, JobState.CANCELED)
        for job_id in rejected:
            self.count_rejection(self.twin.jobs[job_id].job)
            self.remove(job_id, JobState.CANCELED)
        again = self.queue.decide(self.now_s)
        assert not again.start
        assert not again.rejected

    def count_rejection(self, job: Job) -> None:
        by = self.twin.rule_for(job)
        assert by is not None
        self.rejected[by.rule.uuid] += 1
        self.queue.loads.rejections.count(by.rule.uuid)

    def keep_rejections(self) -> None:
        self.rejected = Counter({rule.uuid: self.rejected[rule.uuid] for rule in self.twin.rules})

    def remove(self, job_id: int, state: JobState) -> None:
        job = self.twin.jobs.pop(job_id).job
        self.ended[job_id] = state
        if state is JobState.ERROR:
            self.failed.append(job)
            self.failures.update(self.batches([job]))
        self.forget_batches()
        self.queue.end(JobId(job_id), state)

    def batches(self, jobs: Iterable[Job]) -> list[str]:
        """The batches of these jobs that may stop."""
        found = ((job, batch_of(job)) for job in jobs)
        return [batch_name(job) for job, batch in found if batch is not None and batch.failures is not None]

    def forget_batches(self) -> None:
        """Those without jobs that have not ended."""
        left = set(self.batches(each.job for each in self.twin.jobs.values()))
        self.failures = Counter({name: count for name, count in self.failures.items() if name in left})

    def draw(self, data: st.DataObject, *busy: Phase | None) -> NaiveJob:
        return self.twin.jobs[data.draw(st.sampled_from(self.twin.ids(*busy)))]

    def set_aliases(self) -> None:
        self.queue.set_aliases(Aliases((LEVELS, tuple(pair)) for pair in self.twin.same))

    def report_locks(self) -> None:
        for job_id in self.twin.ids(Phase.RUNNING):
            self.queue.set_locks(JobId(job_id), self.twin.jobs[job_id].held)

    def add(self, job: Job) -> None:
        self.twin.jobs[job.job_id] = NaiveJob(job)
        self.queue.add(job)

    # what happens

    @rule(
        batch=st.lists(
            st.tuples(st.lists(opcodes, min_size=1, max_size=2), st.sampled_from(PRIORITIES), st.integers(-25, 1)),
            min_size=1,
            max_size=5,
        )
    )
    def submit(self, batch: list[tuple[list[tuple[dict[str, Any], list[str]]], int, int]]) -> None:
        """Received times may go back: clocks are set."""
        for ops, priority, shift_s in batch:
            self.add(make_job(self.next_id, ops, priority, self.now_s + shift_s))
            self.next_id += 1
        self.settle()

    @precondition(lambda self: self.twin.ids(Phase.STARTING))
    @rule(data=st.data(), works=st.sampled_from((True, True, True, False)))
    def start_ends(self, data: st.DataObject, works: bool) -> None:
        each = self.draw(data, Phase.STARTING)
        if works:
            each.busy = Phase.RUNNING
            self.queue.started(each.job.job_id)
        else:
            self.add(each.job)
        self.settle()

    @precondition(lambda self: self.twin.ids(Phase.RUNNING))
    @rule(data=st.data(), state=st.sampled_from((JobState.SUCCESS, JobState.ERROR)))
    def job_ends(self, data: st.DataObject, state: JobState) -> None:
        self.remove(self.draw(data, Phase.RUNNING).job.job_id, state)
        self.settle()

    @precondition(lambda self: self.twin.ids(Phase.RUNNING))
    @rule(data=st.data())
    def process_dies_between_opcodes(self, data: st.DataObject) -> None:
        each = self.draw(data, Phase.RUNNING)
        self.queue.hold(each.job.job_id)
        self.add(advanced(each.job))
        self.settle()

    @precondition(lambda self: self.twin.ids(Phase.RUNNING))
    @rule(data=st.data(), fails=st.booleans())
    def process_dies_and_the_job_is_looked_at(self, data: st.DataObject, fails: bool) -> None:
        """Meanwhile others may start, but none of its batch takes its place."""
        each = self.draw(data, Phase.RUNNING)
        self.queue.hold(each.job.job_id)
        each.busy, each.keeps_place, each.held = Phase.HELD, True, {}
        self.settle()
        if fails:
            self.remove(each.job.job_id, JobState.ERROR)
        else:
            self.add(advanced(each.job))
        self.settle()

    @precondition(lambda self: self.twin.ids(Phase.RUNNING))
    @rule(data=st.data())
    def next_opcode_begins(self, data: st.DataObject) -> None:
        each = self.draw(data, Phase.RUNNING)
        each.job = advanced(each.job)
        self.queue.advanced(each.job)
        self.settle()

    @precondition(lambda self: self.twin.ids(Phase.RUNNING))
    @rule(data=st.data(), changes=st.lists(held_locks, min_size=1, max_size=4))
    def locks_change(self, data: st.DataObject, changes: list[Any]) -> None:
        """Several times between two choices, and perhaps back to what was."""
        for held in changes:
            each = self.draw(data, Phase.RUNNING)
            each.held = held
            self.queue.set_locks(each.job.job_id, held)
        self.settle()

    @precondition(lambda self: self.twin.ids(Phase.RUNNING))
    @rule(data=st.data(), held=held_locks, job=st.tuples(opcodes, st.sampled_from(PRIORITIES)))
    def locks_change_and_a_job_comes_before_the_choice(
        self, data: st.DataObject, held: Any, job: tuple[tuple[dict[str, Any], list[str]], int]
    ) -> None:
        each = self.draw(data, Phase.RUNNING)
        each.held = held
        self.queue.set_locks(each.job.job_id, held)
        self.add(make_job(self.next_id, [job[0]], job[1], self.now_s))
        self.next_id += 1
        each.held = {}
        self.queue.set_locks(each.job.job_id, {})
        self.settle()

    @precondition(lambda self: self.twin.ids(Phase.RUNNING) and self.twin.ids(None))
    @rule(data=st.data(), held=held_locks)
    def locks_change_and_jobs_go_before_the_choice(self, data: st.DataObject, held: Any) -> None:
        each = self.draw(data, Phase.RUNNING)
        each.held = held
        self.queue.set_locks(each.job.job_id, held)
        self.remove(self.draw(data, None).job.job_id, JobState.CANCELED)
        self.settle()

    @rule(held=held_locks)
    def locks_of_a_stranger_change(self, held: Any) -> None:
        self.queue.set_locks(JobId(self.next_id + 1), held)
        self.settle()

    @precondition(lambda self: self.twin.ids(None))
    @rule(data=st.data(), priority=st.sampled_from(PRIORITIES))
    def priority_changes(self, data: st.DataObject, priority: int) -> None:
        each = self.draw(data, None)
        self.queue.hold(each.job.job_id)
        each.busy = Phase.HELD
        self.settle()
        self.add(set_priority(each.job, priority))
        self.settle()

    @precondition(lambda self: self.twin.ids(None))
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        self.remove(self.draw(data, None).job.job_id, JobState.CANCELED)
        self.settle()

    @rule(chain=st.lists(st.tuples(st.integers(0, 3), predicates, actions), max_size=3))
    def filters_change(self, chain: list[tuple[int, Any, Any]]) -> None:
        rules = [
            filter_rule(
                watermark=JobId(self.next_id - 1),
                priority=priority,
                predicates=tuple(tested),
                action=action,
                reason_trail=(),
                uuid=f"rule-{place}",
            )
            for place, (priority, tested, action) in enumerate(chain)
        ]
        self.twin.rules = rules
        self.keep_rejections()
        self.queue.install_rules(rules)
        self.settle()

    @precondition(lambda self: self.twin.rules)
    @rule(data=st.data())
    def a_rule_goes(self, data: st.DataObject) -> None:
        """And those behind it are what they were."""
        gone = data.draw(st.sampled_from(self.twin.rules))
        self.twin.rules = [each for each in self.twin.rules if each is not gone]
        self.keep_rejections()
        self.queue.install_rules(self.twin.rules)
        self.settle()

    @rule(same=st.lists(st.sampled_from(NAMES_ONLY), max_size=4, unique=True))
    def words_become_the_same(self, same: list[str]) -> None:
        """Two pairs of words for one lock each."""
        pairs = [same[:2], same[2:]]
        self.twin.same = [frozenset(pair) for pair in pairs]
        self.set_aliases()
        self.settle()

    @rule(by_s=st.sampled_from((1, 10, 25, 100)))
    def clock_ticks(self, by_s: int) -> None:
        self.now_s += by_s
        self.settle()

    @rule(data=st.data(), order=st.permutations(("rules", "words", "locks")))
    def luxid_restarts(self, data: st.DataObject, order: list[str]) -> None:
        """All its memory is lost. A start under way led to a process, or not; no job starts meanwhile."""
        for job_id in self.twin.ids(Phase.STARTING):
            self.twin.jobs[job_id].busy = data.draw(st.sampled_from((Phase.RUNNING, None)))
        self.queue = self.make_queue()
        self.rejected.clear()
        for job_id, state in self.ended.items():
            self.queue.end(JobId(job_id), state)
        for job_id in self.twin.ids(Phase.RUNNING):
            self.queue.adopt(self.twin.jobs[job_id].job)
        self.queue.add_all(self.twin.jobs[job_id].job for job_id in data.draw(st.permutations(self.twin.ids(None))))
        self.queue.failed_before(self.failed)
        self.failures = Counter(self.batches(self.failed))
        self.forget_batches()
        doomed = {each.job_id for each in self.queue.decide(self.now_s, may_start=False).doomed}
        assert doomed == self.twin.stopped(self.failures)
        for job_id in doomed:
            self.remove(job_id, JobState.CANCELED)
        told = {
            "rules": lambda: self.queue.install_rules(self.twin.rules),
            "words": self.set_aliases,
            "locks": self.report_locks,
        }
        for what in order:
            told[what]()
        self.settle()

    # what must hold

    @invariant()
    def the_same_jobs_may_start_with_the_same_weights_in_the_same_order(self) -> None:
        startable = self.twin.startable()
        order = sorted(startable, key=lambda job_id: self.twin.key(self.twin.jobs[job_id], self.now_s))
        for job_id in self.twin.ids(None):
            told = explain(self.queue, JobId(job_id), self.now_s, lambda _: None)
            assert (job_id not in startable) == any(
                isinstance(each, HeldByRule | LimitFull | BatchFull) for each in told
            )
            if job_id in startable:
                [static] = [each.static for each in told if isinstance(each, Faded)]
                assert static == startable[job_id]
                place = order.index(job_id)
                assert InLine(place + 1, tuple(map(JobId, order[: min(place, AHEAD_NAMED)]))) in told

    @invariant()
    def no_limit_is_exceeded_by_a_start_and_none_is_left_unused(self) -> None:
        """Never fewer than possible: a job that may start and does not has no slot."""
        startable = [job_id for job_id in self.twin.startable() if self.twin.standing(self.twin.jobs[job_id]) < 2]
        if startable:
            assert self.twin.free() == 0

    @invariant()
    def jobs_are_counted_by_user(self) -> None:
        users, twin = self.queue.users, self.twin
        for uid in (1001, 1002, 1003):
            assert users.running(uid) == twin.running_of(uid)
            assert users.queued(uid) + users.running(uid) == sum(
                twin.uid_of(each) == uid for each in twin.jobs.values()
            )
        assert users.all_running == twin.running_of_all()
        assert users.all_queued == users.queued(1001) + users.queued(1002)

    @invariant()
    def reasons_name_the_bounds_that_hold(self) -> None:
        for job_id in self.twin.ids(None):
            each = self.twin.jobs[job_id]
            told = explain(self.queue, JobId(job_id), self.now_s, lambda _: None)
            has_slots = self.queue.free_slots() > 0
            uid = self.twin.uid_of(each)
            is_reserved = self.twin.standing(each) == 2 and has_slots
            assert is_reserved == any(isinstance(reason, SlotsReserved) for reason in told)
            is_full = uid is not None and self.twin.running_of(uid) >= 2
            assert is_full == any(isinstance(reason, UserAtBound) for reason in told)

    @invariant()
    def running_jobs_pause_by_the_rules_in_force(self) -> None:
        for job_id in self.twin.ids(Phase.RUNNING):
            job = self.twin.jobs[job_id].job
            wants = self.twin.action(job) is ActionKind.PAUSE
            if self.batches([job]) and not wants:
                # perhaps its batch has stopped
                continue
            assert self.queue.should_pause(JobId(job_id)) is wants

    @invariant()
    def loads_are_what_a_count_of_all_jobs_gives(self) -> None:
        loads, twin = self.queue.loads.read(), self.twin

        limits = {each.rule.uuid: each.action.limit for each in compile_chain(twin.rules)}
        assert loads.rules == tuple(
            RuleLoad(uuid, self.rejected[uuid], twin.held_by(uuid), len(twin.members(f"rule {uuid}")), limit)
            for uuid, limit in limits.items()
        )
        buckets = [
            BucketLoad(text, twin.held_by_bucket(text), len(twin.members(text)), limit)
            for text, limit in twin.buckets().items()
        ]
        assert sorted(loads.buckets, key=lambda each: each.name) == sorted(buckets, key=lambda each: each.name)
        assert loads.bucket_count == len(buckets)

    @invariant()
    def nothing_is_kept_for_jobs_that_are_gone(self) -> None:
        if not self.twin.jobs:
            assert self.queue.ready.groups() == 0
            assert self.queue.users.is_empty()


def advanced(job: Job) -> Job:
    """Its first opcode done, if there are two and it was not."""
    if len(job.ops) == 1 or job.next_index == 1:
        return job
    return attrs.evolve(job, ops=(attrs.evolve(job.ops[0], state=JobState.SUCCESS), *job.ops[1:]))


class SlicedScheduling(Scheduling):
    slice_jobs = 1


TestSlicedScheduling = SlicedScheduling.TestCase
TestSlicedScheduling.settings = settings(max_examples=25, stateful_step_count=40, deadline=None)
TestScheduling = Scheduling.TestCase
TestScheduling.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
