"""Counted resources: who has units, who waits for them, and for whom they are kept.

Theory. A job that uses resources takes all its units when it begins to start, or none: so nobody waits for units while
he holds locks, and no ring of waits can come of them. A *want* is what a job asks of one resource, at its priority. It
is *short* while too few units are free for it. The jobs of one admission class (`choice`) have the same wants: together
they are a *group*. A group with a short want is closed like one whose limit is full, and costs nothing until units of
its resources come or go. Each resource has its wants sorted by count: a change of what is free touches those that it
makes short, or not short any more, and no job.

By itself a waiting job reserves nothing, so a stream of small jobs might keep a large one waiting without end. So the
job that has waited longest for a resource (by priority, then age) counts its *passes*: starts of later jobs, or jobs of
a worse priority, that take units of what it wants. After `max_bypass` of them it is *overdue*. For each resource, the
units that the first overdue job wants are kept for it: they count as not free for the jobs of all other groups, except
those of a better priority. A job that asks for as much of this resource, and for others, is of another group: it
would take the units while the overdue job waits for a second resource.

The bound: there is one order for all resources, so the first of all overdue jobs is held back by nobody, and starts as
soon as those who have its units end. So every job becomes the one that has waited longest, and then overdue, after
finitely many starts. A job that asks for more than there is, or that something else holds, is passed without counting
and keeps nothing from others.

Considered and rejected: counting the passes of every waiting job (each start would touch all of them); keeping units
that became free until there are enough, from the first moment (half of a resource would stand idle for a large job);
letting jobs with a time limit pass an overdue one if they end before it could start (the end of the jobs that have its
units is not known).

Source: DESIGN section 16; everyday.md section e.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush
from itertools import count
from types import MappingProxyType
from typing import Final

import attrs

from common.ids import JobId
from common.queue.jobs import Job
from common.queue.reasons import trail_with
from common.queue.terms import SOURCE, Use, terms_of, terms_text
from common.resources import Resource, Unit
from daemons.luxid.core.choice.limits import Limit

# What jobs ask of resources.
#
# Source: DESIGN section 16.


# priority, received tick, job id: the smallest has waited longest
Place = tuple[int, int, int]


@attrs.frozen(cache_hash=True)
class Want(Limit):
    """So many units of the resource of this name (`licences`, `web1:memory`), for jobs of one priority."""

    priority: int


@attrs.define(eq=False)
class WantsGroup:
    """The ready jobs that ask for the same and are alike in all that may hold them."""

    wants: tuple[Want, ...]
    # number of jobs
    size: int = 0
    # the job of the group that has waited longest; None: it is not short of units, or something else holds it
    place: Place | None = None
    # the same, but None also if it asks for more than there is
    waiting: Place | None = None

    @property
    def resources(self) -> tuple[str, ...]:
        return tuple(want.name for want in self.wants)

    def want_of(self, resource: str) -> Want:
        """What its jobs ask of one of its resources."""
        return next(want for want in self.wants if want.name == resource)


@attrs.frozen
class Turn:
    """A want became short, or is it no longer."""

    want: Want
    is_short: bool
    # the group for which it did; None: all that have the want
    group: WantsGroup | None = None


def uses_of(job: Job) -> tuple[Use, ...]:
    """The units that the job takes with its slot, as its terms say."""
    text = terms_text(trail_with(job.ops[0].input, SOURCE)) if job.ops else None
    # this runs for each job of a long queue, and most terms are names
    return terms_of(job).uses if text is not None and '"uses"' in text else ()


def wants_of(uses: Iterable[Use], priority: int) -> tuple[Want, ...]:
    """The wants of a job; equal for all jobs that use the same at the same priority."""
    return tuple(sorted((Want(use.key, use.count, priority) for use in uses), key=lambda want: want.name))


# How many units there are of each resource, and which jobs have them.
#
# Source: DESIGN section 16.


_NOBODY: Final[Mapping[JobId, int]] = MappingProxyType({})


class Stock:
    """Totals and uses. Units in use may be more than the total: it was lowered, or jobs were found with them."""

    def __init__(self) -> None:
        # None: not known yet
        self._resources: dict[str, Resource] | None = None
        # resource -> jobs that have units, and how many; no empty entries
        self._users: dict[str, dict[JobId, int]] = {}
        self._used: dict[str, int] = {}
        self._uses: dict[JobId, tuple[Use, ...]] = {}

    @property
    def is_known(self) -> bool:
        """Whether the totals have been told."""
        return self._resources is not None

    def resources(self) -> tuple[Resource, ...]:
        """All resources that are set, those of the cluster first, by name."""
        return tuple(sorted((self._resources or {}).values(), key=lambda each: (each.node, each.name)))

    def replace(self, resources: Iterable[Resource]) -> frozenset[str]:
        """Take these totals; return the resources whose totals are others now."""
        before = {key: each.total for key, each in (self._resources or {}).items()}
        self._resources = {each.key: each for each in resources}
        after = {key: each.total for key, each in self._resources.items()}
        return frozenset(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))

    def take(self, job_id: JobId, uses: tuple[Use, ...]) -> None:
        """The job, which has no units, has these from now on, whether or not they are free."""
        self._uses[job_id] = uses
        for use in uses:
            self._users.setdefault(use.key, {})[job_id] = use.count
            self._used[use.key] = self._used.get(use.key, 0) + use.count

    def give(self, job_id: JobId) -> tuple[Use, ...]:
        """The job has no units any more; return those that it had."""
        uses = self._uses.pop(job_id, ())
        for use in uses:
            users = self._users[use.key]
            del users[job_id]
            self._used[use.key] -= use.count
            if not users:
                del self._users[use.key], self._used[use.key]
        return uses

    def has(self, job_id: JobId) -> bool:
        """Whether the job has units."""
        return job_id in self._uses

    def total(self, key: str) -> int | None:
        """None: nobody has set the resource, or that is not known yet."""
        found = (self._resources or {}).get(key)
        return None if found is None else found.total

    def refusal(self, uses: Iterable[Use]) -> str:
        """Why a job that uses these cannot start, whoever else runs, as far as totals are known; "": it can."""
        for use in uses if self.is_known else ():
            total = self.total(use.key)
            if total is None:
                return f"the job wants {use.count} of '{use.key}', whose total is not set: gantry resource set"
            if use.count > total:
                return f"the job wants {use.count} of '{use.key}', and there are only {total}"
        return ""

    def unit(self, key: str) -> Unit:
        """How counts of the resource are shown."""
        found = (self._resources or {}).get(key)
        return Unit.COUNT if found is None else found.unit

    def free(self, key: str) -> int:
        """Units that no job has; less than 0 where more are in use than there are."""
        return (self.total(key) or 0) - self.used(key)

    def used(self, key: str) -> int:
        return self._used.get(key, 0)

    def users(self, key: str) -> Mapping[JobId, int]:
        """The jobs that have units of the resource."""
        return self._users.get(key, _NOBODY)


# How often waiting jobs were passed, and which of them are overdue.
#
# Source: DESIGN section 16; `wconfd`'s `fairness` does the same for locks.


@attrs.frozen(order=True)
class Overdue:
    """A job that was passed often enough; units are kept for the first one of each resource."""

    place: Place
    group: WantsGroup = attrs.field(order=False)

    @property
    def job_id(self) -> JobId:
        return JobId(self.place[2])


class Passes:
    """Passes and overdue jobs.

    Args: max_bypass: number of jobs that may pass one; at least 1.
    """

    def __init__(self, max_bypass: int) -> None:
        self._max_bypass = max_bypass
        self._passes: dict[JobId, int] = {}
        self._overdue: dict[JobId, Overdue] = {}
        # resource -> its overdue jobs, first one first; no empty entries
        self._lines: dict[str, list[Overdue]] = {}

    def passed(self, place: Place, group: WantsGroup) -> bool:
        """A job has passed this one, which has waited longest; return whether that made it overdue."""
        job_id = JobId(place[2])
        self._passes[job_id] = self._passes.get(job_id, 0) + 1
        if self._passes[job_id] < self._max_bypass or job_id in self._overdue:
            return False
        overdue = self._overdue[job_id] = Overdue(place, group)
        for resource in group.resources:
            insort(self._lines.setdefault(resource, []), overdue)
        return True

    def forget(self, job_id: JobId) -> tuple[str, ...]:
        """The job waits no longer; return the resources for which it was overdue."""
        self._passes.pop(job_id, None)
        overdue = self._overdue.get(job_id)
        return () if overdue is None else self._suspend(overdue)

    def suspend(self, group: WantsGroup) -> tuple[str, ...]:
        """No job of the group is overdue while something else holds it; return the resources concerned.

        Passes are kept: the next one makes it overdue again. Cost: linear in the overdue jobs.
        """
        found = [each for each in self._overdue.values() if each.group is group]
        return tuple(resource for each in found for resource in self._suspend(each))

    def first(self, resource: str) -> Overdue | None:
        """The job for which units of this resource are kept; None: there is none."""
        line = self._lines.get(resource)
        return line[0] if line else None

    def is_overdue(self, job_id: JobId) -> bool:
        return job_id in self._overdue

    def _suspend(self, overdue: Overdue) -> tuple[str, ...]:
        del self._overdue[overdue.job_id]
        for resource in overdue.group.resources:
            line = self._lines[resource]
            line.remove(overdue)
            if not line:
                del self._lines[resource]
        return overdue.group.resources


# Which wants of one resource are short.
#
# Theory. Whether a want is short depends on its count and priority alone: it is if its count is greater than the
# *bound* of its priority, which is what is free, less what is kept for an overdue job that this priority does not
# outrank. So the wants of a priority are sorted by count, and a change of the bound touches those between the old one
# and the new one. What is kept for a job is kept from its own want, too, which others may have: `UnitBook` excepts its
# group.
#
# Source: DESIGN section 16.


class Shortage:
    """The wants of the ready jobs for one resource."""

    def __init__(self, resource: str, free: int) -> None:
        self._resource = resource
        self._free = free
        # want for which units are kept
        self._keeper: Want | None = None
        # want -> groups that have it
        self._groups: dict[Want, int] = {}
        self._short: set[Want] = set()
        # priority -> counts of its wants, ascending
        self._counts: dict[int, list[int]] = {}

    def __len__(self) -> int:
        return len(self._groups)

    def enter(self, want: Want) -> bool:
        """One more group has this want; return whether it is short."""
        if want not in self._groups:
            insort(self._counts.setdefault(want.priority, []), want.count)
            if self.is_short(want):
                self._short.add(want)
        self._groups[want] = self._groups.get(want, 0) + 1
        return want in self._short

    def leave(self, want: Want) -> None:
        """One group less has this want."""
        self._groups[want] -= 1
        if not self._groups[want]:
            del self._groups[want]
            self._short.discard(want)
            counts = self._counts[want.priority]
            del counts[bisect_left(counts, want.count)]
            if not counts:
                del self._counts[want.priority]

    def is_short(self, want: Want) -> bool:
        """Whether too few units are free for one more job with this want."""
        return want.count > self._bound(want.priority)

    def update(self, free: int, keeper: Want | None) -> list[tuple[Want, bool]]:
        """Count so many units as free, and keep units for this want; return the wants that this changed.

        Returns: wants that groups have, each with whether it is short now.
        Cost: O(log n) in the wants, and linear in those returned.
        """
        if free == self._free and keeper == self._keeper:
            return []
        bounds = {priority: self._bound(priority) for priority in self._counts}
        concerned: set[Want] = set()
        self._free, self._keeper = free, keeper
        for priority, before in bounds.items():
            concerned.update(self._between(priority, *sorted((before, self._bound(priority)))))
        changed = [(want, is_short) for want in concerned if (is_short := self.is_short(want)) != (want in self._short)]
        for want, is_short in changed:
            (self._short.add if is_short else self._short.discard)(want)
        # in an order that does not depend on hashes
        return sorted(changed, key=lambda each: (each[0].priority, each[0].count))

    def _bound(self, priority: int) -> int:
        keeper = self._keeper
        return self._free - keeper.count if keeper is not None and keeper.priority <= priority else self._free

    def _between(self, priority: int, low: int, high: int) -> Iterator[Want]:
        """The wants of this priority with counts above the one and up to the other."""
        counts = self._counts[priority]
        for wanted in counts[bisect_right(counts, low) : bisect_right(counts, high)]:
            yield Want(self._resource, wanted, priority)


# The groups that wait for units of one resource, and which of them has waited longest.
#
# Source: DESIGN section 16; `choice.jobclasses.LazyHeap` is of the same kind.


_SLACK: Final = 16


class ResourceQueue:
    """The groups that want the resource, and a heap of their places with lazy deletion."""

    def __init__(self) -> None:
        # in the order in which they came
        self.groups: dict[WantsGroup, None] = {}
        # with a number: a place may be there twice, and groups cannot be compared
        self._places: list[tuple[Place, int, WantsGroup]] = []
        self._numbers = count()

    def moved(self, group: WantsGroup) -> None:
        """Take note that another job of the group, or none, has waited longest. Cost: O(log n), amortised."""
        if group.waiting is None:
            return
        heappush(self._places, (group.waiting, next(self._numbers), group))
        if len(self._places) > 2 * len(self.groups) + _SLACK:
            waiting = [(each.waiting, each) for each in self.groups if each.waiting is not None]
            self._places = [(place, next(self._numbers), each) for place, each in waiting]
            heapify(self._places)

    def first(self) -> tuple[Place, WantsGroup] | None:
        """The job that has waited longest, and its group; None: nobody waits."""
        while self._places:
            place, _, group = self._places[0]
            if group in self.groups and group.waiting == place:
                return place, group
            heappop(self._places)
        return None


# The units of all resources, as the choice of the next job sees them; the folder's docstring has the theory.
#
# Changes are worked out when they are next asked for: a job that ends and the next one that starts often undo each
# other's.
#
# Source: DESIGN section 16.


# number of later jobs that may take units of what a job waits for
MAX_BYPASS: Final = 8


@attrs.define
class _WantedResource:
    """A resource that ready jobs want."""

    shortage: Shortage
    line: ResourceQueue = attrs.field(factory=ResourceQueue)


class UnitBook:
    """Who has units, who waits for them, and which wants are short."""

    def __init__(self, max_bypass: int = MAX_BYPASS) -> None:
        self.stock = Stock()
        self.passes = Passes(max_bypass)
        # resources that ready jobs want
        self._asked: dict[str, _WantedResource] = {}
        # resources of which something changed since `settle`
        self._unsettled: dict[str, None] = {}
        # resource -> group whose want is short for others, and not for it: the units are kept for one of its jobs
        self._excepted: dict[str, WantsGroup] = {}
        # wants that became short or not short, perhaps both, since `take_changed`
        self._changed: dict[Want, None] = {}

    # what happened

    def replace(self, resources: Iterable[Resource]) -> None:
        """Take these totals. Cost: linear in the groups that want a resource with another total."""
        changed = self.stock.replace(resources)
        self._unsettle(changed)
        for key in changed & self._asked.keys():
            for group in self._asked[key].line.groups:
                self._note(group)

    def take(self, job_id: JobId, uses: tuple[Use, ...], place: Place | None = None) -> None:
        """The job has these units from now on, instead of any that it had.

        Args: place: of a job that was chosen: it may have passed others; None: it was found with its units.
        """
        self.give(job_id)
        if place is not None:
            self._pass(uses, place)
        self.stock.take(job_id, uses)
        self._unsettle(use.key for use in uses)

    def give(self, job_id: JobId) -> None:
        """The job has no units any more, if it had some."""
        self._unsettle(use.key for use in self.stock.give(job_id))

    def join(self, group: WantsGroup) -> int:
        """A group of ready jobs comes to be; return how many of its wants are short."""
        for want in group.wants:
            asked = self._asked.get(want.name)
            if asked is None:
                asked = self._asked[want.name] = _WantedResource(Shortage(want.name, self.stock.free(want.name)))
                self._unsettle([want.name])
            asked.line.groups[group] = None
        return sum(self._asked[want.name].shortage.enter(want) for want in group.wants)

    def part(self, group: WantsGroup) -> None:
        """The last job of the group is ready no longer."""
        self._unsettle(self.passes.suspend(group))
        group.place = group.waiting = None
        for want in group.wants:
            if self._excepted.get(want.name) is group:
                del self._excepted[want.name]
            asked = self._asked[want.name]
            asked.shortage.leave(want)
            del asked.line.groups[group]
            if not asked.line.groups:
                del self._asked[want.name]

    def note(self, group: WantsGroup, size: int, place: Place | None, *, is_held: bool) -> None:
        """This job of the group has waited longest.

        Args:
            size: number of jobs of the group.
            place: None: the group has enough units, or something else holds it.
            is_held: something else holds it.
        """
        group.size, group.place = size, place
        self._note(group, is_held=is_held)

    def forget(self, job_id: JobId) -> None:
        """A job that wanted units is ready no longer."""
        self._unsettle(self.passes.forget(job_id))

    # what follows

    def settle(self) -> list[Turn]:
        """Return the wants that became short, or are it no longer, in the order in which they did."""
        if not self._unsettled:
            return []
        unsettled, self._unsettled = self._unsettled, {}
        turns: list[Turn] = []
        for resource in unsettled:
            if (asked := self._asked.get(resource)) is not None:
                turns += self._turns(resource, asked.shortage)
        for turn in turns:
            self._changed[turn.want] = None
        return turns

    def take_changed(self) -> tuple[Want, ...]:
        """Return the wants that became short or not short, perhaps both, since the last call."""
        changed, self._changed = tuple(self._changed), {}
        return changed

    # what is so

    def is_short(self, want: Want, group: WantsGroup | None = None) -> bool:
        """Whether too few units are free for one more job with this want, counted as at the last `settle`.

        Args: group: of the job, if it is ready.
        """
        asked = self._asked.get(want.name)
        if asked is None:
            return want.count > self.stock.free(want.name)
        is_excepted = group is not None and self._excepted.get(want.name) is group
        return not is_excepted and asked.shortage.is_short(want)

    def kept_for(self, want: Want) -> JobId | None:
        """The job for which units of the resource are kept from jobs with this want; None: there is none."""
        first = self.passes.first(want.name)
        if first is None or first.place[0] > want.priority:
            return None
        return first.job_id

    def waiting(self, resource: str) -> int:
        """How many jobs, which nothing else holds, wait for units of the resource. Cost: linear in their groups."""
        return sum(group.size for group, _ in self._waiting(resource))

    def first_waiting(self, resource: str) -> JobId | None:
        """Of these jobs the one that came first; None: there is none. Cost: as `waiting`."""
        place = min((place[1:] for _, place in self._waiting(resource)), default=None)
        return None if place is None else JobId(place[1])

    def wanted(self) -> Iterable[str]:
        """The resources that ready jobs want."""
        return self._asked.keys()

    def _waiting(self, resource: str) -> Iterator[tuple[WantsGroup, Place]]:
        asked = self._asked.get(resource)
        for group in asked.line.groups if asked is not None else ():
            if group.place is not None and self._lacks(group, resource):
                yield group, group.place

    def _lacks(self, group: WantsGroup, resource: str) -> bool:
        return any(want.name == resource and self.is_short(want, group) for want in group.wants)

    def _pass(self, uses: Iterable[Use], place: Place) -> None:
        passed: dict[Place, WantsGroup] = {}
        for use in uses:
            asked = self._asked.get(use.key)
            first = asked.line.first() if asked is not None else None
            if first is not None and first[0] < place:
                passed[first[0]] = first[1]
        for first_place, group in passed.items():
            if self.passes.passed(first_place, group):
                self._unsettle(group.resources)

    def _note(self, group: WantsGroup, *, is_held: bool = False) -> None:
        is_hopeless = any(want.count > (self.stock.total(want.name) or 0) for want in group.wants)
        waiting = None if is_hopeless else group.place
        if is_held or is_hopeless:
            self._unsettle(self.passes.suspend(group))
        if waiting != group.waiting:
            group.waiting = waiting
            for resource in group.resources:
                self._asked[resource].line.moved(group)

    def _turns(self, resource: str, shortage: Shortage) -> list[Turn]:
        free, first = self.stock.free(resource), self.passes.first(resource)
        keeper = None if first is None else first.group.want_of(resource)
        changed = [Turn(*each) for each in shortage.update(free, keeper)]
        was, now = self._excepted.pop(resource, None), None
        if first is not None and keeper is not None and keeper.count <= free and shortage.is_short(keeper):
            now = self._excepted[resource] = first.group
        if was is now:
            return changed
        ended = [] if was is None else [Turn(was.want_of(resource), True, was)]
        begun = [] if now is None else [Turn(now.want_of(resource), False, now)]
        return [*ended, *changed, *begun]

    def _unsettle(self, resources: Iterable[str]) -> None:
        self._unsettled.update(dict.fromkeys(resources))
