"""The output of jobs' commands as text, and the watch that tells of more of it.

`common.commands.output` reads the files. The output of a job is the stream `job-N`, standard error of commands that
keep it apart is `job-N.err`.

Source: DESIGN section 7, OP_RUN_COMMAND.
"""

import codecs
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import trio

from common.ids import JobId
from common.paths import Paths
from common.system.watch import EventKind, FolderWatch
from daemons.luxid.broadcasts import Broadcast, Broadcasts

# limit of one reply in bytes
LONGEST_PIECE: Final = 2**20
# seconds between two looks for output while the kernel tells of none
_LOOK_S: Final = 1.0
_PIECE: Final = re.compile(r"job-(\d+)(?:\.err)?\.(\d{20})", re.ASCII)


def decode_whole(content: bytes, *, is_end: bool) -> tuple[str, int]:
    """Return the text and the number of bytes decoded: a character that is cut off at the end waits for its rest."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(content, final=is_end)
    return text, len(content) - len(decoder.getstate()[0])


class OutputWatch:
    """Wakes the tasks that wait for output; watches the folder only while there are listeners."""

    def __init__(self, paths: Paths, nursery: trio.Nursery) -> None:
        self._folder = paths.output
        self._nursery = nursery
        self._broadcasts: Broadcasts[JobId] = Broadcasts()
        self._watch: FolderWatch | None = None

    @contextmanager
    def listen(self, job_id: JobId, called: Callable[[], None] | None = None) -> Iterator[Broadcast]:
        """Yield the broadcast that rings when the job may have printed something.

        Args: called: called at each ring.
        """
        with self._broadcasts.listen(job_id) as broadcast:
            if self._watch is None:
                self._watch = self._begin()
            if called is not None:
                broadcast.calls.append(called)
            try:
                yield broadcast
            finally:
                if called is not None:
                    broadcast.calls.remove(called)
                if len(self._broadcasts) == 1 and broadcast.listeners == 1 and self._watch is not None:
                    self._watch.close()
                    self._watch = None

    def _begin(self) -> FolderWatch:
        watch = FolderWatch(self._folder, kinds=EventKind.MODIFY | EventKind.CREATE, look_s=_LOOK_S)
        self._nursery.start_soon(self._follow, watch)
        return watch

    async def _follow(self, watch: FolderWatch) -> None:
        try:
            while True:
                events = await watch.events()
                if any(event.needs_rescan for event in events):
                    self._broadcasts.notify_all()
                    continue
                for name in {event.name for event in events}:
                    if (match := _PIECE.fullmatch(name)) is not None:
                        self._broadcasts.notify(JobId(int(match[1])))
        except trio.ClosedResourceError:
            # there are no listeners any more
            return
