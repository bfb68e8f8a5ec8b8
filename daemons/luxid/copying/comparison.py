"""Compares the queue of the master with that of one node, part by part.

Jobs and files of ours are compared by their digests, some hundred a call. A node that knows calls of ours also
lists its files, and what of them the master lacks is judged (`beyond`).

Source: noded.md 6; DESIGN section 12.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, assert_never

import attrs

from common.ids import JobId
from common.paths import Paths
from common.system.inthread import in_thread
from daemons.luxid.copying.calls import LONG_CALL_S, QueueCalls, all_jobs, all_states, digests, read_jobs, read_states
from daemons.luxid.core.copies.backlog import Key, StateName, differing
from daemons.luxid.removals import NOTHING, Beyond, is_key, is_outdated_key, judge_beyond
from protocol.noded.call import FailureKind
from protocol.noded.clients.line import NodeLine, NotSent, digest
from protocol.noded.statefiles import (
    ARCHIVE,
    MOST_FILES,
    QUEUE,
    SET_ASIDE,
    SUBMISSIONS,
    WAITS,
    ListStateFiles,
    ReadStateFiles,
    is_archive_folder,
    original_name,
)

# Files that a node has and the master lacks: removed on purpose, or lost on the master.
#
# Theory. A node loses only what the record of removals names, and keys of submissions that are too old for a client to
# repeat. Everything else may be the last good copy: the node sets it aside, out of the way of a later master, which
# would start a job that has run; `gantry repair` fetches it. The note of a batch says how a submission under way is to
# be settled; once its jobs are here, or were removed, it says nothing more.
#
# Source: DESIGN section 11, "a job that is missing on the master".


async def beyond_master(paths: Paths, line: NodeLine, names: Sequence[str]) -> Beyond:
    """What of these files of a node the master lacks.

    Args: names: below the folder of data; of files in their places or set aside.
    Raises: NotSent, OSError. DamagedFile: the record of removals is damaged.
    """
    beyond = await in_thread(judge_beyond, paths, names)
    keys = [name for name in beyond.lost if is_key(original_name(name) or name)]
    if not keys:
        return beyond
    old = await _outdated(line, keys)
    return Beyond((*beyond.removed, *old), [name for name in beyond.lost if name not in old], beyond.damaged)


async def set_aside(paths: Paths, line: NodeLine) -> Beyond:
    """The files that a node has set aside and the master still lacks. Raises: as `beyond_master`."""
    found = NOTHING
    after = ""
    while True:
        try:
            names = await line.call(ListStateFiles(SET_ASIDE, after), LONG_CALL_S)
        except NotSent as error:
            if error.failed.kind is FailureKind.REFUSED:
                # an earlier release, which has set nothing aside
                return found
            raise
        found = found.with_more(await beyond_master(paths, line, names))
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
            if content is None or is_outdated_key(name, content.data, now_s):
                found.add(name)
    return frozenset(found)


_FOLDERS: Final = (SUBMISSIONS, WAITS, QUEUE, ARCHIVE)


@attrs.frozen
class JobsPart:
    job_ids: Sequence[JobId]


@attrs.frozen
class States:
    """Files of ours."""

    names: Sequence[StateName]


@attrs.frozen
class Folder:
    """A folder of the node, from this name on."""

    name: str
    after: str = ""


Part = JobsPart | States | Folder


@attrs.frozen
class PartDifference:
    """What a part has shown."""

    # what the node lacks, each with whether it lacks the content too
    differ: Mapping[Key, bool] = attrs.field(factory=dict)
    # files of the node that the master has not
    beyond: Beyond = NOTHING
    # jobs that the node has, or will have
    jobs: Sequence[JobId] = ()
    # folders and further names that are to be listed
    more: Sequence[Folder] = ()


def all_parts(paths: Paths, *, takes_ours: bool) -> Iterator[Part]:
    """The whole queue. Args: takes_ours: whether the node knows calls of ours. Raises: OSError."""
    yield from map(JobsPart, all_jobs(paths))
    if takes_ours:
        yield from map(States, all_states(paths))
        yield from map(Folder, _FOLDERS)


class QueueComparison:
    """A comparison that goes on after a failed call; when a folder here cannot be listed, it begins anew.

    Args: all_parts: begins with the first part.
    """

    def __init__(
        self, paths: Paths, calls: QueueCalls, line: NodeLine, all_parts: Callable[[], Iterator[Part]]
    ) -> None:
        self._paths = paths
        self._calls = calls
        self._line = line
        self._all_parts = all_parts
        self._parts = all_parts()
        # parts that are begun
        self._open: list[Part] = []

    async def step(self) -> PartDifference | None:
        """Compare the next part; None: there is none left.

        Raises: NotSent: the next call takes the same part again. OSError.
        """
        if not self._open:
            try:
                part = await in_thread(_next, self._parts)
            except OSError:
                # an iterator that has raised is at its end, as if all had been compared
                self._parts = self._all_parts()
                raise
            if part is None:
                return None
            self._open.append(part)
        found = await self.compare(self._open[-1])
        self._open.pop()
        self._open.extend(found.more)
        return found

    async def compare(self, part: Part) -> PartDifference:
        """Raises: NotSent, OSError."""
        match part:
            case JobsPart(job_ids):
                return await self._compare_jobs(job_ids)
            case States(names):
                return await self._compare_states(names)
            case Folder():
                return await self._find_beyond(part)
            case _:
                assert_never(part)

    async def found_on_node(self, names: Sequence[str]) -> Mapping[str, str]:
        """The digests of these files on the node, by their names below the folder of data. Raises: NotSent."""
        return self._calls.told(names, await self._line.digests(self._calls.names(names), LONG_CALL_S))

    async def _compare_jobs(self, job_ids: Sequence[JobId]) -> PartDifference:
        jobs = await in_thread(read_jobs, self._paths, job_ids, abandon_on_cancel=True)
        ours = await in_thread(digests, jobs)
        places = self._calls.places({job_id: each.is_archived for job_id, each in ours.items()})
        found = await self._line.digests(places, LONG_CALL_S)
        lacking = differing(ours, self._calls.live(ours, found), self._calls.archived(ours, found))
        # unreadable ones are sent when they can be read
        differ: dict[Key, bool] = {job_id: lacking.get(job_id, True) for job_id in (*lacking, *jobs.unreadable)}
        return PartDifference(differ, jobs=job_ids)

    async def _compare_states(self, names: Sequence[StateName]) -> PartDifference:
        ours = await in_thread(read_states, self._paths, names, abandon_on_cancel=True)
        found = await self.found_on_node(names)
        return PartDifference({name: True for name, content in ours.items() if found.get(name) != _digest(content)})

    async def _find_beyond(self, folder: Folder) -> PartDifference:
        names = await self._line.call(ListStateFiles(folder.name, folder.after), LONG_CALL_S)
        if any(name <= folder.after for name in names):
            raise self._line.garbled(f"lists '{folder.name}' from its beginning again")
        more = [Folder(name) for name in names if is_archive_folder(name)]
        if len(names) == MOST_FILES:
            more.append(Folder(folder.name, names[-1]))
        files = [name for name in names if not is_archive_folder(name)]
        return PartDifference(beyond=await beyond_master(self._paths, self._line, files), more=more)


async def lost_on(paths: Paths, line: NodeLine, comparison: QueueComparison) -> Sequence[str]:
    """What a node has and the master has lost, or has a damaged file of; in its place or set aside.

    Raises: NotSent, OSError, DamagedFile.
    """
    left, found = [Folder(name) for name in _FOLDERS], await set_aside(paths, line)
    while left:
        part = await comparison.compare(left.pop())
        left += part.more
        found = found.with_more(part.beyond)
    return [*found.lost, *found.damaged]


def _digest(content: bytes | None) -> str | None:
    return None if content is None else digest(content)


def _next(parts: Iterator[Part]) -> Part | None:
    return next(parts, None)
