"""The calls that bring parts of the master's queue to a node.

Source: noded.md 6 and 8.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import assert_never

from common.ids import JobId
from common.paths import Paths
from common.system.inthread import in_thread
from daemons.luxid.copying.masterfiles import read_text
from daemons.luxid.core.copies.backlog import Fact
from protocol.noded.call import NodeCall
from protocol.noded.contents import Content
from protocol.noded.queue import JobqueueRename, JobqueueSetDrainFlag, JobqueueUpdate, Move
from protocol.noded.statefiles import StateFile, WriteStateFiles
from protocol.noded.verifying import Check, NodeVerify
from protocol.noded.virtualpaths import WireNames
from protocol.noded.work import SetWatcherPause


class QueueCalls:
    """Makes calls from the files of the master."""

    def __init__(self, paths: Paths, names: WireNames) -> None:
        self._paths = paths
        self._names = names

    def write(self, files: Mapping[str, bytes]) -> NodeCall[None]:
        """Write many files at once: a call of ours. Args: files: by their names below the folder of data."""
        return WriteStateFiles(tuple(StateFile(name, Content(content)) for name, content in files.items()))

    def content(self, job_id: JobId, content: bytes) -> NodeCall[None]:
        """Write the file of a job as that of a live one."""
        return JobqueueUpdate(self._live(job_id), Content(content))

    def move(self, job_ids: Iterable[JobId]) -> NodeCall[tuple[None, ...]]:
        """Move jobs to the archive."""
        return JobqueueRename(tuple(Move(self._live(job_id), self._archived(job_id)) for job_id in job_ids))

    async def fact(self, fact: Fact) -> NodeCall[None]:
        """Raises: OSError: the file cannot be read."""
        match fact:
            case Fact.SERIAL:
                path = self._paths.serial_file
                return JobqueueUpdate(self._names.to_wire(path), Content(await in_thread(path.read_bytes)))
            case Fact.DRAIN:
                return JobqueueSetDrainFlag(await in_thread(self._paths.drain_file.exists))
            case Fact.WATCHER_PAUSE:
                text = await in_thread(read_text, self._paths.watcher_pause)
                return SetWatcherPause(float(text) if text and text.strip().isdigit() else None)
            case _:
                assert_never(fact)

    def digests(self, archived: Mapping[JobId, bool]) -> NodeVerify:
        """Ask for the digests of the files of these jobs.

        Args: archived: whether each is archived here; only then it may be in either place there.
        """
        places = [
            *map(self._live, archived),
            *(self._archived(each) for each, is_archived in archived.items() if is_archived),
        ]
        return _digests(places)

    def digests_of(self, names: Sequence[str]) -> NodeVerify:
        """Ask for the digests of files, by their names below the folder of data."""
        return _digests([self._wire(name) for name in names])

    def told(self, names: Sequence[str], found: Mapping[str, str]) -> Mapping[str, str]:
        """The digests that a node has found, by the names below the folder of data."""
        return {name: found[wire] for name in names if (wire := self._wire(name)) in found}

    def live(self, job_ids: Iterable[JobId], found: Mapping[str, str]) -> Mapping[JobId, str]:
        """The digests of live jobs among those that a node has found."""
        return {job_id: found[name] for job_id in job_ids if (name := self._live(job_id)) in found}

    def archived(self, job_ids: Iterable[JobId], found: Mapping[str, str]) -> Mapping[JobId, str]:
        return {job_id: found[name] for job_id in job_ids if (name := self._archived(job_id)) in found}

    def _wire(self, name: str) -> str:
        return self._names.to_wire(self._paths.data / name)

    def _live(self, job_id: JobId) -> str:
        return self._names.to_wire(self._paths.job_file(job_id))

    def _archived(self, job_id: JobId) -> str:
        return self._names.to_wire(self._paths.archived_job_file(job_id))


def _digests(names: Sequence[str]) -> NodeVerify:
    return NodeVerify({Check.FILES.value: list(names)}, "", {})
