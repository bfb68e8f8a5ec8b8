"""A cluster that commits changes before they are made, and remembers them."""

import trio

from common.errors import GantryError
from common.replica.replica import FileChange, Move, Remove, Replace, Replica, TakeUp
from tests.support.fakes.copies import FakeCopies


class FakeCluster(Replica):
    """Each entry of `done` is a transaction: its kind, and the names of its files."""

    commits_first = True

    def __init__(self) -> None:
        # what was reported after it was made
        self.copies = FakeCopies()
        self.done: list[tuple[str, ...]] = []
        # content of each file that was committed, by its name; None: it is gone
        self.holds: dict[str, bytes | None] = {}
        # errors of the next calls, in order; None: it succeeds
        self.plan: list[GantryError | None] = []
        # names of files that are refused in every call
        self.refused: dict[str, GantryError] = {}
        # set: calls wait for it
        self.gate: trio.Event | None = None
        self.asked = 0
        # names of files that were written after their commit
        self.made_here: list[tuple[str, ...]] = []

    async def before(self, change: FileChange) -> None:
        match change:
            case Replace(files):
                await self._transact("replacing", {write.path.name: write.content for write in files})
            case TakeUp(paths, has_results=True):
                what = "taking up the dead" if change.are_dead else "taking up"
                await self._transact(what, {path.name: path.read_bytes() for path in paths})
            case TakeUp():
                pass
            case Move(moves):
                await self._transact("moving", {source.name: b"moved" for source, _ in moves})
            case Remove(paths):
                await self._transact("removing", {path.name: None for path in paths})

    def made(self, change: Replace) -> None:
        self.made_here.append(tuple(path.name for path in change.paths))

    async def take_back(self, change: FileChange) -> None:
        held = {path.name: path.read_bytes() if path.exists() else None for path in change.paths}
        await self._transact("putting back", held)

    async def after(self, change: FileChange) -> None:
        await self.copies.after(change)

    async def _transact(self, what: str, files: dict[str, bytes | None]) -> None:
        self.asked += 1
        await trio.lowlevel.checkpoint()
        if self.gate is not None:
            await self.gate.wait()
        if self.plan and (error := self.plan.pop(0)) is not None:
            raise error
        for name in files.keys() & self.refused.keys():
            raise self.refused[name]
        self.done.append((what, *files))
        self.holds |= files
