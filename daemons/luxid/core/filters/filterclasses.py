"""Jobs sorted by what the chain of rules looks at first: the names of their opcodes, and the rule that now applies.

There are as many filter classes as lists of opcodes of different names, times the rules that apply to any: few. A new
chain is compared with the filter classes; only the jobs of those whose ruling it may change are looked at.

Source: DESIGN section 6, "Filters".
"""

from collections.abc import Iterator

import attrs

from common.ids import JobId
from common.queue.jobs import Job
from daemons.luxid.core.filters.filtering import Ruling
from daemons.luxid.core.filters.staticmatch import OpIds, op_ids_of


@attrs.define(eq=False)
class FilterClass:
    """Jobs whose opcodes have the same names, under the same ruling."""

    op_ids: OpIds
    ruling: Ruling
    # jobs in the order in which they came
    members: dict[JobId, None] = attrs.field(factory=dict)
    # number of members that are ready; `entries` counts them where a phase changes, `judging` where a ruling does
    ready: int = 0


class FilterClasses:
    """All filter classes that have jobs."""

    def __init__(self) -> None:
        self._filter_classes: dict[tuple[OpIds, Ruling], FilterClass] = {}

    def __iter__(self) -> Iterator[FilterClass]:
        return iter(tuple(self._filter_classes.values()))

    def __len__(self) -> int:
        return len(self._filter_classes)

    def enter(self, job: Job, ruling: Ruling) -> FilterClass:
        """Put a job that is in no filter class into the one of its opcodes and this ruling."""
        return self._enter(job.job_id, op_ids_of(job), ruling)

    def move(self, job_id: JobId, filter_class: FilterClass, ruling: Ruling) -> FilterClass:
        """Take a job, whose opcodes are what they were, out of its filter class and into the one of this ruling."""
        self.leave(job_id, filter_class)
        return self._enter(job_id, filter_class.op_ids, ruling)

    def leave(self, job_id: JobId, filter_class: FilterClass) -> None:
        """Take a job out of its filter class."""
        del filter_class.members[job_id]
        if not filter_class.members:
            del self._filter_classes[filter_class.op_ids, filter_class.ruling]

    def _enter(self, job_id: JobId, op_ids: OpIds, ruling: Ruling) -> FilterClass:
        filter_class = self._filter_classes.get((op_ids, ruling))
        if filter_class is None:
            filter_class = self._filter_classes[op_ids, ruling] = FilterClass(op_ids, ruling)
        filter_class.members[job_id] = None
        return filter_class
