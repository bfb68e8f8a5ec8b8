"""One stream of a command on a node, output or standard error: what of it the job's file has.

Source: protocol.noded.commands.
"""

from typing import Self

import attrs

from protocol.noded.commands import CommandState


@attrs.frozen
class Stream:
    """One stream of the command, copied into a file of the job."""

    # bytes that the file had when the conversation began
    file_bytes: int
    # bytes of the node's stream that the file has, or that are gone; None: not known yet
    taken: int | None = None

    def placed(self, base: int) -> Self:
        """Args: base: bytes that the file had before the command."""
        return self if self.taken is not None else attrs.evolve(self, taken=max(self.file_bytes - base, 0))

    def fresh_part(self, begin: int, data: bytes) -> tuple[int, bytes]:
        """Return how many bytes the node has dropped before these, and which of them are new.

        Args: begin: offset of the first byte in the node's stream.
        """
        taken = self.taken or 0
        return max(begin - taken, 0), data[max(taken - begin, 0) :]

    def after(self, begin: int, data: bytes, state: CommandState, whole: int) -> Self:
        """The stream after a reply. Args: whole: bytes that the node's stream has had."""
        taken = max(self.taken or 0, begin + len(data)) if data else self.taken or 0
        if not data and not state.phase.may_run:
            # it has kept nothing of the rest
            taken = max(taken, whole)
        return attrs.evolve(self, taken=taken)
