"""Copies of a node command's streams in the job's own files, with exact offsets.

Theory. The byte n of the node's stream is the byte base + n of the job's file, where the base is what the file had
before the command; the node keeps it. So the size of the file alone tells a later process of the job what is still to
be copied. Bytes that the node has dropped are left out of the file, and the offsets of the others stay.
"""

from typing import Self

from common.commands.output import OutputFile
from common.system.log import get_log
from common.system.retrypauses import retry_pauses
from common.system.signals import ProcessSignals
from daemons.jobproc.nodecommands.stream import Stream
from daemons.jobproc.units.commandresult import OutputSink, Written

_log = get_log(__name__)


class StreamCopy:
    """One stream on its way into the job's file.

    Args:
        size: bytes that the file has.
    """

    def __init__(self, output: OutputFile, size: int, tail_lines: int) -> None:
        self._output = output
        self._sink = OutputSink(output, tail_lines)
        self.size = size

    @classmethod
    def of(cls, output: OutputFile, tail_lines: int, signals: ProcessSignals) -> Self:
        """The copy into this file, as soon as its size can be read."""
        for pause_s in retry_pauses():
            try:
                return cls(output, output.end, tail_lines)
            except OSError as error:
                _log.warning("output.unreadable", error=error, retry_s=pause_s)
            signals.wait(pause_s)
        raise AssertionError("pauses never end")

    @property
    def stream(self) -> Stream:
        return Stream(self.size)

    def recall(self, base: int) -> None:
        """Take up what an earlier process has copied. Args: base: bytes that the file had before the command."""
        # a master that has changed has no output of what ran before: the offsets stay nevertheless
        self.take(base - self.size, b"")
        if self.size > base:
            try:
                self._sink.tail.feed(self._output.last(self._sink.tail.most_bytes, base))
            except OSError as error:
                _log.warning("output.unreadable", error=error, next="the last lines of the result are incomplete")

    def take(self, dropped: int, data: bytes) -> None:
        """Args: dropped: bytes before these that the node has not kept."""
        if dropped > 0:
            try:
                self._output.skip(dropped)
            except OSError as error:
                _log.warning("output.unreadable", error=error, effect="the offsets of the output do not fit")
        if data:
            self._sink.take(data)

    def written(self, byte_count: int) -> Written:
        return Written(byte_count, self._sink.tail.lines(), self._sink.is_broken)
