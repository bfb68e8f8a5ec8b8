"""What held each queued job, in the dumbest way: every reason is worked out anew at every instant."""

from itertools import pairwise

import attrs

from common.ids import JobId
from common.queue.explanation import Cause, Span, WaitKind
from common.queue.jobs import Job
from daemons.luxid.core.choice.limits import BatchLimit, BucketLimit, Limit
from daemons.luxid.core.queue.entry import Phase
from daemons.luxid.core.queue.jobqueue import JobQueue


def reason_of(queue: JobQueue, job_id: JobId, *, may_start: bool) -> Cause | None:
    """The first thing that holds the job now, asked of the queue; None: it is running, or there is no such job."""
    entry = queue.entry(job_id)
    if entry is None or entry.phase is Phase.RUNNING:
        return None
    if entry.phase is Phase.STARTING:
        return Cause(WaitKind.START)
    if entry.phase is Phase.DEFERRED:
        return Cause(WaitKind.BEGIN)
    if entry.phase is Phase.BLOCKED:
        return Cause(WaitKind.DEPENDENCY, queue.waits_for(job_id))
    rule = entry.ruling.rule
    if entry.ruling.is_pause and rule is not None:
        return Cause(WaitKind.FILTER, names=(rule.uuid,), reason=rule.reason_trail[0].reason)
    return _in_line(queue, entry.limits, may_start=may_start)


def _in_line(queue: JobQueue, limits: tuple[Limit, ...], *, may_start: bool) -> Cause:
    for limit in limits:
        if len(queue.limit_usage.members(limit)) >= limit.count:
            if isinstance(limit, BatchLimit):
                return Cause(WaitKind.BATCH, names=(limit.name,), limit=limit.count)
            is_bucket = isinstance(limit, BucketLimit)
            return Cause(WaitKind.LIMIT, names=(limit.name,), limit=limit.count, is_bucket=is_bucket)
    return Cause(WaitKind.TURN if may_start else WaitKind.OBSTACLE)


@attrs.define
class NaiveHistory:
    """Asks for every job after every instant, and keeps all answers."""

    queue: JobQueue
    # job -> (instant, what held it from then on)
    answers: dict[JobId, list[tuple[float, Cause | None]]] = attrs.field(factory=dict)
    # ready jobs that no rule paused when they were last seen, with their limits
    in_line: dict[JobId, tuple[Limit, ...]] = attrs.field(factory=dict)

    def look(self, jobs: dict[JobId, Job], now_s: float, *, may_start: bool) -> None:
        for job_id in jobs:
            entry = self.queue.entry(job_id)
            answers = self.answers.setdefault(job_id, [])
            if entry is None or entry.phase is not Phase.HELD:
                answers.append((now_s, reason_of(self.queue, job_id, may_start=may_start)))
                self.in_line.pop(job_id, None)
                if entry is not None and entry.phase is Phase.READY and not entry.ruling.is_pause:
                    self.in_line[job_id] = entry.limits
            elif job_id in self.in_line:
                # it waits on for what it waited for
                answers.append((now_s, _in_line(self.queue, self.in_line[job_id], may_start=may_start)))
            else:
                answers.append((now_s, answers[-1][1] if answers else None))

    def spans(self, job_id: JobId) -> list[Span]:
        """Up to the last look."""
        found: list[Span] = []
        for (since, cause), (until, _) in pairwise(self.answers[job_id]):
            if cause is None or since == until:
                continue
            if found and found[-1].cause == cause and found[-1].until == since:
                found[-1] = attrs.evolve(found[-1], until=until)
            else:
                found.append(Span(cause, since, until))
        return found
