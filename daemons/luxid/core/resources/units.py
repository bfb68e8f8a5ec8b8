"""The units of all resources, as the choice of the next job sees them; the folder's docstring has the theory.

Changes are worked out when they are next asked for: a job that ends and the next one that starts often undo each
other's.

Source: DESIGN section 16.
"""

from collections.abc import Iterable
from typing import Final

import attrs

from common.ids import JobId
from common.queue.terms import Use
from common.resources import Resource
from daemons.luxid.core.resources.passes import Passes
from daemons.luxid.core.resources.shortage import Shortage
from daemons.luxid.core.resources.stock import Stock
from daemons.luxid.core.resources.unitline import Line
from daemons.luxid.core.resources.wants import Group, Place, Turn, Want

# number of later jobs that may take units of what a job waits for
MAX_BYPASS: Final = 8


@attrs.define
class _Asked:
    """A resource that ready jobs want."""

    shortage: Shortage
    line: Line = attrs.field(factory=Line)


class Units:
    """Who has units, who waits for them, and which wants are short."""

    def __init__(self, max_bypass: int = MAX_BYPASS) -> None:
        self.stock = Stock()
        self.passes = Passes(max_bypass)
        # resources that ready jobs want
        self._asked: dict[str, _Asked] = {}
        # resources of which something changed since `settle`
        self._unsettled: dict[str, None] = {}
        # resource -> group whose want is short for others, and not for it: the units are kept for one of its jobs
        self._excepted: dict[str, Group] = {}
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

    def join(self, group: Group) -> int:
        """A group of ready jobs comes to be; return how many of its wants are short."""
        for want in group.wants:
            asked = self._asked.get(want.name)
            if asked is None:
                asked = self._asked[want.name] = _Asked(Shortage(want.name, self.stock.free(want.name)))
                self._unsettle([want.name])
            asked.line.groups[group] = None
        return sum(self._asked[want.name].shortage.enter(want) for want in group.wants)

    def part(self, group: Group) -> None:
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

    def note(self, group: Group, size: int, place: Place | None, *, is_held: bool) -> None:
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

    def is_short(self, want: Want, group: Group | None = None) -> bool:
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
        asked = self._asked.get(resource)
        groups = asked.line.groups if asked is not None else ()
        return sum(group.size for group in groups if group.place is not None and self._lacks(group, resource))

    def _lacks(self, group: Group, resource: str) -> bool:
        return any(want.name == resource and self.is_short(want, group) for want in group.wants)

    def _pass(self, uses: Iterable[Use], place: Place) -> None:
        passed: dict[Place, Group] = {}
        for use in uses:
            asked = self._asked.get(use.key)
            first = asked.line.first() if asked is not None else None
            if first is not None and first[0] < place:
                passed[first[0]] = first[1]
        for first_place, group in passed.items():
            if self.passes.passed(first_place, group):
                self._unsettle(group.resources)

    def _note(self, group: Group, *, is_held: bool = False) -> None:
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
