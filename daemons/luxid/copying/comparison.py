"""Compares the queue of the master with that of one node, part by part.

Jobs and files of ours are compared by their digests, some hundred a call. A node that knows calls of ours also
lists its files, and what of them the master lacks is judged (`beyond`).

Source: noded.md 6; DESIGN section 12.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, assert_never

import attrs

from common.errors import GantryError
from common.ids import JobId
from common.paths import Paths
from common.system.inthread import in_thread
from common.wire import structure
from daemons.luxid.copying.beyond import NOTHING, Beyond, beyond_master, set_aside
from daemons.luxid.copying.calls import QueueCalls
from daemons.luxid.copying.line import LONG_CALL_S, NodeLine, garbled
from daemons.luxid.copying.masterfiles import all_jobs, all_states, digest, digests, read_jobs, read_states
from daemons.luxid.core.copies.backlog import Key, StateName
from daemons.luxid.core.copies.comparing import differing
from protocol.noded.names import ARCHIVE, QUEUE, SUBMISSIONS, WAITS, is_archive_folder
from protocol.noded.statefiles import MOST_FILES, ListStateFiles
from protocol.noded.verifying import Check, NodeVerify

_FOLDERS: Final = (SUBMISSIONS, WAITS, QUEUE, ARCHIVE)


@attrs.frozen
class Jobs:
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


Part = Jobs | States | Folder


@attrs.frozen
class Found:
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
    yield from map(Jobs, all_jobs(paths))
    if takes_ours:
        yield from map(States, all_states(paths))
        yield from map(Folder, _FOLDERS)


class Comparison:
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

    async def step(self) -> Found | None:
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

    async def compare(self, part: Part) -> Found:
        """Raises: NotSent, OSError."""
        match part:
            case Jobs(job_ids):
                return await self._compare_jobs(job_ids)
            case States(names):
                return await self._compare_states(names)
            case Folder():
                return await self._find_beyond(part)
            case _:
                assert_never(part)

    async def found_on_node(self, names: Sequence[str]) -> Mapping[str, str]:
        """The digests of these files on the node, by their names below the folder of data. Raises: NotSent."""
        return self._calls.told(names, await self._ask(self._calls.digests_of(names)))

    async def _compare_jobs(self, job_ids: Sequence[JobId]) -> Found:
        jobs = await in_thread(read_jobs, self._paths, job_ids, abandon_on_cancel=True)
        ours = await in_thread(digests, jobs)
        found = await self._ask(self._calls.digests({job_id: each.is_archived for job_id, each in ours.items()}))
        lacking = differing(ours, self._calls.live(ours, found), self._calls.archived(ours, found))
        # unreadable ones are sent when they can be read
        differ: dict[Key, bool] = {job_id: lacking.get(job_id, True) for job_id in (*lacking, *jobs.unreadable)}
        return Found(differ, jobs=job_ids)

    async def _compare_states(self, names: Sequence[StateName]) -> Found:
        ours = await in_thread(read_states, self._paths, names, abandon_on_cancel=True)
        found = await self.found_on_node(names)
        return Found({name: True for name, content in ours.items() if found.get(name) != _digest(content)})

    async def _find_beyond(self, folder: Folder) -> Found:
        names = await self._line.call(ListStateFiles(folder.name, folder.after), LONG_CALL_S)
        if any(name <= folder.after for name in names):
            raise garbled(self._line, f"lists '{folder.name}' from its beginning again")
        more = [Folder(name) for name in names if is_archive_folder(name)]
        if len(names) == MOST_FILES:
            more.append(Folder(folder.name, names[-1]))
        files = [name for name in names if not is_archive_folder(name)]
        return Found(beyond=await beyond_master(self._paths, self._line, files), more=more)

    async def _ask(self, call: NodeVerify) -> Mapping[str, str]:
        reply = await self._line.call(call, LONG_CALL_S)
        try:
            return structure(reply.get(Check.FILES.value), dict[str, str], Check.FILES.value)
        except GantryError as error:
            raise garbled(self._line, f"does not tell which files it has: {error.message}") from error


async def lost_on(paths: Paths, line: NodeLine, comparison: Comparison) -> Sequence[str]:
    """What a node has and the master has lost, in its place or set aside. Raises: NotSent, OSError, DamagedFile."""
    left, found = [Folder(name) for name in _FOLDERS], list[str]()
    while left:
        part = await comparison.compare(left.pop())
        left += part.more
        found += part.beyond.lost
    return [*found, *await set_aside(paths, line)]


def _digest(content: bytes | None) -> str | None:
    return None if content is None else digest(content)


def _next(parts: Iterator[Part]) -> Part | None:
    return next(parts, None)
