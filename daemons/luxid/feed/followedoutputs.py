"""The output of commands for one subscriber: read from its files when the subscriber takes it.

Source: DESIGN section 7, OP_RUN_COMMAND.
"""

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import partial
from typing import Final

from common.asciijson import ascii_json
from common.ids import JobId
from common.wire import unstructure
from daemons.luxid.feed.messages import rows
from daemons.luxid.outputs import OutputWatch
from protocol.luxi.feed import OutputNews, OutputPlace
from protocol.luxi.output import JobOutput, OutputStream, ReadJobOutput

# number of pieces read at once; one has at most 1 MiB
_PIECES: Final = 8
_BYTES: Final = 2**20


class FollowedOutputs:
    """Output from some places on, each to its end. Close it.

    Args: read: carries out a call that does not wait.
    """

    def __init__(
        self, read: Callable[[ReadJobOutput], JobOutput], watch: OutputWatch, places: Iterable[OutputPlace]
    ) -> None:
        self._read = read
        self._watch = watch
        self._offsets = {(each.job_id, each.stream): each.offset for each in places}
        # streams that may have more than was read, in the order in which they are read
        self._waiting = dict.fromkeys(self._offsets)
        self._wake: Callable[[], None] = lambda: None
        self._listening = ExitStack()

    @property
    def job_ids(self) -> frozenset[JobId]:
        return frozenset(job_id for job_id, _ in self._offsets)

    @property
    def has_news(self) -> bool:
        """Whether there may be something to read."""
        return bool(self._waiting)

    def begin(self, wake: Callable[[], None]) -> None:
        """Call this whenever there may be something to read."""
        self._wake = wake
        for job_id in self.job_ids:
            self._listening.enter_context(self._watch.listen(job_id, partial(self.printed, job_id)))
        wake()

    def printed(self, job_id: JobId) -> None:
        """The job may have printed something, or has ended."""
        for stream in OutputStream:
            if (job_id, stream) in self._offsets:
                self._waiting[job_id, stream] = None
        if self._waiting:
            self._wake()

    def read(self) -> bytes:
        """The next pieces as rows of `OutputNews`; empty without any.

        Raises: Unavailable: a file cannot be read at the moment.
        """
        found: list[bytes] = []
        size = 0
        while self._waiting and len(found) < _PIECES and size < _BYTES:
            place = next(iter(self._waiting))
            if (news := self._next(*place)) is not None:
                found.append(ascii_json(unstructure(news)))
                size += len(found[-1])
        return rows(found) if found else b""

    def close(self) -> None:
        """Harmless when repeated."""
        self._listening.close()

    def _next(self, job_id: JobId, stream: OutputStream) -> OutputNews | None:
        place = (job_id, stream)
        piece = self._read(ReadJobOutput(job_id, self._offsets[place], stream=stream))
        del self._waiting[place]
        if piece.is_end:
            del self._offsets[place]
        else:
            self._offsets[place] = piece.next_offset
            if piece.text:
                # the last one: each stream gets its turn
                self._waiting[place] = None
        if not piece.text and not piece.is_end:
            return None
        return OutputNews(job_id, stream, piece.text, piece.next_offset, piece.is_end)
