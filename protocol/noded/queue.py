"""The job queue of a master candidate, a copy of the master's.

Names of files are those of `protocol.noded.virtualpaths`; they lie below the queue's folder.

Source: noded.md section 6.
"""

import attrs

from common.shapes import Row
from protocol.noded.call import URGENT_S, NodeCall
from protocol.noded.contents import Content


@attrs.frozen
class JobqueueUpdate(NodeCall[None]):
    """Replace a job file or `serial`. LuxiD allows 300 s."""

    METHOD = "jobqueue_update"
    LIMIT_S = URGENT_S
    file_name: str
    content: Content

    @property
    def carried_bytes(self) -> int:
        return len(self.content.data)


@attrs.frozen
class Move(Row):
    """A file that gets another name: `[old, new]`."""

    old: str
    new: str


@attrs.frozen
class JobqueueRename(NodeCall[tuple[None, ...]]):
    """Move files, for instance to the archive; it stops at the first failure, and earlier moves stay.

    A second delivery fails at a node that has moved them. LuxiD allows 300 s.
    """

    METHOD = "jobqueue_rename"
    LIMIT_S = URGENT_S
    REPEATABLE = False
    moves: tuple[Move, ...]

    def accepts(self, reply: tuple[None, ...]) -> bool:
        return len(reply) == len(self.moves)


@attrs.frozen
class JobqueuePurge(NodeCall[None]):
    """Remove all jobs, archived ones too."""

    METHOD = "jobqueue_purge"


@attrs.frozen
class JobqueueSetDrainFlag(NodeCall[None]):
    """Make or remove the file `drain`. LuxiD allows 300 s."""

    METHOD = "jobqueue_set_drain_flag"
    LIMIT_S = URGENT_S
    flag: bool
