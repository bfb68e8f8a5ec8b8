"""Jobs sorted by what the chain of rules looks at first: the names of their opcodes, and the rule that applies now.

There are as many dockets as lists of opcodes of different names, times the rules that apply to any: few. Another chain
is held against the dockets; only the jobs of those of which it may say something else are looked at.

Source: DESIGN section 6, "Filters".
"""

from collections.abc import Iterator

import attrs

from common.ids import JobId
from common.queue.jobs import Job
from daemons.luxid.core.filters.filtering import Ruling
from daemons.luxid.core.filters.outlook import OpIds, op_ids_of


@attrs.define(eq=False)
class Docket:
    """Jobs whose opcodes have the same names, and that the chain says the same about."""

    op_ids: OpIds
    ruling: Ruling
    # in the order in which they came
    members: dict[JobId, None] = attrs.field(factory=dict)


class Dockets:
    """All dockets that have jobs."""

    def __init__(self) -> None:
        self._dockets: dict[tuple[OpIds, Ruling], Docket] = {}

    def __iter__(self) -> Iterator[Docket]:
        return iter(tuple(self._dockets.values()))

    def __len__(self) -> int:
        return len(self._dockets)

    def enter(self, job: Job, ruling: Ruling) -> Docket:
        """Put a job that is in no docket into the one of its opcodes and this ruling."""
        return self._enter(job.job_id, op_ids_of(job), ruling)

    def move(self, job_id: JobId, docket: Docket, ruling: Ruling) -> Docket:
        """Take a job, whose opcodes are what they were, out of its docket and into the one of this ruling."""
        self.leave(job_id, docket)
        return self._enter(job_id, docket.op_ids, ruling)

    def leave(self, job_id: JobId, docket: Docket) -> None:
        """Take a job out of its docket."""
        del docket.members[job_id]
        if not docket.members:
            del self._dockets[docket.op_ids, docket.ruling]

    def _enter(self, job_id: JobId, op_ids: OpIds, ruling: Ruling) -> Docket:
        docket = self._dockets.get((op_ids, ruling))
        if docket is None:
            docket = self._dockets[op_ids, ruling] = Docket(op_ids, ruling)
        docket.members[job_id] = None
        return docket
