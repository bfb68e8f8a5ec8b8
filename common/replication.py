"""The seam at which a change that is durable on this node becomes known to the others.

Theory. A store makes a change durable here, then lets the others have it, and only then does the change count: it is
visible, others are woken, the caller is answered. What "the others have it" means is the way's own: nothing (`none`),
an attempt within a bounded time (`nodes`), a commit that a majority has and that fences an old master (`etcd`). A way
tries on by itself for those that lack a change; its store does not wait for that. What changed while no store was there
to tell it, the way finds by itself when it begins.

Whoever calls may be shielded from cancellation, so every method returns within a bound of its own.

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


class NoLongerMaster(Unavailable):
    """another node is the master now; this one must not write any more"""


class Copies(Protocol):
    """Lets the other nodes have changes of files. Each change is durable here when it is told, in the order told.

    Raises, all methods:
        NotCopied: the others lack it for now. It counts all the same, and the way goes on telling them.
        NoLongerMaster: another node is the master; this change may be lost, and nothing more may be written here.
    """

    async def replaced(self, files: Sequence[FileWrite]) -> None:
        """These files have these contents. They are one change: the others have all of it or nothing."""
        ...

    async def appeared(self, paths: Sequence[Path]) -> None:
        """Another process of this node, such as a job's, has replaced these files; they hold this change or later ones.

        An error of reading them is no verdict: the way tries again, as it does for nodes that do not answer.
        """
        ...

    async def renamed(self, moves: Sequence[tuple[Path, Path]]) -> None:
        """Each source is at its target now."""
        ...

    async def removed(self, paths: Sequence[Path]) -> None:
        """These files are gone; some may not have been there."""
        ...


class NoCopies:
    """The way `none`: there are no others. Costs nothing, not even a turn of the event loop."""

    async def replaced(self, files: Sequence[FileWrite]) -> None:
        pass

    async def appeared(self, paths: Sequence[Path]) -> None:
        pass

    async def renamed(self, moves: Sequence[tuple[Path, Path]]) -> None:
        pass

    async def removed(self, paths: Sequence[Path]) -> None:
        pass
