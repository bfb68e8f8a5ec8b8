"""The job queue: updates, moves to the archive, the drain flag.

Source: noded.md 6.
"""

from daemons.noded.files.places import Places
from daemons.noded.files.queuefiles import QueueFiles
from protocol.noded.queue import JobqueuePurge, JobqueueRename, JobqueueSetDrainFlag, JobqueueUpdate


class QueueHandlers:
    """Raises, all: InvalidRequest, Denied: a name that is not one of the queue. OSError: the disk refuses."""

    def __init__(self, files: QueueFiles, places: Places) -> None:
        self._files = files
        self._places = places

    async def update(self, call: JobqueueUpdate) -> None:
        await self._files.update(self._places.queue_file(call.file_name), call.content.data)

    async def rename(self, call: JobqueueRename) -> tuple[None, ...]:
        """All names are checked before the first file is moved."""
        moves = [(self._places.queue_file(move.old), self._places.queue_file(move.new)) for move in call.moves]
        await self._files.rename(moves)
        return (None,) * len(moves)

    async def purge(self, _: JobqueuePurge) -> None:
        await self._files.purge()

    async def set_drain_flag(self, call: JobqueueSetDrainFlag) -> None:
        await self._files.set_drain_flag(call.flag)
