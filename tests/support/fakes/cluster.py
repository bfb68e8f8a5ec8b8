"""A cluster that commits changes before they are made, and remembers them."""

from collections.abc import Sequence
from pathlib import Path

import trio

from common.durable.atomicfile import FileWrite
from common.errors import GantryError


class FakeCluster:
    """Implements `CommitsFirst`. Each entry of `done` is a transaction: its kind, and the names of its files."""

    def __init__(self) -> None:
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

    async def replacing(self, files: Sequence[FileWrite]) -> None:
        await self._transact("replacing", {write.path.name: write.content for write in files})

    def made(self, files: Sequence[FileWrite]) -> None:
        self.made_here.append(tuple(write.path.name for write in files))

    async def taking_up(self, paths: Sequence[Path], *, are_dead: bool) -> None:
        what = "taking up the dead" if are_dead else "taking up"
        await self._transact(what, {path.name: path.read_bytes() for path in paths})

    async def moving(self, moves: Sequence[tuple[Path, Path]]) -> None:
        await self._transact("moving", {source.name: b"moved" for source, _ in moves})

    async def removing(self, paths: Sequence[Path]) -> None:
        await self._transact("removing", {path.name: None for path in paths})

    async def put_back(self, paths: Sequence[Path]) -> None:
        held = {path.name: path.read_bytes() if path.exists() else None for path in paths}
        await self._transact("putting back", held)

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
