"""Calls of ours, which Ganeti's node daemon does not know: files of the master's state, many at a time.

Ganeti's calls cannot carry what is ours beside the job files, cannot remove a single job, and carry one file each.
Names of files are relative to the folder of data, and the same on all nodes.

Source: DESIGN sections 12 and 13.
"""

import re
from typing import Final

import attrs

from common.shapes import Row
from protocol.noded.call import URGENT_S, NodeCall
from protocol.noded.contents import Content

# what the names of our calls begin with; no procedure of Ganeti does
PREFIX: Final = "gantry_"
# most files of one call, and most names of one reply
MOST_FILES: Final = 1000
SUBMISSIONS: Final = "submissions"
WAITS: Final = "waits"
QUEUE: Final = "queue"
ARCHIVE: Final = "queue/archive"
# keys of submissions, notes of batches, histories of waits
_STATE: Final = r"submissions/([0-9a-f]{40}|batch-\d{1,19}-\d{1,9})|waits/\d{1,17}"
_WRITABLE: Final = re.compile(rf"{_STATE}|queue/serial|queue/job-\d{{1,19}}", re.ASCII)
_REMOVABLE: Final = re.compile(rf"{_STATE}|queue/(archive/\d{{1,15}}/)?job-\d{{1,19}}", re.ASCII)
_LISTED: Final = re.compile(r"submissions|waits|queue|queue/archive|queue/archive/\d{1,15}", re.ASCII)
_ARCHIVE_FOLDER: Final = re.compile(r"queue/archive/\d{1,15}", re.ASCII)


def may_be_written(name: str) -> bool:
    """Whether a master may send this file."""
    return _WRITABLE.fullmatch(name) is not None


def may_be_removed(name: str) -> bool:
    """Whether a master may remove this file; the same names are listed."""
    return _REMOVABLE.fullmatch(name) is not None


def may_be_listed(folder: str) -> bool:
    """Whether a master may ask what this folder holds."""
    return _LISTED.fullmatch(folder) is not None


def is_archive_folder(name: str) -> bool:
    """Whether this is a folder of archived jobs; the list of the archive names them."""
    return _ARCHIVE_FOLDER.fullmatch(name) is not None


@attrs.frozen
class StateFile(Row):
    """A file: `[name, content]`."""

    name: str
    content: Content


@attrs.frozen
class WriteStateFiles(NodeCall[None]):
    """Replace files; those of `submissions` are durable before any of the others is in place."""

    METHOD = "gantry_write_files"
    LIMIT_S = URGENT_S
    files: tuple[StateFile, ...]

    @property
    def carried_bytes(self) -> int:
        return sum(len(file.content.data) for file in self.files)


@attrs.frozen
class RemoveStateFiles(NodeCall[None]):
    """Remove files; those that are missing are no error."""

    METHOD = "gantry_remove_files"
    LIMIT_S = URGENT_S
    names: tuple[str, ...]
    # whether files of jobs are moved to a folder of their own below `lost+found` in the folder of data
    keeps_jobs: bool = False


@attrs.frozen
class ListStateFiles(NodeCall[tuple[str, ...]]):
    """The names of the files in a folder, or of the archive's folders, that come after this name.

    They are sorted as strings, and at most `MOST_FILES`; the next call begins after the last one.
    """

    METHOD = "gantry_list_files"
    LIMIT_S = URGENT_S
    folder: str
    after: str
