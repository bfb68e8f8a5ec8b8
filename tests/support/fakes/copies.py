"""Other nodes that are slow, that do not answer, or that have another master."""

import threading
from collections.abc import Iterable
from pathlib import Path

import trio

from common.errors import Unavailable
from common.objects.kinds import NodeUuid
from common.replica.replica import FileChange, Move, NoLongerMaster, NotCopied, Remove, Replace, Replica, TakeUp
from daemons.wconfd.core.config.configstate import ConfigState
from daemons.wconfd.distribution import ConfigChange, ConfigDistribution, StateChange
from tests.support.wait import PATIENCE_S

REFUSAL = "2 of 3 nodes do not answer"
LOSS = "its epoch is 7, ours is 6"


class FakeCopies(Replica):
    """Remembers what it was told, by the names of the files."""

    def __init__(self) -> None:
        self.told: list[tuple[str, ...]] = []
        # of the writes of job processes: whether they had results
        self.had_results: list[bool] = []
        self.contents: dict[str, bytes] = {}
        self.refuses = False
        self.is_master = True
        # names of files whose changes wait until `go_on`
        self.slow: set[str] = set()
        self.go_on = trio.Event()

    async def after(self, change: FileChange) -> None:
        match change:
            case Replace(files):
                self.contents |= {write.path.name: write.content for write in files}
                await self._tell("replaced", change.paths)
            case TakeUp(paths):
                self.contents |= {path.name: path.read_bytes() for path in paths}
                self.had_results.append(change.has_results)
                await self._tell("appeared", paths)
            case Move(moves):
                await self._tell("renamed", [path for move in moves for path in move])
            case Remove(paths):
                await self._tell("removed", paths)

    async def _tell(self, what: str, paths: Iterable[Path]) -> None:
        names = tuple(path.name for path in paths)
        self.told.append((what, *names))
        if self.slow.intersection(names):
            await self.go_on.wait()
        if not self.is_master:
            raise NoLongerMaster(LOSS)
        if self.refuses:
            raise NotCopied(REFUSAL)


class FakeDistribution(ConfigDistribution):
    """The same for the configuration; remembers the serial numbers before and after."""

    def __init__(self) -> None:
        self.committed: list[tuple[int, int]] = []
        # what became of changes before they were written, by the serial numbers after
        self.first: list[tuple[str, int]] = []
        # whether nothing can be committed
        self.is_away = False
        self.is_master = True
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def before(self, change: StateChange) -> None:
        if self.is_away:
            raise Unavailable(REFUSAL)
        assert isinstance(change, ConfigChange)
        self.first.append(("committed", change.after.config.serial_no))

    def take_back(self, change: StateChange) -> None:
        assert isinstance(change, ConfigChange)
        self.first.append(("taken back", change.after.config.serial_no))

    def after(self, change: StateChange) -> None:
        assert isinstance(change, ConfigChange)
        self.committed.append((change.before.config.serial_no, change.after.config.serial_no))
        assert self.may_go_on.wait(PATIENCE_S)
        if not self.is_master:
            raise NoLongerMaster(LOSS)

    async def spread(
        self, state: ConfigState, only: frozenset[NodeUuid] | None = None, *, anew: bool = False
    ) -> frozenset[NodeUuid]:
        return frozenset()
