"""Deferred jobs against a twin that asks every job at every event: holds, begins, retries, dependencies, clock jumps.

Source: DESIGN section 16.
"""

import math

import attrs
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from common.ids import JobId
from common.queue.jobs import Job, JobOp, JobState, to_timestamp
from common.queue.reasons import Try, try_entry
from common.queue.terms import NO_TERMS, Hold, JobTerms, terms_of, with_terms
from daemons.luxid.core.queue.entry import AT_REST, Decisions, Phase
from daemons.luxid.core.queue.jobqueue import JobQueue

SLOTS, START_LIMIT = 3, 2
ENDS = (JobState.SUCCESS, JobState.ERROR, JobState.CANCELED)
# seconds from now; some are past
offsets = st.integers(-50, 200)
terms = st.builds(lambda begin, is_held: (begin, is_held), st.none() | offsets, st.booleans())


@attrs.define
class TwinJob:
    job: Job
    # job that it waits for, which must succeed; None: none
    target: int | None
    # None: at rest
    busy: Phase | None = None
    # its instant has come since it was last put into the queue
    has_begun: bool = False
    pause_ends: float | None = None

    def begins_at(self) -> float | None:
        """The instant; `inf`: nobody knows; None: nothing defers it."""
        wanted = terms_of(self.job)
        if wanted.hold is not None:
            return math.inf
        begin = wanted.begin_at if self.job.start_at is None else None
        instants = [each for each in (begin, self.pause_ends) if each is not None]
        return max(instants, default=None)

    @property
    def is_deferred(self) -> bool:
        return self.busy is None and self.begins_at() is not None and not self.has_begun


class DeferralMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.queue = JobQueue(SLOTS, START_LIMIT, lambda _: None)
        self.jobs: dict[int, TwinJob] = {}
        self.ended: dict[int, JobState] = {}
        self.next_id = 1
        self.now = 1_000_000.0

    # the twin

    def waits(self, each: TwinJob) -> bool:
        return each.target in self.jobs

    def is_doomed(self, each: TwinJob) -> bool:
        found = self.ended.get(each.target or 0, JobState.SUCCESS)
        return each.busy is None and not self.waits(each) and found is not JobState.SUCCESS

    def phase(self, each: TwinJob) -> Phase:
        if each.busy is not None:
            return each.busy
        if each.is_deferred:
            return Phase.DEFERRED
        return Phase.BLOCKED if self.waits(each) else Phase.READY

    def ids(self, *phases: Phase) -> list[int]:
        return [job_id for job_id, each in self.jobs.items() if self.phase(each) in phases]

    def _age(self, job_id: int) -> tuple[int, int]:
        received_at = self.jobs[job_id].job.received_at
        assert received_at is not None
        return math.floor(received_at[0] / self.queue.weights.tick_s), job_id

    def settle(self) -> None:
        while True:
            doomed = {job_id for job_id, each in self.jobs.items() if self.is_doomed(each)}
            for job_id in doomed:
                self.jobs[job_id].busy = Phase.HELD
            due = [each for each in self.jobs.values() if each.is_deferred and (each.begins_at() or 0.0) <= self.now]
            for each in due:
                each.has_begun = True
            ready = sorted(self.ids(Phase.READY), key=self._age)
            free = min(START_LIMIT - len(self.ids(Phase.STARTING)), SLOTS - len(self.ids(*TAKING)))

            decisions = self.queue.decide(self.now)

            assert {each.job_id for each in decisions.doomed} == doomed
            assert set(decisions.begun) == {each.job.job_id for each in due}
            assert list(decisions.start) == ready[: max(0, free)]
            for job_id in decisions.start:
                self.jobs[job_id].busy = Phase.STARTING
            for job_id in doomed:
                self._end(job_id, JobState.ERROR)
            if not doomed:
                break
        assert self.queue.decide(self.now) == Decisions()

    def _end(self, job_id: int, state: JobState) -> None:
        del self.jobs[job_id]
        self.ended[job_id] = state
        self.queue.end(JobId(job_id), state)

    def _add(self, each: TwinJob) -> None:
        each.busy, each.has_begun = None, False
        self.queue.add(each.job)
        self.settle()

    def _terms(self, begin: int | None, is_held: bool) -> JobTerms:
        hold = Hold("alice", self.now, "") if is_held else None
        return JobTerms(begin_at=None if begin is None else self.now + begin, hold=hold)

    # what happens

    @rule(wanted=terms, back=st.none() | st.integers(1, 5))
    def submit(self, wanted: tuple[int | None, bool], back: int | None) -> None:
        job_id, self.next_id = self.next_id, self.next_id + 1
        target = job_id - back if back is not None and back < job_id else None
        op = JobOp({"depends": [[target, ["success"]]] if target is not None else None, "reason": []})
        job = Job(JobId(job_id), (op,), received_at=to_timestamp(self.now))
        self.jobs[job_id] = TwinJob(with_terms(job, self._terms(*wanted), 1), target)
        self._add(self.jobs[job_id])

    @rule(seconds=st.integers(0, 120))
    def time_passes(self, seconds: int) -> None:
        self.now += seconds
        self.settle()

    @rule(seconds=st.integers(-100_000, 100_000))
    def somebody_sets_the_clock(self, seconds: int) -> None:
        self.now = max(1.0, self.now + seconds)
        self.settle()

    @precondition(lambda self: self.queue.begins_at() is not None)
    @rule()
    def the_alarm_rings(self) -> None:
        at = self.queue.begins_at()
        assert at is not None
        self.now = max(self.now, at)
        self.settle()

    @precondition(lambda self: self.ids(*AT_REST))
    @rule(data=st.data(), wanted=terms)
    def change(self, data: st.DataObject, wanted: tuple[int | None, bool]) -> None:
        each = self.jobs[data.draw(st.sampled_from(self.ids(*AT_REST)))]
        self.queue.hold(each.job.job_id)
        each.busy = Phase.HELD
        self.settle()
        each.job = with_terms(each.job, self._terms(*wanted), 1)
        self._add(each)

    @precondition(lambda self: self.ids(Phase.DEFERRED))
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        each = self.jobs[data.draw(st.sampled_from(self.ids(Phase.DEFERRED)))]
        self.queue.hold(each.job.job_id)
        each.job = with_terms(each.job, NO_TERMS, 1)
        self._add(each)

    @precondition(lambda self: self.ids(*AT_REST))
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        self._end(data.draw(st.sampled_from(self.ids(*AT_REST))), JobState.CANCELED)
        self.settle()

    @precondition(lambda self: self.ids(Phase.STARTING))
    @rule(data=st.data(), works=st.booleans())
    def start_ends(self, data: st.DataObject, works: bool) -> None:
        each = self.jobs[data.draw(st.sampled_from(self.ids(Phase.STARTING)))]
        if not works:
            self._add(each)
            return
        each.busy = Phase.RUNNING
        self.queue.started(each.job.job_id)
        each.job = attrs.evolve(each.job, start_at=to_timestamp(self.now))
        self.queue.advanced(each.job)
        self.settle()

    @precondition(lambda self: self.ids(Phase.RUNNING))
    @rule(data=st.data(), state=st.sampled_from(ENDS))
    def job_ends(self, data: st.DataObject, state: JobState) -> None:
        self._end(data.draw(st.sampled_from(self.ids(Phase.RUNNING))), state)
        self.settle()

    @precondition(lambda self: self.ids(Phase.RUNNING))
    @rule(data=st.data(), pause=offsets)
    def command_fails_and_is_to_run_again(self, data: st.DataObject, pause: int) -> None:
        each = self.jobs[data.draw(st.sampled_from(self.ids(Phase.RUNNING)))]
        each.pause_ends = self.now + pause
        failed = try_entry(Try(1, self.now, self.now, "ended with exit code 75", 75, each.pause_ends, 0))
        op = each.job.ops[0]
        trail = [*op.input["reason"], failed.to_wire()]
        each.job = attrs.evolve(each.job, ops=(attrs.evolve(op, input={**op.input, "reason": trail}),))
        # its dependencies are met already
        self._add(each)

    # what is so

    @invariant()
    def phases_agree(self) -> None:
        for job_id, each in self.jobs.items():
            assert self.queue.phase(JobId(job_id)) is self.phase(each)

    @invariant()
    def the_alarm_is_set_to_the_first_instant(self) -> None:
        instants = [each.begins_at() for each in self.jobs.values() if each.is_deferred]
        assert self.queue.begins_at() == min((at for at in instants if at is not None and at < math.inf), default=None)

    @invariant()
    def a_deferred_job_takes_nothing(self) -> None:
        assert self.queue.counts().deferred == len(self.ids(Phase.DEFERRED))
        assert self.queue.free_slots() == SLOTS - len(self.ids(*TAKING))

    @invariant()
    def the_heap_stays_small(self) -> None:
        deferrals = self.queue._entries.deferrals
        assert len(deferrals._heap) <= 2 * len(deferrals) + 65


TAKING = (Phase.STARTING, Phase.RUNNING)
TestDeferral = DeferralMachine.TestCase
TestDeferral.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
