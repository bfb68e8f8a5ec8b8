"""The queue's core against a twin that knows no index and scans everything.

Source: DESIGN section 3 (invariant 5) and 6.
"""

import attrs
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from common.ids import JobId
from common.queue.jobs import Dependency, Job, JobOp, JobState, judge
from common.queue.jobs import DependencyVerdict as _V
from daemons.luxid.core.queue.entry import Decisions, Phase
from daemons.luxid.core.queue.jobqueue import JobQueue

SLOTS, START_LIMIT = 4, 2
NOW = 1e9
ENDS = (JobState.SUCCESS, JobState.ERROR, JobState.CANCELED)
PRIORITIES = (-10, 0, 10)
wanted_states = st.lists(st.sampled_from(ENDS), max_size=2, unique=True)
# states in which a job of a phase may be shown
SHOWN = {
    Phase.READY: {JobState.QUEUED},
    Phase.BLOCKED: {JobState.WAITING},
    Phase.HELD: set(JobState),
    Phase.STARTING: set(JobState),
    Phase.RUNNING: set(JobState),
}
# how far back the named job is; the last one may be a job that never was
dependencies = st.lists(st.tuples(st.integers(1, 12), wanted_states), max_size=3)


def make_job(job_id: int, priority: int, depends: list[Dependency]) -> Job:
    return Job(JobId(job_id), (JobOp({"depends": [each.to_wire() for each in depends]}, priority=priority),))


@attrs.define
class TwinJob:
    job: Job
    depends: list[Dependency]
    # None: without a process, and no task changes its file
    busy: Phase | None = None


class Twin:
    """The same queue in the dumbest way: every answer is worked out from all jobs."""

    def __init__(self) -> None:
        self.jobs: dict[int, TwinJob] = {}
        self.ended: dict[int, JobState] = {}

    def verdicts(self, job: TwinJob) -> list[_V]:
        return [self._verdict(dependency) for dependency in job.depends]

    def _verdict(self, dependency: Dependency) -> _V:
        if dependency.job_id in self.jobs:
            return _V.WAIT
        if dependency.job_id in self.ended:
            return judge(dependency, self.ended[dependency.job_id])
        return _V.FAIL

    def phase(self, job: TwinJob) -> Phase:
        if job.busy is not None:
            return job.busy
        return Phase.BLOCKED if _V.WAIT in self.verdicts(job) else Phase.READY

    def decide(self) -> tuple[list[int], set[int]]:
        """What to start, in order, and who is doomed."""
        idle = {job_id: job for job_id, job in self.jobs.items() if job.busy is None}
        bad = {_V.CANCEL, _V.FAIL}
        doomed = {job_id for job_id, job in idle.items() if bad & set(self.verdicts(job))}
        ready = [job_id for job_id, job in idle.items() if set(self.verdicts(job)) <= {_V.MET}]
        order = sorted(ready, key=lambda job_id: (self.jobs[job_id].job.priority, job_id))
        starting = sum(job.busy is Phase.STARTING for job in self.jobs.values())
        running = sum(job.busy is Phase.RUNNING for job in self.jobs.values())
        return order[: max(0, min(SLOTS - starting - running, START_LIMIT - starting))], doomed

    def ids(self, *phases: Phase) -> list[int]:
        return [job_id for job_id, job in self.jobs.items() if self.phase(job) in phases]


class QueueMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.twin = Twin()
        self.archive: dict[int, JobState] = {}
        self.queue = JobQueue(SLOTS, START_LIMIT, self.archive.get)
        self.next_id = 10
        self.with_process: set[int] = set()

    def settle(self) -> None:
        """Ask for decisions, compare, and carry the dooms out until none are left."""
        while True:
            start, doomed = self.twin.decide()
            decisions = self.queue.decide(NOW)
            assert list(decisions.start) == start
            assert {each.job_id for each in decisions.doomed} == doomed
            for job_id in start:
                assert job_id not in self.with_process, "started twice"
                self.with_process.add(job_id)
                self.twin.jobs[job_id].busy = Phase.STARTING
            if not doomed:
                break
            for each in decisions.doomed:
                bad = set(self.twin.verdicts(self.twin.jobs[each.job_id])) - {_V.MET, _V.WAIT}
                assert (_V.CANCEL if each.is_canceled else _V.FAIL) in bad
                self.twin.jobs[each.job_id].busy = Phase.HELD
            for each in decisions.doomed:
                self._end(each.job_id, JobState.CANCELED if each.is_canceled else JobState.ERROR)
        assert self.queue.decide(NOW) == Decisions()

    def _end(self, job_id: int, state: JobState) -> None:
        del self.twin.jobs[job_id]
        self.twin.ended[job_id] = state
        self.with_process.discard(job_id)
        self.queue.end(JobId(job_id), state)

    @rule(batch=st.lists(st.tuples(st.sampled_from(PRIORITIES), dependencies), min_size=1, max_size=4), data=st.data())
    def submit(self, batch: list[tuple[int, list[tuple[int, list[JobState]]]]], data: st.DataObject) -> None:
        for priority, named in batch:
            depends = [Dependency(self.next_id - back, tuple(states)) for back, states in named]
            self._add(self.next_id, priority, depends)
            self.next_id += 1
        self.settle()

    def _add(self, job_id: int, priority: int, depends: list[Dependency]) -> None:
        job = make_job(job_id, priority, depends)
        self.twin.jobs[job_id] = TwinJob(job, depends)
        self.with_process.discard(job_id)
        self.queue.add(job)

    @precondition(lambda self: self.twin.ids(Phase.STARTING))
    @rule(data=st.data(), works=st.booleans())
    def start_ends(self, data: st.DataObject, works: bool) -> None:
        job_id = data.draw(st.sampled_from(self.twin.ids(Phase.STARTING)))
        if works:
            self.twin.jobs[job_id].busy = Phase.RUNNING
            self.queue.started(JobId(job_id))
        else:
            twin = self.twin.jobs[job_id]
            self._add(job_id, twin.job.priority, twin.depends)
        self.settle()

    @precondition(lambda self: self.twin.ids(Phase.RUNNING))
    @rule(data=st.data(), state=st.sampled_from(ENDS))
    def job_ends(self, data: st.DataObject, state: JobState) -> None:
        self._end(data.draw(st.sampled_from(self.twin.ids(Phase.RUNNING))), state)
        self.settle()

    @precondition(lambda self: self.twin.ids(Phase.RUNNING))
    @rule(data=st.data(), named=dependencies)
    def process_ends_between_opcodes(self, data: st.DataObject, named: list[tuple[int, list[JobState]]]) -> None:
        job_id = data.draw(st.sampled_from(self.twin.ids(Phase.RUNNING)))
        depends = [Dependency(job_id - back, tuple(states)) for back, states in named]
        self.queue.hold(JobId(job_id))
        self._add(job_id, self.twin.jobs[job_id].job.priority, depends)
        self.settle()

    @precondition(lambda self: self.twin.ids(Phase.READY, Phase.BLOCKED))
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        job_id = data.draw(st.sampled_from(self.twin.ids(Phase.READY, Phase.BLOCKED)))
        self.queue.hold(JobId(job_id))
        self._end(job_id, JobState.CANCELED)
        self.settle()

    @precondition(lambda self: self.twin.ids(Phase.READY, Phase.BLOCKED))
    @rule(data=st.data())
    def begin_rewrite(self, data: st.DataObject) -> None:
        job_id = data.draw(st.sampled_from(self.twin.ids(Phase.READY, Phase.BLOCKED)))
        self.queue.hold(JobId(job_id))
        self.twin.jobs[job_id].busy = Phase.HELD
        self.settle()

    @precondition(lambda self: self.twin.ids(Phase.HELD))
    @rule(data=st.data(), priority=st.sampled_from(PRIORITIES))
    def end_rewrite(self, data: st.DataObject, priority: int) -> None:
        job_id = data.draw(st.sampled_from(self.twin.ids(Phase.HELD)))
        self._add(job_id, priority, self.twin.jobs[job_id].depends)
        self.settle()

    @precondition(lambda self: self.twin.ended)
    @rule(data=st.data())
    def archive_job(self, data: st.DataObject) -> None:
        job_id = data.draw(st.sampled_from(sorted(self.twin.ended)))
        self.archive[job_id] = self.twin.ended[job_id]
        self.queue.forget(JobId(job_id))

    @invariant()
    def phases_agree(self) -> None:
        for job_id, job in self.twin.jobs.items():
            assert self.queue.phase(JobId(job_id)) is self.twin.phase(job)
        for job_id in self.twin.ended:
            assert self.queue.phase(JobId(job_id)) is None

    @invariant()
    def whoever_asks_for_a_state_finds_all_jobs_shown_in_it(self) -> None:
        shown = {JobId(job_id): SHOWN[self.twin.phase(job)] for job_id, job in self.twin.jobs.items()}
        shown |= {JobId(job_id): {state} for job_id, state in self.twin.ended.items() if job_id not in self.archive}
        for asked in JobState:
            found = self.queue.perhaps_in({asked})
            wanted = {job_id for job_id, states in shown.items() if asked in states}
            assert found is None or wanted <= found <= shown.keys()
            # those at rest are many
            resting = {job_id for job_id, states in shown.items() if states == {JobState.QUEUED}}
            assert found is None or not found & resting

    @invariant()
    def no_job_is_lost_and_slots_are_kept(self) -> None:
        counts = self.queue.counts()
        total = counts.ready + counts.blocked + counts.held + counts.starting + counts.running
        assert total == len(self.twin.jobs)
        assert counts.starting + counts.running <= SLOTS
        assert len(self.queue.running()) == counts.running

    @invariant()
    def a_free_slot_means_that_nobody_is_ready(self) -> None:
        counts = self.queue.counts()
        if counts.starting < START_LIMIT and counts.starting + counts.running < SLOTS:
            assert counts.ready == 0


TestQueue = QueueMachine.TestCase
TestQueue.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
