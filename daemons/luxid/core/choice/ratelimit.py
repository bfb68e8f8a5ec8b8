"""Limits on how many jobs of a kind run at once, and the jobs that count against them.

A limit is a bucket that jobs name in their reasons, a filter rule with RATE_LIMIT, or a batch. A job counts against
each of its limits from its start until its process is gone, never while it waits; against that of its batch until it
has ended or waits again, because what it began on a node may outlive its process. Nothing is stored: the counts follow
from the jobs that run, so they are right after a restart, too.

Source: luxid.md 5.5, 6.2; DESIGN section 11.
"""

from collections.abc import Iterable

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
    """Limit of the batch with this id (`common.queue.batch`), which jobs of another user do not belong to."""

    owner: JobOwner | None = None


class LimitUsage:
    """The running jobs that count against each limit."""

    def __init__(self) -> None:
        # jobs that count against a limit; a limit without jobs is dropped
        self._members: dict[Limit, set[JobId]] = {}
        self._changed: dict[Limit, None] = {}

    def enter(self, job_id: JobId, limits: Iterable[Limit]) -> list[Limit]:
        """Count the job against each; returns the limits that this made full."""
        return [limit for limit in limits if self._join(limit, job_id)]

    def leave(self, job_id: JobId, limits: Iterable[Limit]) -> list[Limit]:
        """Count the job no longer; returns the limits that were full and have room now."""
        return [limit for limit in limits if self._part(limit, job_id)]

    def is_full(self, limit: Limit) -> bool:
        return self.used(limit) >= limit.count

    def members(self, limit: Limit) -> frozenset[JobId]:
        return frozenset(self._members.get(limit, ()))

    def used(self, limit: Limit) -> int:
        """The number of jobs that count against this limit."""
        return len(self._members.get(limit, ()))

    def limits(self) -> Iterable[Limit]:
        """The limits with running jobs."""
        return self._members.keys()

    def counts(self) -> tuple[int, int]:
        """The number of limits with running jobs, and of those that are full. Cost: linear in the former."""
        return len(self._members), sum(map(self.is_full, self._members))

    def take_changed(self) -> tuple[Limit, ...]:
        """Return the limits that became full or got room, perhaps both, since the last call."""
        changed, self._changed = tuple(self._changed), {}
        return changed

    def _join(self, limit: Limit, job_id: JobId) -> bool:
        was_full = self.is_full(limit)
        self._members.setdefault(limit, set()).add(job_id)
        return not was_full and self._note(limit, self.is_full(limit))

    def _part(self, limit: Limit, job_id: JobId) -> bool:
        was_full = self.is_full(limit)
        members = self._members[limit]
        members.discard(job_id)
        is_full = self.is_full(limit)
        if not members:
            del self._members[limit]
        return was_full and self._note(limit, not is_full)

    def _note(self, limit: Limit, has_changed: bool) -> bool:
        if has_changed:
            self._changed[limit] = None
        return has_changed
