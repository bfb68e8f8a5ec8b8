"""Limits on how many jobs of a kind run at once, and the jobs that count against them.

A limit is a bucket that jobs name in their reasons, a filter rule with RATE_LIMIT, or a batch. A job counts against
each of its limits from its start until its process is gone, never while it waits; against that of its batch until it
has ended or waits again, because what it began on a node may outlive its process. Nothing is stored: the counts follow
from the jobs that run, so they are right after a restart, too.

Source: luxid.md 5.5, 6.2; DESIGN section 11.
"""

from collections.abc import Collection, Iterable

import attrs

from common.ids import JobId
from common.queue.submitter import JobOwner


@attrs.frozen(cache_hash=True)
class Limit:
    """At most `count` jobs at once; one of the classes below."""

    # text of the bucket, uuid of the rule, or id of the batch
    name: str
    count: int


@attrs.frozen(cache_hash=True)
class BucketLimit(Limit):
    """Limit set by the reason `rate-limit:<name>`."""


@attrs.frozen(cache_hash=True)
class RuleLimit(Limit):
    """Limit set by the filter rule with this uuid."""


@attrs.frozen(cache_hash=True)
class BatchLimit(Limit):
    """Limit of the batch with this id (`common.queue.batch`), which jobs of another user do not belong to.

    Each job states it, and those that wait may be given another one: all jobs of the batch count against both.
    """

    owner: JobOwner | None = None


# id and owner
_BatchKey = tuple[str, JobOwner | None]


class LimitUsage:
    """The running jobs that count against each limit."""

    def __init__(self) -> None:
        # jobs that count against a limit; a limit without jobs is dropped
        self._members: dict[Limit, set[JobId]] = {}
        # of batches, by id and owner, the jobs with the limit that each states
        self._batches: dict[_BatchKey, dict[JobId, BatchLimit]] = {}
        self._changed: dict[Limit, None] = {}

    def enter(self, job_id: JobId, limits: Iterable[Limit]) -> list[Limit]:
        """Count the job against each; returns the limits that this made full."""
        return self._noted(
            self._join_batch(limit, job_id) if isinstance(limit, BatchLimit) else self._join(limit, job_id)
            for limit in limits
        )

    def leave(self, job_id: JobId, limits: Iterable[Limit]) -> list[Limit]:
        """Count the job no longer; returns the limits that were full and have room now."""
        return self._noted(
            self._part_batch(limit, job_id) if isinstance(limit, BatchLimit) else self._part(limit, job_id)
            for limit in limits
        )

    def is_full(self, limit: Limit) -> bool:
        return self.used(limit) >= limit.count

    def members(self, limit: Limit) -> frozenset[JobId]:
        return frozenset(self._jobs(limit))

    def used(self, limit: Limit) -> int:
        """The number of jobs that count against this limit."""
        return len(self._jobs(limit))

    def limits(self) -> Collection[Limit]:
        """The limits with running jobs. Cost: linear in the jobs of batches."""
        return [*self._members, *dict.fromkeys(limit for jobs in self._batches.values() for limit in jobs.values())]

    def counts(self) -> tuple[int, int]:
        """The number of limits with running jobs, and of those that are full. Cost: as `limits`."""
        limits = self.limits()
        return len(limits), sum(map(self.is_full, limits))

    def take_changed(self) -> tuple[Limit, ...]:
        """Return the limits that became full or got room, perhaps both, since the last call."""
        changed, self._changed = tuple(self._changed), {}
        return changed

    def _jobs(self, limit: Limit) -> Collection[JobId]:
        if isinstance(limit, BatchLimit):
            return self._batches.get((limit.name, limit.owner), ())
        return self._members.get(limit, ())

    def _join(self, limit: Limit, job_id: JobId) -> Limit | None:
        was_full = self.is_full(limit)
        self._members.setdefault(limit, set()).add(job_id)
        return limit if not was_full and self.is_full(limit) else None

    def _part(self, limit: Limit, job_id: JobId) -> Limit | None:
        was_full = self.is_full(limit)
        members = self._members[limit]
        members.discard(job_id)
        is_full = self.is_full(limit)
        if not members:
            del self._members[limit]
        return limit if was_full and not is_full else None

    def _join_batch(self, limit: BatchLimit, job_id: JobId) -> Limit | None:
        """Of all limits that jobs of the batch may state, the one of as many as run now is full now."""
        jobs = self._batches.setdefault((limit.name, limit.owner), {})
        if job_id in jobs:
            return None
        jobs[job_id] = limit
        return BatchLimit(limit.name, len(jobs), limit.owner)

    def _part_batch(self, limit: BatchLimit, job_id: JobId) -> Limit | None:
        """As `_join_batch`: the one of as many as ran has room now."""
        key = (limit.name, limit.owner)
        jobs = self._batches[key]
        had = BatchLimit(limit.name, len(jobs), limit.owner)
        if jobs.pop(job_id, None) is None:
            return None
        if not jobs:
            del self._batches[key]
        return had

    def _noted(self, changed: Iterable[Limit | None]) -> list[Limit]:
        found = [limit for limit in changed if limit is not None]
        self._changed.update(dict.fromkeys(found))
        return found
