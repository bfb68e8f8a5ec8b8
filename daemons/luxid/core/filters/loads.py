"""What the rules in force and the buckets do to the jobs, in numbers.

Theory. Nothing is counted for it but what classes of jobs have anyway: the ready jobs of a filter class and of an
admission class, and the running ones of a limit. Only rejections leave no job behind: they are tallied by rule, as
long as the rule is in force.

Source: filters design; luxid.md 5.5, 6.
"""

from collections import Counter
from collections.abc import Iterable
from heapq import nsmallest
from typing import Final

from common.queue.filters.ruleloads import BucketLoad, RuleLoad, RuleLoads
from daemons.luxid.core.choice.ratelimit import BucketLimit, Limit, LimitUsage, RuleLimit
from daemons.luxid.core.choice.readyjobs import ReadyJobs
from daemons.luxid.core.filters.filterclasses import FilterClasses
from daemons.luxid.core.filters.filtering import Filtering, Ruling

# number of buckets that are told
MOST_BUCKETS: Final = 200


class RejectionTally:
    """How many jobs each rule in force has rejected so far."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def keep(self, uuids: Iterable[str]) -> None:
        """These rules are in force now; those of the others are forgotten."""
        self._counts = {uuid: self._counts.get(uuid, 0) for uuid in uuids}

    def count(self, uuid: str) -> None:
        """The rule has rejected a job; ignored if it is in force no longer."""
        if uuid in self._counts:
            self._counts[uuid] += 1

    def of(self, uuid: str) -> int:
        return self._counts.get(uuid, 0)


class Loads:
    """Reads the numbers.

    Cost: linear in the rules, the filter classes, and the limits that queued or running jobs name; not in the jobs.
    """

    def __init__(
        self, filtering: Filtering, filter_classes: FilterClasses, ready: ReadyJobs, limit_usage: LimitUsage
    ) -> None:
        self._filtering = filtering
        self._filter_classes = filter_classes
        self._ready = ready
        self._limit_usage = limit_usage
        self.rejections = RejectionTally()

    def read(self) -> RuleLoads:
        """Return all numbers. Jobs that a new chain has still to judge count as the chain before ruled."""
        held = self._held_by_rule()
        buckets = self._buckets()
        return RuleLoads(
            tuple(self._rule(uuid, limit, held[uuid]) for uuid, limit in self._filtering.limits().items()),
            tuple(nsmallest(MOST_BUCKETS, buckets, key=lambda each: (-each.held, -each.running, each.name))),
            len(buckets),
        )

    def _rule(self, uuid: str, limit: int | None, held: int) -> RuleLoad:
        running = 0 if limit is None else self._limit_usage.used(RuleLimit(uuid, limit))
        return RuleLoad(uuid, self.rejections.of(uuid), held, running, limit)

    def _held_by_rule(self) -> Counter[str]:
        held: Counter[str] = Counter()
        for each in self._filter_classes:
            if each.ruling.rule is not None and self._holds_back(each.ruling):
                held[each.ruling.rule.uuid] += each.ready
        return held

    def _holds_back(self, ruling: Ruling) -> bool:
        return ruling.is_pause or any(map(self._limit_usage.is_full, ruling.limits))

    def _buckets(self) -> list[BucketLoad]:
        named: dict[Limit, None] = dict.fromkeys((*self._limit_usage.limits(), *self._ready.limits()))
        return [self._bucket(limit) for limit in named if isinstance(limit, BucketLimit)]

    def _bucket(self, limit: Limit) -> BucketLoad:
        held = self._ready.subject_to(limit) if self._limit_usage.is_full(limit) else 0
        return BucketLoad(limit.name, held, self._limit_usage.used(limit), limit.count)
