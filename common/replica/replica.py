"""How a change of files on this node reaches the other nodes: one interface for all modes of `replication`.

Theory. A store asks the replica before it makes a change here, makes it durable here, and reports it to the replica;
only then does the change count: it is visible, others are woken, the caller gets its reply. What the two steps mean is
the mode: with `none` nothing; with `nodes` an attempt to copy it, after it was made, within a bounded time; with `etcd`
a commit by a majority, before it is made, which fences an old master. There a file here never holds what is not
acknowledged, and the copies follow in the background. A replica retries by itself for nodes that lack a change; its
store does not wait for that. When a replica begins, it finds by itself the changes that were made while no store
reported them.

A crash between the two steps leaves a change that is committed and not made; the next start of a daemon makes it. What
cannot be made here is taken back.

The caller may be shielded from cancellation, so every method returns within its own time limit.

Source: DESIGN sections 12 and 14.
"""

from collections.abc import Sequence
from pathlib import Path

import attrs

from common.durable.atomicfile import FileWrite
from common.errors import GantryError, Unavailable


class NotCopied(GantryError):
    """other nodes lack a change that is durable here; they are told again until they have it"""

    code = "unavailable"

    def __init__(self, message: str, *, is_most: bool = False) -> None:
        super().__init__(message)
        # whether more than half of the nodes lack it
        self.is_most = is_most


class NoLongerMaster(Unavailable):
    """another node is the master now; this one must not write any more"""


@attrs.frozen
class Replace:
    """These files get these contents. They are one change: a node has all of it or nothing."""

    files: Sequence[FileWrite]

    @property
    def paths(self) -> Sequence[Path]:
        return [write.path for write in self.files]


@attrs.frozen
class TakeUp:
    """Other processes of this node, such as jobs', have replaced these files; they hold this change or later ones.

    If a file cannot be read, the replica tries again, as it does for nodes that do not reply.
    """

    paths: Sequence[Path]
    # Whether an opcode has ended. That a job has begun an opcode is no news to any node: it was told that the job was
    # started, and finds it interrupted in either case.
    has_results: bool = True
    # whether these processes have ended
    are_dead: bool = False


@attrs.frozen
class Move:
    """Each source is moved to its target."""

    moves: Sequence[tuple[Path, Path]]

    @property
    def paths(self) -> Sequence[Path]:
        """The sources."""
        return [source for source, _ in self.moves]


@attrs.frozen
class Remove:
    """These files go; some may not exist."""

    paths: Sequence[Path]


FileChange = Replace | TakeUp | Move | Remove


class Replica:
    """The mode `none`, and what the others build on: each method does nothing, and costs no turn of the event loop."""

    # whether `before` commits; else a store need not call `before`, `made` and `take_back`
    commits_first: bool = False

    async def before(self, change: FileChange) -> None:
        """Commit a change in the cluster, which is made here only if this returns. A replacement is one transaction.

        Raises:
            NoLongerMaster: another node is the master, or this one can no longer prove that it is.
            Unavailable: the cluster takes no changes now; this one is not committed.
            InvalidRequest: the change is too large; it is not committed.
        """

    def made(self, change: Replace) -> None:
        """What was committed of these files is in place and durable here, whether or not its caller still waits.

        Never raises.
        """

    async def take_back(self, change: FileChange) -> None:
        """A change was committed, and not made here: commit what its files hold. Raises: as `before`."""

    async def after(self, change: FileChange) -> None:
        """Pass a change to the other nodes that is durable here; in the order in which changes were made.

        Raises:
            NotCopied: other nodes lack the change for now. It counts nevertheless, and the replica keeps retrying.
            NoLongerMaster: another node is the master; this change may be lost, and nothing more may be written here.
        """
