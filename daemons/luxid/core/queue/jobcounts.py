"""Plain numbers of the jobs' lives: what came, started, ended and died, and how long each part took.

Theory. Each event adds to a few numbers and touches no other job. What only job processes know, the waits for locks
and the run times, follows from the times in a job's file when it has ended: so a job process counts nothing.
The numbers begin anew with each luxid; who draws graphs expects that of counters.

Source: DESIGN section 15.
"""

from collections.abc import Container
from typing import Final

from common.metrics import RUN_S, WAIT_S, WORK_S, Histogram
from common.queue.jobs import FINAL, Job, JobOp, JobState, to_seconds

# name of all opcodes that this release does not know: anybody may submit those, under any name
OTHER: Final = "other"


class JobCounts:
    """The numbers since the start.

    Args:
        known: ids of opcodes whose run times are counted by themselves.
    """

    def __init__(self, known: Container[str] = ()) -> None:
        self._known = known
        self.submitted = 0
        # jobs refused at submission
        self.refused = 0
        # starts of processes; a job that is continued has several
        self.started = 0
        self.ended = dict.fromkeys((state for state in JobState if state in FINAL), 0)
        # jobs that ended because their process had died
        self.died = 0
        # deaths that only the sweep found: each is a missed event, and a defect
        self.swept = 0
        # jobs of which a command's output was lost, as the disk took none
        self.lost_outputs = 0
        self.submission = Histogram(WORK_S)
        self.scheduling = Histogram(WORK_S)
        self.queue_delay = Histogram(WAIT_S)
        self.lock_wait = Histogram(WAIT_S)
        # by the id of the opcode, or OTHER
        self.run: dict[str, Histogram] = {}

    def note_start(self, job: Job, now_s: float) -> None:
        """A job has got a process. `now_s`: seconds since the epoch."""
        self.started += 1
        # a continued job has started before, and its times between are other waits
        if job.start_at is None and job.received_at is not None:
            self.queue_delay.add(max(0.0, now_s - to_seconds(job.received_at)))

    def note_end(self, job: Job) -> None:
        """A job is final. Cost: linear in its opcodes."""
        self.ended[job.state] += 1
        self.lost_outputs += any(map(_has_lost_output, job.ops))
        for op in job.ops:
            if op.exec_at is not None:
                self._note_opcode(op, to_seconds(op.exec_at))

    def _note_opcode(self, op: JobOp, begun_s: float) -> None:
        """An opcode that was executed. A clock set back while it was gives no negative times."""
        if op.start_at is not None:
            self.lock_wait.add(max(0.0, begun_s - to_seconds(op.start_at)))
        if op.end_at is not None:
            self._run_of(op.op_id).add(max(0.0, to_seconds(op.end_at) - begun_s))

    def _run_of(self, op_id: str) -> Histogram:
        name = op_id if op_id in self._known else OTHER
        if name not in self.run:
            self.run[name] = Histogram(RUN_S)
        return self.run[name]


def _has_lost_output(op: JobOp) -> bool:
    result: object = op.result
    match result:
        # of a failure: its class, then its arguments
        case {"output_lost": True} | [str(), [str(), {"output_lost": True}]]:
            return True
        case _:
            return False
