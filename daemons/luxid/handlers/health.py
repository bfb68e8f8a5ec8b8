"""Facts that tell whether luxid is well; the method is ours.

Source: DESIGN section 16.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import trio

from common.metrics.process import ProcessUse, own_use
from common.paths import Paths
from common.system.daemons.program import release
from common.system.inthread import in_thread
from common.system.watch import unwatched
from daemons.luxid.history.pasthistory import PastHistory
from daemons.luxid.jobs.livejobs import LiveJobs
from protocol.luxi.daemon.health import LuxidHealth, ReadHealth, Room
from protocol.peer import Peer

# seconds after which a disk that does not tell its room is taken to hang
_PATIENCE_S: Final = 5.0


class Health:
    """The method that reads the facts; it waits for no disk.

    Args: lost: tells how many files of the queue candidates have set aside, because they are lost here.
    """

    def __init__(self, paths: Paths, jobs: LiveJobs, past: PastHistory, lost: Callable[[], int] = lambda: 0) -> None:
        self._lost = lost
        self._paths = paths
        self._jobs = jobs
        self._past = past

    async def read_health(self, _: ReadHealth, __: Peer) -> LuxidHealth:
        """Raises: OSError: the folder of damaged files cannot be listed."""
        rooms: list[Room] = []
        process: list[ProcessUse] = []
        async with trio.open_nursery() as nursery:
            for folder in dict.fromkeys((self._paths.data, self._paths.queue, self._paths.run, self._paths.log)):
                nursery.start_soon(_measure, folder, rooms)
            process.append(await in_thread(own_use, release(), unwatched()))
        untold = self._jobs.untold
        return LuxidHealth(
            rooms=tuple(sorted(rooms, key=lambda room: room.path)),
            process=process[0],
            lost_files=self._lost(),
            damaged_files=await in_thread(_count_files, self._paths.damaged),
            lost_outputs=self._jobs.counts.lost_outputs,
            unread_jobs=len(self._jobs.unread),
            history_behind=self._past.lacking,
            untold=len(untold),
            given_up=untold.given_up,
            rules_off=untold.rules_off,
        )


async def _measure(folder: Path, rooms: list[Room]) -> None:
    room = Room(str(folder), failure=f"no reply within {_PATIENCE_S:g} s")
    with trio.move_on_after(_PATIENCE_S):
        # a disk may hold the thread for any time
        room = await in_thread(_room, folder, abandon_on_cancel=True)
    rooms.append(room)


def _room(folder: Path) -> Room:
    try:
        found = os.statvfs(folder)
    except OSError as error:
        is_gone = isinstance(error, FileNotFoundError)
        return Room(str(folder), failure=(error.strerror or str(error)).lower(), is_gone=is_gone)
    size, free = found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize
    return Room(str(folder), free, size, found.f_favail, found.f_files)


def _count_files(folder: Path) -> int:
    """How many; none if the folder is gone, which the room of the data folder tells."""
    try:
        return len(os.listdir(folder))
    except FileNotFoundError:
        return 0
