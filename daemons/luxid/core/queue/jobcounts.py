"""Plain numbers of the jobs' lives: what came, started, ended and died, and how long each part took.

Theory. Each event adds to a few numbers and touches no other job. What only job processes know, the waits for locks
and the run times, follows from the times in a job's file when it has ended: so a job process counts nothing.
The numbers begin anew with each luxid; who draws graphs expects that of counters.

Source: DESIGN section 15.
"""

from collections import Counter
from collections.abc import Container, Iterable
from typing import Final

import attrs

from common.ids import JobId
from common.metrics import (
    RUN_S,
    WAIT_S,
    WORK_S,
    Histogram,
    Histograms,
    Metrics,
    backstop_wakeups,
    counter,
    histogram,
)
from common.queue.explanation import Span, WaitKind
from common.queue.jobs import FINAL, Job, JobOp, JobState, to_seconds
from common.queue.reasons import has_lost_output
from common.queue.terms import terms_of

# values of the label that are counted apart
MOST_VALUES: Final = 20
# what holds a job that could begin; the others are what somebody asked for
_DELAYS: Final = (WaitKind.TURN, WaitKind.RESOURCE, WaitKind.OBSTACLE)
# name of all opcodes that this release does not know: anybody may submit those, under any name
OTHER: Final = "other"


def _no_ends() -> Counter[JobState]:
    return Counter({state: 0 for state in JobState if state in FINAL})


@attrs.define
class JobCounts(Metrics):
    """The numbers since the start."""

    # ids of opcodes whose run times are counted by themselves
    _known: Container[str] = ()
    # key of a label of jobs whose values are counted apart; "": none is
    _label: str = ""
    submitted: int = counter("jobs_submitted", "Jobs that the queue has taken.")
    refused: int = counter("jobs_refused", "Jobs refused at submission.")
    # a job that is continued has several
    started: int = counter("job_starts", "Processes started for jobs.")
    ended: Counter[JobState] = counter("jobs_ended", "Jobs that have ended, by status.", "status", begin=_no_ends)
    died: int = counter("job_deaths", "Jobs that ended because their process had died.")
    # deaths that only the sweep found
    swept: int = backstop_wakeups()
    # jobs of which a command's output was lost, as the disk took none
    lost_outputs: int = 0
    submission: Histogram = histogram(
        "submission_seconds", "One call that submits jobs, the disk included.", bounds=WORK_S
    )
    scheduling: Histogram = histogram("scheduling_seconds", "One choice of the jobs to start next.", bounds=WORK_S)
    queue_delay: Histogram = histogram(
        "queue_delay_seconds", "From the arrival of a job to its process.", bounds=WAIT_S
    )
    start_delay: Histograms = histogram(
        "start_delay_seconds",
        "Wait of a job that could begin: for a place, for units of resources, or as luxid started none.",
        "label",
        bounds=WAIT_S,
        keys=("",),
    )
    lock_wait: Histograms = histogram(
        "lock_wait_seconds", "Wait of an opcode for its locks.", "label", bounds=WAIT_S, keys=("",)
    )
    # by the id of the opcode, or OTHER
    run: Histograms = histogram(
        "opcode_run_seconds", "Execution of an opcode, without its waits.", "opcode", bounds=RUN_S
    )

    # jobs that have waited so and have no process yet: seconds
    _delays: dict[JobId, float] = attrs.field(factory=dict, init=False)
    # of the label, those that are counted apart
    _values: set[str] = attrs.field(factory=set, init=False)

    def note_waited(self, job_id: JobId, spans: Iterable[Span]) -> None:
        """A job waits no longer for what these tell. Cost: linear in the spans."""
        delay = sum(span.until - span.since for span in spans if span.cause.kind in _DELAYS and span.until is not None)
        if delay > 0:
            self._delays[job_id] = self._delays.get(job_id, 0.0) + delay

    def note_start(self, job: Job, now_s: float) -> None:
        """A job has got a process. `now_s`: seconds since the epoch."""
        self.started += 1
        delay = self._delays.pop(job.job_id, 0.0)
        # a continued job has started before, and its times between are other waits
        if job.start_at is None and job.received_at is not None:
            self.queue_delay.add(max(0.0, now_s - to_seconds(job.received_at)))
            self.start_delay[self._value_of(job)].add(delay)

    def note_end(self, job: Job) -> None:
        """A job is final. Cost: linear in its opcodes."""
        self.ended[job.state] += 1
        self._delays.pop(job.job_id, None)
        value = self._value_of(job)
        self.lost_outputs += any(has_lost_output(op.result) for op in job.ops)
        for op in job.ops:
            if op.exec_at is not None:
                self._note_opcode(op, to_seconds(op.exec_at), value)

    def _note_opcode(self, op: JobOp, begun_s: float, value: str) -> None:
        """An opcode that was executed. A clock set back while it was gives no negative times."""
        if op.start_at is not None:
            self.lock_wait[value].add(max(0.0, begun_s - to_seconds(op.start_at)))
        if op.end_at is not None:
            self.run[op.op_id if op.op_id in self._known else OTHER].add(max(0.0, to_seconds(op.end_at) - begun_s))

    def _value_of(self, job: Job) -> str:
        """Of the label; OTHER: there were many before. "": the job has none."""
        value = terms_of(job).labels.get(self._label, "") if self._label else ""
        if value and value not in self._values:
            if len(self._values) >= MOST_VALUES:
                return OTHER
            self._values.add(value)
        return value
