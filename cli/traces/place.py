"""How far the jobs of a cluster were exported.

Theory. The file has the last position in luxid's feed whose jobs were all exported; while luxid lives and remembers it,
the feed goes on there. Where it cannot, as after a restart of luxid, the jobs that ended since an instant are asked
for: every job that ended before it was exported. Of later ones the ids are kept, so that none is exported twice.

    {"cluster":"4f5d…","position":"1f…:812","since":1790000000.0,"exported":{"17":1790000003.2}}
"""

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

import attrs
import orjson

from common.durable.atomicfile import write_file
from common.errors import Conflict, InvalidRequest

# seconds within which luxid tells of the end of a job
_SLACK_S: Final = 60.0


@attrs.frozen
class ExportPlace:
    """How far it came."""

    # UUID of the cluster
    cluster: str
    # in luxid's feed; None: in none
    position: str | None
    # instant of which all jobs that ended earlier were exported, in seconds since the epoch
    since: float
    # job id -> instant of its end; jobs that ended later, and were exported
    exported: Mapping[int, float] = attrs.field(factory=dict)

    def has(self, job_id: int) -> bool:
        """Whether it is known that the job was exported."""
        return job_id in self.exported

    def exporting(self, ended: Mapping[int, float]) -> Self:
        """The place when these jobs were exported, too. Args: ended: job id -> instant of its end."""
        return attrs.evolve(self, exported={**self.exported, **ended})

    def told(self, position: str, now: float) -> Self:
        """The place when all was exported that luxid has told up to a position.

        Ends are told nearly in their order. So all jobs that ended well before the last one were exported, whereas the
        time tells nothing: what is read may have been told long ago.
        """
        latest = max(self.exported.values(), default=self.since)
        # a clock may have been set back since
        return attrs.evolve(self, position=position).complete_until(min(latest, now) - _SLACK_S)

    def complete_until(self, at: float) -> Self:
        """The place when all jobs that ended before an instant were exported."""
        since = max(self.since, at)
        return attrs.evolve(
            self, since=since, exported={job_id: end for job_id, end in self.exported.items() if end >= since}
        )


class PlaceFile:
    """The file of a place."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """While it is open no other process exports from this place.

        Raises: Conflict: another one does. OSError: no file can be made there.
        """
        descriptor = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Conflict(f"another process exports from the place in '{self.path}'") from None
            yield
        finally:
            os.close(descriptor)

    def read(self) -> ExportPlace | None:
        """None: there is none yet. Raises: InvalidRequest: the file has none. OSError."""
        try:
            found = orjson.loads(self.path.read_bytes())
            exported = {int(job_id): float(end) for job_id, end in found["exported"].items()}
            position = found["position"]
            return ExportPlace(
                str(found["cluster"]), None if position is None else str(position), float(found["since"]), exported
            )
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError, AttributeError):
            raise InvalidRequest(
                f"'{self.path}' has no place of an export; remove it, and name with --since from when on to export"
            ) from None

    def write(self, place: ExportPlace) -> None:
        """Raises: OSError. Durability: the place is on disk."""
        exported = {str(job_id): end for job_id, end in place.exported.items()}
        write_file(self.path, orjson.dumps({**attrs.asdict(place), "exported": exported}))
