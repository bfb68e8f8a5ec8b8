"""The choice of the next job in the dumbest way: every answer is worked out from all jobs.

It shares with the queue's core nothing but the meaning of an opcode, of a rule and of a bucket, and the table of pairs.
"""

import math
from collections.abc import Mapping, Sequence

import attrs

from common.lockdecl import LevelDeclaration, LockDeclaration, Scope
from common.locks import BGL, Lock, LockLevel, LockMode
from common.objects.filter import ActionKind, FilterRule
from common.opcodes.registry import parse_opcode
from common.queue.filters import CompiledRule, compile_chain
from common.queue.jobs import Job
from common.queue.reasons import batch_of, owner_of, rate_buckets
from daemons.luxid.core.choice.weights import LEVELS, PAIR_WEIGHTS, WeightRules
from daemons.luxid.core.queue.entry import Phase
from tests.support.naive.chain import applying

_PLACES = [(mode, scope) for mode in LockMode for scope in Scope]


@attrs.define
class NaiveJob:
    job: Job
    # None: without a process, and no task changes its file
    busy: Phase | None = None
    held: Mapping[Lock, LockMode] = attrs.field(factory=dict)
    # held, and its process is gone: it counts against its batch
    keeps_place: bool = False
    # for this job: reading an opcode takes longer than all else here
    _declared: tuple[Job, LockDeclaration] | None = None

    @property
    def has_process(self) -> bool:
        return self.busy in (Phase.STARTING, Phase.RUNNING)

    @property
    def declaration(self) -> LockDeclaration:
        if self._declared is None or self._declared[0] is not self.job:
            index = self.job.next_index
            assert index is not None
            op = parse_opcode(dict(self.job.ops[index].input))
            self._declared = self.job, op.lock_declaration(lambda _, name: name)
        return self._declared[1]


