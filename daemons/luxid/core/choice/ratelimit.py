"""Limits on how many jobs of a kind run at once, and who has a place in them.

A limit is a bucket that jobs name in their reasons, or a filter rule with RATE_LIMIT. A job takes a place in each of
its limits when it is started, never while it waits, and gives it back when its process is gone. Nothing is stored:
who has a place follows from who runs, so that it is right after a restart, too.

Source: luxid.md 5.5, 6.2; DESIGN section 11.
"""

from collections.abc import Iterable

import attrs

from common.ids import JobId


@attrs.frozen(cache_hash=True)
class Limit:
    """At most `count` jobs at once; one of the classes below."""

    # the bucket's text, or the rule's uuid
    name: str
    count: int


@attrs.frozen(cache_hash=True)
class BucketLimit(Limit):
    """By the reason `rate-limit:<name>`."""


@attrs.frozen(cache_hash=True)
class RuleLimit(Limit):
    """By the filter rule with this uuid."""


class LimitUsage:
    """Who has a place in which limit."""

    def __init__(self) -> None:
        # no limit is kept without members
        self._members: dict[Limit, set[JobId]] = {}
        self._changed: dict[Limit, None] = {}

    def enter(self, job_id: JobId, limits: Iterable[Limit]) -> list[Limit]:
        """Give the job a place in each; answers those that are full now and were not."""
        return [limit for limit in limits if self._join(limit, job_id)]

    def leave(self, job_id: JobId, limits: Iterable[Limit]) -> list[Limit]:
        """Take the places back; answers those that have room now and had none."""
        return [limit for limit in limits if self._part(limit, job_id)]

    def is_full(self, limit: Limit) -> bool:
        return len(self._members.get(limit, ())) >= limit.count

    def members(self, limit: Limit) -> frozenset[JobId]:
        return frozenset(self._members.get(limit, ()))

    def take_changed(self) -> tuple[Limit, ...]:
        """The limits that became full or had room again, perhaps both, since this was last asked."""
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
