"""How many units there are of each resource, and which jobs have them.

Source: DESIGN section 16.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from common.ids import JobId
from common.queue.terms import Use
from common.resources import Resource, Unit

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
                return f"the job wants {use.count} of '{use.key}', which nobody has set: gantry resource set"
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
