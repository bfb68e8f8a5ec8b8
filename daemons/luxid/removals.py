"""The record of removals on disk.

Source: `daemons.luxid.core.copies.removals`; DESIGN section 11.
"""

import os
from collections.abc import Iterable
from pathlib import Path

import attrs

from common.durable.atomicfile import FileWrite, write_file
from common.errors import DamagedFile
from common.ids import JobId
from common.paths import Paths
from daemons.luxid.core.copies.removals import Removals, decode_removals, encode_removals


def read_removals(paths: Paths) -> Removals:
    """The record as it is on disk; without a file it names nothing. Raises: DamagedFile, OSError."""
    try:
        content = paths.removals.read_bytes()
    except FileNotFoundError:
        return Removals()
    return decode_removals(content, str(paths.removals))


def begin_removals(paths: Paths, serial: JobId) -> None:
    """Begin the record where there is none, and check the one that is there. Raises: DamagedFile, OSError."""
    if os.path.lexists(paths.removals):
        read_removals(paths)
    else:
        write_file(paths.removals, encode_removals(Removals(begun_at=serial)))


@attrs.frozen
class Removed:
    """What of some files the record is to name."""

    jobs: tuple[int, ...]
    waits: tuple[int, ...]

    @property
    def is_empty(self) -> bool:
        return not self.jobs and not self.waits


def named_by_record(paths: Paths, removed: Iterable[Path]) -> Removed:
    """What the record is to name before these files are removed: jobs, live or archived, and histories of waits."""
    jobs, waits = [], []
    for path in removed:
        folder, name = path.parent, path.name
        number = name.removeprefix("job-")
        if folder == paths.waits and name.isdigit():
            waits.append(int(name))
        elif paths.queue in (folder, folder.parent.parent) and number.isdigit() and number is not name:
            jobs.append(int(number))
    return Removed(tuple(jobs), tuple(waits))


def recording(paths: Paths, removed: Removed) -> FileWrite | None:
    """The write by which the record names these; None: it does already.

    Raises: OSError: the record cannot be read.
    """
    try:
        before = read_removals(paths)
    except DamagedFile as error:
        # it was whole when luxid began
        raise OSError(error.message) from error
    after = before.with_jobs(removed.jobs).with_waits(removed.waits)
    return None if after is before else FileWrite(paths.removals, encode_removals(after))
