"""What jobs ask of resources.

Source: DESIGN section 16.
"""

from collections.abc import Iterable

import attrs

from common.queue.jobs import Job
from common.queue.terms import Use, terms_of, terms_text
from daemons.luxid.core.choice.ratelimit import Limit

# priority, received tick, job id: the smallest has waited longest
Place = tuple[int, int, int]


@attrs.frozen(cache_hash=True)
class Want(Limit):
    """So many units of the resource of this name (`licences`, `web1:memory`), for jobs of one priority."""

    priority: int


@attrs.define(eq=False)
class Group:
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
    group: Group | None = None


def uses_of(job: Job) -> tuple[Use, ...]:
    """The units that the job takes with its slot, as its terms say."""
    text = terms_text(job.ops[0].input.get("reason")) if job.ops else None
    # this runs for each job of a long queue, and most terms are names
    return terms_of(job).uses if text is not None and '"uses"' in text else ()


def wants_of(uses: Iterable[Use], priority: int) -> tuple[Want, ...]:
    """The wants of a job; equal for all jobs that use the same at the same priority."""
    return tuple(sorted((Want(use.key, use.count, priority) for use in uses), key=lambda want: want.name))
