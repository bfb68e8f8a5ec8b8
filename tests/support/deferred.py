"""Jobs that are to begin later, and a clock that tests set."""

from collections.abc import Sequence

import trio

from common.ids import JobId
from common.queue.jobs import Job, JobOp, Timestamp
from common.queue.reasons import Try, try_entry
from common.queue.terms import Hold, JobTerms, terms_entry

HELD = JobTerms(hold=Hold("alice", 100.0, "the disk is full"))


def stated(terms: JobTerms) -> list[object]:
    """A trail that states terms."""
    return [terms_entry(terms, 1).to_wire()]


def failed_try(next_at: float, end_at: float = 50.0) -> list[object]:
    """A trail that tells of a try."""
    return [try_entry(Try(1, end_at - 1, end_at, "ended with exit code 75", 75, next_at, 0)).to_wire()]


def deferred_job(
    job_id: int,
    trail: Sequence[object],
    *,
    depends: Sequence[object] = (),
    received_at: Timestamp | None = None,
    **fields: object,
) -> Job:
    op = JobOp({"OP_ID": "OP_TEST_DUMMY", "reason": list(trail), "depends": list(depends) or None, **fields})
    return Job(JobId(job_id), (op,), received_at=received_at)


class SetClock:
    """A wall clock that shows what it is set to."""

    def __init__(self, now: float = 0.0) -> None:
        self._now = now
        self._event = trio.Event()
        # instants to which the alarm was set
        self.alarms: list[float | None] = [None]

    def now(self) -> float:
        return self._now

    def set(self, now: float) -> None:
        """As somebody sets the clock: the alarm rings."""
        self._now = now
        self._event.set()

    def pass_until(self, now: float) -> None:
        """Time passes."""
        self._now = now
        at = self.alarms[-1]
        if at is not None and at <= now:
            self._event.set()

    def wake_at(self, at: float | None) -> None:
        if at != self.alarms[-1]:
            self.alarms.append(at)

    async def woken(self) -> None:
        await self._event.wait()
        self._event = trio.Event()
        self.alarms.append(None)

    def close(self) -> None:
        self._event = trio.Event()
