"""The interface by which a change that is durable on this node reaches the other nodes.

Theory. A store makes a change durable here, then passes it to the other nodes, and only then does the change count: it
is visible, others are woken, the caller gets its reply. Each way defines what passing means: nothing (`none`),
an attempt within a bounded time (`nodes`). A way retries by itself for nodes that lack a change; its store does not
wait for that. When a way begins, it finds by itself the changes that were made while no store reported them.

With `etcd` a change is committed by a majority, which fences an old master, before it is made here (`CommitsFirst`): so
a file here never holds what is not acknowledged. The copies follow in the background. The other ways have nothing to
do beforehand, and the store has no `CommitsFirst` then.

The caller may be shielded from cancellation, so every method returns within its own time limit.

Source: DESIGN sections 12 and 14.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

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


class Copies(Protocol):
    """Passes changes of files to the other nodes. Each change is durable here when it is reported, in order.

    Raises, all methods:
        NotCopied: other nodes lack the change for now. It counts nevertheless, and the way keeps retrying.
        NoLongerMaster: another node is the master; this change may be lost, and nothing more may be written here.
    """

    async def replaced(self, files: Sequence[FileWrite]) -> None:
        """These files have these contents. They are one change: a node has all of it or nothing."""
        ...

    async def appeared(self, paths: Sequence[Path], *, has_results: bool) -> None:
        """Another process of this node, such as a job's, has replaced these files; they hold this change or later ones.

        Args: has_results: whether an opcode has ended. That a job has begun an opcode was no news to any node: it was
            told that the job was started, and finds it interrupted in either case.
        If a file cannot be read, the way tries again, as it does for nodes that do not reply.
        """
        ...

    async def renamed(self, moves: Sequence[tuple[Path, Path]]) -> None:
        """Each source has been moved to its target."""
        ...

    async def removed(self, paths: Sequence[Path]) -> None:
        """These files are gone; some may not have existed."""
        ...


class CommitsFirst(Protocol):
    """Commits changes of files in the cluster before they are made here. A change is made only if its method returns.

    A crash in between leaves a change that is committed and not made; the next start of a daemon makes it.

    Raises, all methods:
        NoLongerMaster: another node is the master, or this one can no longer prove that it is.
        Unavailable: the cluster takes no changes now; this one is not committed.
        InvalidRequest: the change is too large; it is not committed.
    """

    async def replacing(self, files: Sequence[FileWrite]) -> None:
        """These files will have these contents: one transaction, all or nothing."""
        ...

    def made(self, files: Sequence[FileWrite]) -> None:
        """What was committed of these files is in place and durable here. Never raises."""
        ...

    async def taking_up(self, paths: Sequence[Path], *, are_dead: bool) -> None:
        """Other processes of this node have replaced these files, and it is not reported yet.

        Args: are_dead: whether these processes have ended.
        """
        ...

    async def moving(self, moves: Sequence[tuple[Path, Path]]) -> None:
        """Each source will be moved to its target."""
        ...

    async def removing(self, paths: Sequence[Path]) -> None:
        """These files will be removed; some may not exist."""
        ...

    async def put_back(self, paths: Sequence[Path]) -> None:
        """Changes of these files were committed and not made here: commit what the files hold."""
        ...


class NoCopies:
    """The way `none`: there are no other nodes. It costs nothing, not even a turn of the event loop."""

    async def replaced(self, files: Sequence[FileWrite]) -> None:
        pass

    async def appeared(self, paths: Sequence[Path], *, has_results: bool) -> None:
        pass

    async def renamed(self, moves: Sequence[tuple[Path, Path]]) -> None:
        pass

    async def removed(self, paths: Sequence[Path]) -> None:
        pass
