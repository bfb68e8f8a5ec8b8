"""Files that a node has and the master lacks: removed on purpose, or lost on the master.

Theory. A node loses only what the record of removals names, and keys of submissions that are too old for a client to
repeat. Everything else may be the last good copy: the node sets it aside, out of the way of a later master, which would
start a job that has run; `gantry repair` fetches it. The note of a batch says how a submission under way is to be
settled; once its jobs are here, or were removed, it says nothing more.

Source: DESIGN section 11, "a job that is missing on the master".
"""

import os
import re
import time
from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from common.errors import DamagedFile
from common.paths import Paths
from common.system.inthread import in_thread
from daemons.luxid.copying.line import LONG_CALL_S, NodeLine, NotSent
from daemons.luxid.core.copies.removals import Removals
from daemons.luxid.core.submission.keyed import is_outdated, key_of
from daemons.luxid.removals import read_removals
from protocol.noded.clients.outcomes import FailureKind
from protocol.noded.names import ARCHIVE, LOST_FOUND, QUEUE, SUBMISSIONS, WAITS, job_of, original_name
from protocol.noded.statefiles import MOST_FILES, ListStateFiles, ReadStateFiles

_JOB: Final = "job-"
_NOTE: Final = re.compile(rf"{SUBMISSIONS}/batch-(\d+)-(\d+)", re.ASCII)


@attrs.frozen
class Beyond:
    """What a node has and the master lacks, by the names on the node."""

    # were removed on purpose
    removed: Sequence[str] = ()
    # were lost on the master, as far as anybody knows
    lost: Sequence[str] = ()

    @property
    def names(self) -> Sequence[str]:
        return (*self.removed, *self.lost)


NOTHING: Final = Beyond()


async def beyond_master(paths: Paths, line: NodeLine, names: Sequence[str]) -> Beyond:
    """What of these files of a node the master lacks.

    Args: names: below the folder of data; of files in their places or set aside.
    Raises: NotSent, OSError. DamagedFile: the record of removals is damaged.
    """
    beyond = await in_thread(_judge, paths, {name: original_name(name) or name for name in names})
    keys = [name for name in beyond.lost if _is_key(original_name(name) or name)]
    if not keys:
        return beyond
    old = await _outdated(line, keys)
    return Beyond((*beyond.removed, *old), [name for name in beyond.lost if name not in old])


async def set_aside(paths: Paths, line: NodeLine) -> Sequence[str]:
    """The files that a node has set aside and the master still lacks. Raises: as `beyond_master`."""
    found: list[str] = []
    after = ""
    while True:
        try:
            names = await line.call(ListStateFiles(LOST_FOUND, after), LONG_CALL_S)
        except NotSent as error:
            if error.failed.kind is FailureKind.REFUSED:
                # an earlier release, which has set nothing aside
                return ()
            raise
        found += (await beyond_master(paths, line, names)).lost
        if len(names) < MOST_FILES:
            return found
        after = names[-1]


def beyond_facts(names: Sequence[str]) -> Mapping[str, object]:
    """For a line of the log. Args: names: of what a node has set aside, and the master lacks."""
    remedy = "'gantry repair' tells what is missing here, and fetches it"
    return {"files": len(names), "first": names[0], "reason": "the master has lost them", "remedy": remedy}


async def _outdated(line: NodeLine, keys: Sequence[str]) -> frozenset[str]:
    now_s, found = time.time(), set()
    for start in range(0, len(keys), MOST_FILES):
        part = tuple(keys[start : start + MOST_FILES])
        try:
            contents = await line.call(ReadStateFiles(part), LONG_CALL_S)
        except NotSent as error:
            if error.failed.kind is FailureKind.REFUSED:
                return frozenset()
            raise
        for name, content in zip(part, contents, strict=True):
            if content is None or _is_outdated_key(name, content.data, now_s):
                found.add(name)
    return frozenset(found)


def _is_outdated_key(name: str, content: bytes, now_s: float) -> bool:
    try:
        return is_outdated(key_of(name, content), now_s)
    except DamagedFile:
        # of no use to anybody
        return True


def _judge(paths: Paths, names: Mapping[str, str]) -> Beyond:
    """Args: names: on the node -> in its place. Raises: OSError, DamagedFile."""
    missing = {name: original for name, original in names.items() if not _has(paths, original)}
    if not missing:
        return NOTHING
    # after the files: what is removed meanwhile is in the record
    removals = read_removals(paths)
    removed = [name for name, original in missing.items() if _is_removed(paths, removals, original)]
    gone = frozenset(removed)
    return Beyond(removed, [name for name in missing if name not in gone])


def _is_removed(paths: Paths, removals: Removals, name: str) -> bool:
    job_id = job_of(name)
    if job_id is not None:
        return job_id in removals.jobs
    if name.startswith(f"{WAITS}/"):
        return int(name.rpartition("/")[2]) in removals.waits
    note = _NOTE.fullmatch(name)
    if note is None:
        return False
    first, count = int(note[1]), int(note[2])
    jobs = (f"{QUEUE}/{_JOB}{job_id}" for job_id in range(first, first + count))
    return all(_has(paths, job) or _is_removed(paths, removals, job) for job in jobs)


def _has(paths: Paths, name: str) -> bool:
    """Whether the master has a file, or the job of it wherever it lies; a damaged one, too, which a node may mend."""
    job = job_of(name)
    if job is None:
        return os.path.lexists(paths.data / name)
    # in this order: a job is moved from the one to the others, and never back
    others = (paths.archived_job_file(job), paths.damaged / f"{_JOB}{job}")
    places = others if name.startswith(ARCHIVE) else (paths.job_file(job), *others)
    return any(map(os.path.lexists, places))


def _is_key(name: str) -> bool:
    return name.startswith(f"{SUBMISSIONS}/") and _NOTE.fullmatch(name) is None
