"""The temporary reservations in memory and in `tempres.data`.

Source: wconfd.md 2.4, 6.1 to 6.3; DESIGN section 8.
"""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self, TypeVar

from common.durable.atomicfile import write_file
from common.durable.durably import durably
from common.errors import DamagedFile, Unavailable
from common.locks import Owner
from common.system.log import get_log
from daemons.wconfd.core.reservations import Reservations, decode, encode
from daemons.wconfd.distribution import ConfigDistribution, ReservationsChange
from daemons.wconfd.steps import Step, StepCounts, StepWriter

T = TypeVar("T")


_log: Final = get_log(__name__)


class ReservationStore:
    """The only holder of the reservations. Make one with `load`; start `run` before the first change.

    Args:
        meet: called with each owner before its change gets its place among the changes.
        distribution: None: no other node is to know of the reservations.
    """

    def __init__(
        self,
        path: Path,
        state: Reservations,
        meet: Callable[[Owner], None] = lambda _: None,
        distribution: ConfigDistribution | None = None,
    ) -> None:
        self._path = path
        self._distribution = distribution or ConfigDistribution()
        self._writer = StepWriter(state, self._write)
        self._meet = meet
        # owners whose changes are under way
        self._changing: Counter[Owner] = Counter()
        self.run = self._writer.run
        for owner in state.owners():
            meet(owner)

    @classmethod
    def load(
        cls, path: Path, meet: Callable[[Owner], None] = lambda _: None, distribution: ConfigDistribution | None = None
    ) -> Self:
        """Read the reservations, before trio runs. Without a file there are none.

        Raises:
            DamagedFile: with the path, the place, and what to do; it is never replaced by an empty file.
            OSError: the file cannot be read.
        """
        try:
            return cls(path, decode(path.read_bytes()), meet, distribution)
        except FileNotFoundError:
            _log.info("reservations.missing", path=path, effect="nothing is reserved")
            return cls(path, Reservations(), meet, distribution)
        except DamagedFile as error:
            text = (
                f"'{path}': {error.message}; restore it from a backup, or, once no job process is left alive, "
                f"start without reservations: rm {path}"
            )
            raise DamagedFile(text, path=str(path), **error.fields) from error

    @property
    def state(self) -> Reservations:
        """The durable state."""
        return self._writer.state

    @property
    def counts(self) -> StepCounts:
        return self._writer.counts

    async def change(self, step: Step[Reservations, T], owner: Owner | None = None) -> T:
        """Change the reservations, of an owner or of a disk, by a step; see `StepWriter.change`.

        Raises: Unavailable: `tempres.data` could not be written; nothing has changed.
        Durability: on return the change survives a loss of power.
        """
        if owner is None:
            return await self._writer.change(step)
        self._meet(owner)
        self._changing[owner] += 1
        try:
            return await self._writer.change(step)
        finally:
            self._changing[owner] -= 1
            if not self._changing[owner]:
                # or it would grow with each owner that there ever was
                del self._changing[owner]

    async def release_minors(self, *disks: str) -> None:
        """Remove the temporary minors of these disks. Raises, Durability: as `change`."""
        if self._writer.is_idle and self.state.without_minors(*disks) is self.state:
            return
        await self._writer.change(lambda state: (state.without_minors(*disks), None))

    # methods for the deaths of owners

    def owners(self) -> frozenset[Owner]:
        """All owners that have reserved anything, or are about to."""
        return self.state.owners() | frozenset(self._changing)

    async def drop_owner(self, owner: Owner) -> bool:
        """Remove all reservations of an owner; return false if there were none. Raises, Durability: as `change`."""

        def step(state: Reservations) -> tuple[Reservations, bool]:
            after = state.without_owner(owner)
            return after, after is not state

        if self._writer.is_idle and not self.state.has(owner):
            return False
        return await self._writer.change(step)

    async def settled(self) -> None:
        """Wait for all changes begun before this call. Raises: as `change`."""
        await self._writer.settled()

    def _write(self, state: Reservations, _: object) -> None:
        """Write in the writer's thread."""
        change = ReservationsChange(self.state, state)
        self._distribution.carry_out(change, lambda: self._write_file(encode(state)))

    def _write_file(self, content: bytes) -> None:
        try:
            durably(lambda: write_file(self._path, content))
        except OSError as error:
            _log.error("reservations.unwritten", path=self._path, reason=error, effect="nothing can be reserved")
            reason = error.strerror or error
            raise Unavailable(f"'{self._path}' could not be written: {reason}; nothing was changed") from error
