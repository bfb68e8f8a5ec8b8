"""What a look for jobs to remove has removed."""

from collections.abc import Iterable, Sequence

import attrs

from daemons.luxid.core.retention.keeping import Mark
from daemons.luxid.retention.leftfiles import Piece, bytes_of
from protocol.luxi.history import Pruned


@attrs.define
class Tally:
    """What was removed so far, or would be."""

    archived: int = 0
    jobs: int = 0
    outputs: int = 0
    output_bytes: int = 0
    waits: int = 0
    keys: int = 0
    rows: int = 0
    left: int = 0
    ends: list[float] = attrs.Factory(list)

    def add_outputs(self, found: Iterable[Sequence[Piece]]) -> None:
        for pieces in found:
            self.outputs += 1
            self.output_bytes += bytes_of(pieces)

    def add_jobs(self, marks: Sequence[Mark]) -> None:
        self.jobs += len(marks)
        known = [mark.ended_at for mark in marks if mark.ended_at is not None]
        self.ends = [min([*self.ends, *known]), max([*self.ends, *known])] if known else self.ends

    def total(self) -> Pruned:
        values = attrs.asdict(self)
        ends = values.pop("ends")
        return Pruned(**values, oldest=ends[0] if ends else None, newest=ends[-1] if ends else None)
