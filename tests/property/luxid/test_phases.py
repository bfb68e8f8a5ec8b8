"""The phases of jobs: the table of steps is walked, and what is not in it is refused and changes nothing."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.ids import JobId
from common.queue.jobs import Job, JobOp
from common.queue.terms import Deferral, DeferralCause
from daemons.luxid.core.queue.entries import STEPS
from daemons.luxid.core.queue.entry import Phase
from daemons.luxid.core.queue.jobqueue import JobQueue

NOW = 1e9
JOBS = 3


class Walk:
    """A few jobs of a queue, all held, beside what must follow from their phases."""

    def __init__(self) -> None:
        self.queue = JobQueue(JOBS, JOBS, lambda _: None)
        # the steps themselves: from outside only those that events make can be seen
        self.entries = self.queue._entries
        for number in range(JOBS):
            self.queue.add(Job(JobId(number), (JobOp({"OP_ID": "OP_TEST_DUMMY"}),)))
            self.queue.hold(JobId(number))
            # what a deferred job must have; nobody knows until when
            self.entries[JobId(number)].deferral = Deferral(DeferralCause.BEGIN, None)

    def phases(self) -> dict[int, Phase]:
        return {entry.job.job_id: entry.phase for entry in self.entries}

    def seen(self) -> tuple[object, ...]:
        taking = {entry.job.job_id for entry in self.entries.with_process()}
        return self.phases(), self.queue.counts(), self.queue.running(), taking

    def check(self) -> None:
        phases = self.phases()
        assert {phase: self.entries.count(phase) for phase in Phase} == {
            phase: list(phases.values()).count(phase) for phase in Phase
        }
        running = {job_id for job_id, phase in phases.items() if phase is Phase.RUNNING}
        assert self.queue.running() == running
        taking = {job_id for job_id, phase in phases.items() if phase in (Phase.STARTING, Phase.ORPHANED)}
        assert {entry.job.job_id for entry in self.entries.with_process()} == running | taking

    def check_starts(self) -> None:
        """Exactly the ready jobs are started next."""
        ready = sorted(job_id for job_id, phase in self.phases().items() if phase is Phase.READY)
        assert list(self.queue.decide(NOW).start) == ready


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, JOBS - 1), st.sampled_from(Phase)), max_size=40))
def test_a_step_of_the_table_is_made_and_any_other_is_refused_without_a_trace(walk: list[tuple[int, Phase]]) -> None:
    jobs = Walk()
    for number, phase in walk:
        entry, before = jobs.entries[JobId(number)], jobs.seen()
        if phase in STEPS[entry.phase]:
            jobs.entries.move(entry, phase)
            assert entry.phase is phase
        else:
            with pytest.raises(ValueError, match=rf"job {number} is .* and cannot become {phase.value}"):
                jobs.entries.move(entry, phase)
            assert jobs.seen() == before
        jobs.check()
    jobs.check_starts()


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.HELD])
def test_a_job_that_is_not_held_cannot_leave(phase: Phase) -> None:
    jobs = Walk()
    entry = jobs.entries[JobId(0)]
    for step in _way_to(phase):
        jobs.entries.move(entry, step)

    with pytest.raises(ValueError, match=f"job 0 is {phase.value} and cannot end before it is held"):
        jobs.entries.drop(entry.job.job_id)
    jobs.check()


def _way_to(phase: Phase) -> list[Phase]:
    """The steps from held to a phase."""
    ways: dict[Phase, list[Phase]] = {Phase.HELD: []}
    while phase not in ways:
        ways |= {
            after: [*way, after] for before, way in list(ways.items()) for after in STEPS[before] if after not in ways
        }
    return ways[phase]
