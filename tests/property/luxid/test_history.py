"""The history of waits against a twin that asks for every job at every instant.

Source: DESIGN section 6, "Explain".
"""

import attrs
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from common.ids import JobId
from common.objects.filter import FilterRule
from common.queue.explanation import Span
from common.queue.jobs import Job, JobOp, JobState
from common.queue.reasons import ReasonEntry
from common.queue.terms import JobTerms, with_terms
from daemons.luxid.core.queue.entry import AT_REST, Phase
from daemons.luxid.core.queue.jobqueue import JobQueue
from tests.support.filterrules import filter_rule
from tests.support.naive.history import NaiveHistory

SLOTS, START_LIMIT = 3, 2
ENDS = (JobState.SUCCESS, JobState.ERROR, JobState.CANCELED)
BUCKETS = ("", "1:a", "2:a", "1:b")
# an action, and the jobs to which it applies
RULES = [("PAUSE", "a"), ("PAUSE", "b"), (["RATE_LIMIT", 1], "a"), ("REJECT", "b")]


def make_rule(number: int) -> FilterRule:
    action, word = RULES[number]
    return filter_rule(
        watermark=JobId(0),
        priority=number,
        predicates=(("reason", ["=~", "reason", f":{word}$"]),),
        action=action,
        reason_trail=(ReasonEntry("gnt:user", f"rule {number}", 1),),
        uuid=f"00000000-0000-4000-8000-{number:012}",
    )


def make_job(job_id: int, depends: list[int], bucket: str, ended: int = 0) -> Job:
    reason = [["gnt:user", f"rate-limit:{bucket}", 1]] if bucket else []
    op = JobOp({"depends": [[each, ["success", "error"]] for each in depends], "reason": reason})
    return Job(JobId(job_id), (*[JobOp({}, state=JobState.SUCCESS)] * ended, op))


class HistoryMachine(RuleBasedStateMachine):
    """Whole seconds pass, or none: shorter spans are left out, and there the two would differ."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = JobQueue(SLOTS, START_LIMIT, lambda _: None)
        self.twin = NaiveHistory(self.queue)
        self.jobs: dict[JobId, Job] = {}
        self.written: dict[JobId, list[Span]] = {}
        self.now = 0.0
        self.may_start = True
        self.next_id = 1
        self.settle()

    def settle(self) -> None:
        while True:
            decisions = self.queue.decide(self.now, may_start=self.may_start)
            for waited in decisions.waited:
                self.written.setdefault(waited.job_id, []).extend(waited.spans)
            for job_id in [each.job_id for each in decisions.doomed] + [each.job_id for each in decisions.rejected]:
                self.queue.end(job_id, JobState.ERROR)
            if not decisions.is_unfinished and not decisions.doomed and not decisions.rejected:
                break
        self.twin.look(self.jobs, self.now, may_start=self.may_start)

    def ids(self, *phases: Phase) -> list[JobId]:
        return [job_id for job_id in self.jobs if self.queue.phase(job_id) in phases]

    @rule(seconds=st.integers(1, 5))
    def time_passes(self, seconds: int) -> None:
        self.now += seconds
        self.settle()

    @rule(
        back=st.lists(st.integers(1, 6), max_size=3, unique=True),
        bucket=st.sampled_from(BUCKETS),
        begin=st.none() | st.integers(0, 9),
    )
    def submit(self, back: list[int], bucket: str, begin: int | None) -> None:
        job = make_job(self.next_id, [self.next_id - each for each in back if each < self.next_id], bucket)
        if begin is not None:
            job = with_terms(job, JobTerms(begin_at=self.now + begin), 1)
        self.jobs[job.job_id] = job
        self.next_id += 1
        self.queue.add(job)
        self.settle()

    @precondition(lambda self: self.ids(Phase.STARTING))
    @rule(data=st.data(), works=st.booleans())
    def start_ends(self, data: st.DataObject, works: bool) -> None:
        job_id = data.draw(st.sampled_from(self.ids(Phase.STARTING)))
        if works:
            self.queue.started(job_id)
        else:
            self.queue.add(self.jobs[job_id])
        self.settle()

    @precondition(lambda self: self.ids(*Phase))
    @rule(data=st.data(), state=st.sampled_from(ENDS))
    def job_ends(self, data: st.DataObject, state: JobState) -> None:
        self.queue.end(data.draw(st.sampled_from(self.ids(*Phase))), state)
        self.settle()

    @precondition(lambda self: self.ids(Phase.RUNNING))
    @rule(data=st.data(), back=st.lists(st.integers(1, 6), max_size=2, unique=True))
    def process_ends_between_opcodes(self, data: st.DataObject, back: list[int]) -> None:
        job_id = data.draw(st.sampled_from(self.ids(Phase.RUNNING)))
        self.queue.hold(job_id)
        self.settle()
        job = make_job(job_id, [job_id - each for each in back if each < job_id], "1:a", ended=1)
        self.jobs[job_id] = job
        self.queue.add(job)
        self.settle()

    @precondition(lambda self: self.ids(*AT_REST))
    @rule(data=st.data())
    def begin_rewrite(self, data: st.DataObject) -> None:
        self.queue.hold(data.draw(st.sampled_from(self.ids(*AT_REST))))
        self.settle()

    @precondition(lambda self: self.ids(Phase.HELD))
    @rule(data=st.data())
    def end_rewrite(self, data: st.DataObject) -> None:
        job_id = data.draw(st.sampled_from(self.ids(Phase.HELD)))
        self.jobs[job_id] = attrs.evolve(self.jobs[job_id])
        self.queue.add(self.jobs[job_id])
        self.settle()

    @rule(numbers=st.sets(st.sampled_from(range(len(RULES)))))
    def set_rules(self, numbers: set[int]) -> None:
        self.queue.install_rules([make_rule(number) for number in sorted(numbers)])
        self.settle()

    @rule()
    def obstruct_or_clear(self) -> None:
        self.may_start = not self.may_start
        self.settle()

    @invariant()
    def every_job_has_waited_for_what_held_it(self) -> None:
        for job_id in self.jobs:
            current = self.queue.spans(job_id, self.now)
            found = [*self.written.get(job_id, []), *current]
            if found and found[-1].until is None:
                found[-1] = attrs.evolve(found[-1], until=self.now)
            assert [span for span in _joined(found) if not span.is_short] == self.twin.spans(job_id)


def _joined(spans: list[Span]) -> list[Span]:
    """What was handed out in two parts is one span."""
    joined: list[Span] = []
    for span in spans:
        if joined and joined[-1].cause == span.cause and joined[-1].until == span.since:
            joined[-1] = attrs.evolve(joined[-1], until=span.until)
        else:
            joined.append(span)
    return joined


TestHistory = HistoryMachine.TestCase
TestHistory.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
