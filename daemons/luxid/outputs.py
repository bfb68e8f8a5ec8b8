"""Read the output of jobs' commands, while it is being written.

The output of a job is one stream of bytes in pieces `job-N.<offset of its first byte, 20 digits>`;
the job process begins a new piece now and then and removes the oldest. Standard error of commands that keep it
apart is another such stream, `job-N.err.<offset>`.

Source: DESIGN section 7, OP_RUN_COMMAND.
"""

import codecs
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import attrs
import trio

from common.ids import JobId
from common.paths import Paths
from common.system.watch import EventKind, FolderWatch
from daemons.luxid.bells import Bell, Bells

# limit of one reply in bytes
LONGEST_PIECE: Final = 2**20
# the kernel refuses to read where no file can have a byte
LONGEST_FILE: Final = 2**63 - 1
# seconds between two looks for output while the kernel tells of none
_LOOK_S: Final = 1.0
_PIECE: Final = re.compile(r"job-(\d+)(?:\.err)?\.(\d{20})", re.ASCII)


@attrs.frozen
class OutputBytes:
    """Bytes of an output, beginning at `offset`."""

    offset: int
    content: bytes


def read_output(base: Path, offset: int, limit: int = LONGEST_PIECE) -> OutputBytes:
    """Return the next bytes at or after `offset`, at most `limit`; empty if there are no more yet.

    A character may begin in one file and end in the next, so bytes that follow each other are returned together.

    Args: base: common path of the stream's pieces.
    """
    starts = _starts(base)
    later = [start for start in starts if start > offset]
    begin, found = offset, b""
    for start in [*[start for start in starts if start <= offset][-1:], *later]:
        end = begin + len(found)
        if found and (start != end or len(found) >= limit):
            # output in between is lost
            break
        at = max(start, end)
        content = _read_at(Path(f"{base}.{start:020d}"), at - start, limit - len(found))
        if content:
            begin, found = begin if found else at, found + content
    return OutputBytes(begin, found)


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
        self._bells: Bells[JobId] = Bells()
        self._watch: FolderWatch | None = None

    @contextmanager
    def listen(self, job_id: JobId, called: Callable[[], None] | None = None) -> Iterator[Bell]:
        """Yield the bell that rings when the job may have printed something.

        Args: called: called at each ring.
        """
        with self._bells.listen(job_id) as bell:
            if self._watch is None:
                self._watch = self._begin()
            if called is not None:
                bell.calls.append(called)
            try:
                yield bell
            finally:
                if called is not None:
                    bell.calls.remove(called)
                if len(self._bells) == 1 and bell.listeners == 1 and self._watch is not None:
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
                    self._bells.ring_all()
                    continue
                for name in {event.name for event in events}:
                    if (match := _PIECE.fullmatch(name)) is not None:
                        self._bells.ring(JobId(int(match[1])))
        except trio.ClosedResourceError:
            # there are no listeners any more
            return


def _starts(base: Path) -> list[int]:
    found = (_PIECE.fullmatch(name) for name in os.listdir(base.parent) if name.startswith(f"{base.name}."))
    starts = (match[2] for match in found if match is not None and match[0] == f"{base.name}.{match[2]}")
    return sorted(map(int, starts))


def _read_at(path: Path, offset: int, limit: int) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        # removed since the folder was listed
        return b""
    try:
        return os.pread(fd, min(limit, LONGEST_FILE - offset), offset)
    finally:
        os.close(fd)
