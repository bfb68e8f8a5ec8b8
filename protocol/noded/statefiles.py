"""Calls of ours, which Ganeti's node daemon does not know: files of the master's state, many at a time.

Ganeti's calls cannot carry what is ours beside the job files, cannot remove a single job, and carry one file each.
Names of files are relative to the folder of data, and the same on all nodes.

Source: DESIGN sections 12 and 13.
"""

import re
from typing import Final

import attrs

from common.ids import JobId
from common.shapes import Row
from protocol.noded.call import URGENT_S, Content, NodeCall

# what the names of our calls begin with; no procedure of Ganeti does
PREFIX: Final = "gantry_"
# most files of one call, and most names of one reply
MOST_FILES: Final = 1000


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
    # whether they are moved to a folder of their own below `set-aside` in the folder of data, each with its name
    keeps: bool = False


@attrs.frozen
class ReadStateFiles(NodeCall[tuple[Content | None, ...]]):
    """The contents of files, in this order; null: there is no such file."""

    METHOD = "gantry_read_files"
    LIMIT_S = URGENT_S
    names: tuple[str, ...]


@attrs.frozen
class ListStateFiles(NodeCall[tuple[str, ...]]):
    """The names of the files in a folder, or of the archive's folders, that come after this name.

    Those of `set-aside` are all that were set aside, with the names of their folders.

    They are sorted as strings, and at most `MOST_FILES`; the next call begins after the last one.
    """

    METHOD = "gantry_list_files"
    LIMIT_S = URGENT_S
    folder: str
    after: str


# The job queue of a master candidate, a copy of the master's.
#
# Names of files are those of `protocol.noded.files`; they lie below the queue's folder.
#
# Source: noded.md section 6.


@attrs.frozen
class JobqueueUpdate(NodeCall[None]):
    """Replace a job file or `serial`. LuxiD allows 300 s."""

    METHOD = "jobqueue_update"
    LIMIT_S = URGENT_S
    file_name: str
    content: Content

    @property
    def carried_bytes(self) -> int:
        return len(self.content.data)


@attrs.frozen
class FileRename(Row):
    """A file that gets another name: `[old, new]`."""

    old: str
    new: str


@attrs.frozen
class JobqueueRename(NodeCall[tuple[None, ...]]):
    """Move files, for instance to the archive; it stops at the first failure, and earlier moves stay.

    A second delivery fails at a node that has moved them. LuxiD allows 300 s.
    """

    METHOD = "jobqueue_rename"
    LIMIT_S = URGENT_S
    REPEATABLE = False
    moves: tuple[FileRename, ...]

    def accepts(self, reply: tuple[None, ...]) -> bool:
        return len(reply) == len(self.moves)


@attrs.frozen
class JobqueuePurge(NodeCall[None]):
    """Remove all jobs, archived ones too."""

    METHOD = "jobqueue_purge"


@attrs.frozen
class JobqueueSetDrainFlag(NodeCall[None]):
    """Make or remove the file `drain`. LuxiD allows 300 s."""

    METHOD = "jobqueue_set_drain_flag"
    LIMIT_S = URGENT_S
    flag: bool


# Names that a master and its nodes share: files of the master's state, and keys of commands.
#
# Names of files are relative to the folder of data, and the same on all nodes. No call is here, so that a daemon which
# reads such names alone does not load what it takes to speak to nodes.
#
# Source: DESIGN sections 12 and 13.


SUBMISSIONS: Final = "submissions"
WAITS: Final = "waits"
QUEUE: Final = "queue"
ARCHIVE: Final = "queue/archive"
# the record of what was removed, a file
REMOVALS: Final = "removals"
# folder of what nodes had beyond the master, as it lay: `set-aside/jobs-STAMP/queue/job-7`; not `lost+found`, which a
# file system of its own has there, and which root alone may enter
SET_ASIDE: Final = "set-aside"
# keys of submissions, notes of batches, histories of waits
_STATE: Final = r"submissions/([0-9a-f]{40}|batch-\d{1,19}-\d{1,9})|waits/\d{1,17}"
_WRITABLE: Final = re.compile(rf"{_STATE}|{REMOVALS}|queue/serial|queue/job-\d{{1,19}}", re.ASCII)
_REMOVABLE: Final = re.compile(rf"{_STATE}|queue/(archive/\d{{1,15}}/)?job-\d{{1,19}}", re.ASCII)
# files of wconfd's, which are only set aside where they lie, and gone only from there
_KEPT: Final = r"(config|schedules|resources)\.data"
_WAS_SET_ASIDE: Final = re.compile(rf"{SET_ASIDE}/jobs-\d{{8}}T\d{{6}}Z-[0-9a-f]{{6}}/(.+)", re.ASCII)
_LISTED: Final = re.compile(rf"submissions|waits|queue|queue/archive|queue/archive/\d{{1,15}}|{SET_ASIDE}", re.ASCII)
_ARCHIVE_FOLDER: Final = re.compile(r"queue/archive/\d{1,15}", re.ASCII)
_KEY: Final = re.compile(r"\d{1,19}\.\d{1,9}\.\d{1,9}", re.ASCII)


def may_be_written(name: str) -> bool:
    """Whether a master may send this file."""
    return _WRITABLE.fullmatch(name) is not None


def may_be_removed(name: str) -> bool:
    """Whether a master may remove this file; the same names are listed."""
    return _REMOVABLE.fullmatch(name) is not None or is_kept_file(original_name(name))


def may_be_set_aside(name: str) -> bool:
    """Whether a master may have this file set aside."""
    return _REMOVABLE.fullmatch(name) is not None or is_kept_file(name)


def is_kept_file(name: str | None) -> bool:
    """Whether this is a file of wconfd's."""
    return name is not None and re.fullmatch(_KEPT, name, re.ASCII) is not None


def may_be_listed(folder: str) -> bool:
    """Whether a master may ask what this folder holds."""
    return _LISTED.fullmatch(folder) is not None


def original_name(name: str) -> str | None:
    """Where a file that was set aside lay before; None: it is not such a file."""
    found = _WAS_SET_ASIDE.fullmatch(name)
    return found[1] if found is not None and may_be_set_aside(found[1]) else None


def may_be_read(name: str) -> bool:
    """Whether a master may read this file: what it lacks itself, in its place or set aside."""
    return may_be_removed(name) or original_name(name) is not None


def is_archive_folder(name: str) -> bool:
    """Whether this is a folder of archived jobs; the list of the archive names them."""
    return _ARCHIVE_FOLDER.fullmatch(name) is not None


def job_of(name: str) -> JobId | None:
    """The job of a file in its place, live or archived; None: it is another file."""
    folder, _, number = name.rpartition("/job-")
    return JobId(int(number)) if folder.startswith(QUEUE) and number.isdigit() else None


def command_key(job_id: int, op_index: int, attempt: int = 1) -> str:
    """The key of an opcode's command. Args: attempt: from 1."""
    return f"{job_id}.{op_index}.{attempt}"


def is_command_key(text: str) -> bool:
    return _KEY.fullmatch(text) is not None


def job_of_key(key: str) -> int:
    """The job id in a well-formed key."""
    return int(key.partition(".")[0])


def op_of_key(key: str) -> int:
    """The index of the opcode in a well-formed key."""
    return int(key.split(".")[1])


def attempt_of_key(key: str) -> int:
    """The number of the try in a well-formed key, from 1."""
    return int(key.split(".")[2])
