"""Names that a master and its nodes share: files of the master's state, and keys of commands.

Names of files are relative to the folder of data, and the same on all nodes. No call is here, so that a daemon which
reads such names alone does not load what it takes to speak to nodes.

Source: DESIGN sections 12 and 13.
"""

import re
from typing import Final

from common.ids import JobId

SUBMISSIONS: Final = "submissions"
WAITS: Final = "waits"
QUEUE: Final = "queue"
ARCHIVE: Final = "queue/archive"
# the record of what was removed, a file
REMOVALS: Final = "removals"
# folder of what nodes had beyond the master, as it lay: `lost+found/jobs-STAMP/queue/job-7`
LOST_FOUND: Final = "lost+found"
# keys of submissions, notes of batches, histories of waits
_STATE: Final = r"submissions/([0-9a-f]{40}|batch-\d{1,19}-\d{1,9})|waits/\d{1,17}"
_WRITABLE: Final = re.compile(rf"{_STATE}|{REMOVALS}|queue/serial|queue/job-\d{{1,19}}", re.ASCII)
_REMOVABLE: Final = re.compile(rf"{_STATE}|queue/(archive/\d{{1,15}}/)?job-\d{{1,19}}", re.ASCII)
_SET_ASIDE: Final = re.compile(r"lost\+found/jobs-\d{8}T\d{6}Z-[0-9a-f]{6}/(.+)", re.ASCII)
_LISTED: Final = re.compile(r"submissions|waits|queue|queue/archive|queue/archive/\d{1,15}|lost\+found", re.ASCII)
_ARCHIVE_FOLDER: Final = re.compile(r"queue/archive/\d{1,15}", re.ASCII)
_KEY: Final = re.compile(r"\d{1,19}\.\d{1,9}\.\d{1,9}", re.ASCII)


def may_be_written(name: str) -> bool:
    """Whether a master may send this file."""
    return _WRITABLE.fullmatch(name) is not None


def may_be_removed(name: str) -> bool:
    """Whether a master may remove this file; the same names are listed."""
    return _REMOVABLE.fullmatch(name) is not None


def may_be_listed(folder: str) -> bool:
    """Whether a master may ask what this folder holds."""
    return _LISTED.fullmatch(folder) is not None


def original_name(name: str) -> str | None:
    """Where a file that was set aside lay before; None: it is not such a file."""
    found = _SET_ASIDE.fullmatch(name)
    return found[1] if found is not None and may_be_removed(found[1]) else None


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