@attrs.define
class NaiveSchedule:
    weights: WeightRules
    slots: int
    start_limit: int
    jobs: dict[int, NaiveJob] = attrs.field(factory=dict)
    rules: Sequence[FilterRule] = ()
    # words for the same lock, of any level
    same: Sequence[frozenset[str]] = ()
    # uids of those who may take reserved slots, number of these slots, and jobs that one user may run where others wait
    operators: frozenset[int] = frozenset()
    reserved: int = 0
    per_user: int = 10**9
    # by id of the job, with what it was worked out from: asked for each job for each choice
    _limits: dict[int, tuple[Job, Sequence[FilterRule], dict[str, int]]] = attrs.field(factory=dict)
    _uids: dict[int, tuple[Job, int | None]] = attrs.field(factory=dict)

    def rule_for(self, job: Job) -> CompiledRule | None:
        return applying(compile_chain(self.rules), job)

    def action(self, job: Job) -> ActionKind:
        rule = self.rule_for(job)
        return rule.action.kind if rule else ActionKind.ACCEPT

    def limits(self, job: Job) -> dict[str, int]:
        known = self._limits.get(job.job_id)
        if known is None or known[0] is not job or known[1] is not self.rules:
            known = self._limits[job.job_id] = job, self.rules, self._find_limits(job)
        return known[2]

    def _find_limits(self, job: Job) -> dict[str, int]:
        found = {bucket.text: bucket.limit for bucket in rate_buckets(op.input.get("reason") for op in job.ops)}
        rule = self.rule_for(job)
        if rule is not None and rule.action.limit is not None:
            found[f"rule {rule.rule.uuid}"] = rule.action.limit
        batch = batch_of(job)
        if batch is not None and batch.at_most is not None:
            found[f"batch {batch_name(job)}"] = batch.at_most
        return found

    def members(self, limit: str) -> list[int]:
        found = [(job_id, each) for job_id, each in self.jobs.items() if limit in self.limits(each.job)]
        is_batch = limit.startswith("batch ")
        return [job_id for job_id, each in found if each.has_process or (is_batch and each.keeps_place)]

    def stopped(self, failed: Mapping[str, int]) -> set[int]:
        """The jobs that must not begin any more. Args: failed: number of failures by batch."""
        found = ((job_id, each, batch_of(each.job)) for job_id, each in self.jobs.items())
        return {
            job_id
            for job_id, each, batch in found
            if batch is not None and batch.failures is not None and failed.get(batch_name(each.job), 0) > batch.failures
            if each.busy is None and each.job.next_index == 0
        }

    def has_room(self, job: Job) -> bool:
        return all(len(self.members(name)) < count for name, count in self.limits(job).items())

    def held_by(self, uuid: str) -> int:
        """How many jobs without a process this rule keeps from starting."""
        ruled = [job for job in self._ready() if (rule := self.rule_for(job)) is not None and rule.rule.uuid == uuid]
        return sum(self.action(job) is ActionKind.PAUSE or self._is_full(f"rule {uuid}", job) for job in ruled)

    def buckets(self) -> dict[str, int]:
        """The buckets of queued and running jobs, with their limits."""
        jobs = (each.job for each in self.jobs.values() if each.busy is not Phase.HELD)
        named = (bucket for job in jobs for bucket in rate_buckets(op.input.get("reason") for op in job.ops))
        return {bucket.text: bucket.limit for bucket in named}

    def held_by_bucket(self, name: str) -> int:
        return sum(self._is_full(name, job) for job in self._ready())

    def _ready(self) -> list[Job]:
        return [each.job for each in self.jobs.values() if each.busy is None]

    def _is_full(self, name: str, job: Job) -> bool:
        limits = self.limits(job)
        return name in limits and len(self.members(name)) >= limits[name]

    def may_start(self, each: NaiveJob) -> bool:
        """But for a slot."""
        is_let = self.action(each.job) not in (ActionKind.PAUSE, ActionKind.REJECT)
        return each.busy is None and is_let and self.has_room(each.job)

    def static_weight(self, each: NaiveJob) -> float:
        runners = [other for other in self.jobs.values() if other.has_process]
        mine = each.declaration
        if mine.is_big_lock or (mine.bgl is not None and any(_has_big_lock(other) for other in runners)):
            return self.weights.base + 15
        levels = [
            max((self._level(mine.levels.get(level, ()), _taken(other, level)) for other in runners), default=0.0)
            for level in LEVELS
        ]
        return math.fsum([self.weights.base, *levels])

    def _level(self, mine: tuple[LevelDeclaration, ...], theirs: tuple[LevelDeclaration, ...]) -> float:
        return max(self._pair(one, other) for one in mine or (None,) for other in theirs or (None,))

    def _pair(self, mine: LevelDeclaration | None, other: LevelDeclaration | None) -> float:
        if mine and other and LockMode.EXCLUSIVE in (mine.mode, other.mode):
            pairs = [(one, another) for one in mine.names for another in other.names]
            if any(one == another or any({one, another} <= each for each in self.same) for one, another in pairs):
                return 3.0
        return PAIR_WEIGHTS[_place(mine)][_place(other)]

    def uid_of(self, each: NaiveJob) -> int | None:
        """None: the daemons' user."""
        job = each.job
        known = self._uids.get(job.job_id)
        if known is None or known[0] is not job:
            owner = owner_of(job)
            known = self._uids[job.job_id] = job, None if owner is None else owner.uid
        return known[1]

    def takes_slots(self, each: NaiveJob) -> bool:
        return each.busy in (Phase.STARTING, Phase.RUNNING)

    def running_of(self, uid: int | None) -> int:
        return sum(self.uid_of(each) == uid and self.takes_slots(each) for each in self.jobs.values())

    def running_of_all(self) -> int:
        """Of all users without reserved slots."""
        users = [self.uid_of(each) for each in self.jobs.values() if self.takes_slots(each)]
        return sum(uid is not None and uid not in self.operators for uid in users)

    def standing(self, each: NaiveJob) -> int:
        uid = self.uid_of(each)
        if uid is None:
            return 0
        if uid not in self.operators and self.running_of_all() >= self.slots - self.reserved:
            return 2
        return int(self.running_of(uid) >= self.per_user)

    def key(self, each: NaiveJob, now_s: float) -> tuple[int, int, float, int, int]:
        received_at = each.job.received_at
        received = math.floor(received_at[0] / self.weights.tick_s) if received_at else 0
        ticks = max(0, math.floor(now_s / self.weights.tick_s) - received)
        weight = self.static_weight(each) * max(0.0, 1 - ticks / self.weights.ticks)
        return self.standing(each), each.job.priority, weight, received, each.job.job_id

    def startable(self) -> dict[int, float]:
        """With static weights."""
        return {job_id: self.static_weight(each) for job_id, each in self.jobs.items() if self.may_start(each)}

    def pick(self, now_s: float) -> list[int]:
        """Start what may start, in order."""
        started: list[int] = []
        while self.free() > 0 and (
            ready := [each for each in self.jobs.values() if self.may_start(each) and self.standing(each) < 2]
        ):
            best = min(ready, key=lambda each: self.key(each, now_s))
            best.busy = Phase.STARTING
            best.held = {}
            started.append(best.job.job_id)
        return started

    def free(self) -> int:
        starting = len(self.ids(Phase.STARTING))
        return min(self.start_limit - starting, self.slots - starting - len(self.ids(Phase.RUNNING)))

    def ids(self, *busy: Phase | None) -> list[int]:
        return [job_id for job_id, each in self.jobs.items() if each.busy in busy]


def batch_name(job: Job) -> str:
    """Jobs of another user are not of the same batch, whatever they say."""
    batch = batch_of(job)
    return "" if batch is None else f"{batch.batch_id} of {owner_of(job)}"


def _taken(runner: NaiveJob, level: LockLevel) -> tuple[LevelDeclaration, ...]:
    held = {lock: mode for lock, mode in runner.held.items() if lock.level is level}
    if not held:
        return runner.declaration.levels.get(level, ())
    return tuple(
        LevelDeclaration(mode, Scope.ALL)
        if lock.is_group
        else LevelDeclaration(mode, Scope.NAMED, frozenset({lock.name}))
        for lock, mode in held.items()
    )


def _has_big_lock(runner: NaiveJob) -> bool:
    held = runner.held.get(BGL)
    return held is LockMode.EXCLUSIVE if held else runner.declaration.is_big_lock


def _place(entry: LevelDeclaration | None) -> int:
    return _PLACES.index((entry.mode, entry.scope)) + 1 if entry else 0
