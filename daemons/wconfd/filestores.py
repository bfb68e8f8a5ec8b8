"""States that each have a file: temporary reservations, and the rows of schedules, resources and sessions.

Theory. A state is replaced as a whole by its writer (`steps`). Without a file there is nothing in it; a damaged file
stops the daemon. Under a lease only the rows that change are committed, each under a key of its own.

Source: wconfd.md 2.4, 6.1 to 6.3; DESIGN sections 8 and 16.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Generic, Self, TypeVar

import attrs
import trio
from immutables import Map

from common.durable.atomicfile import write_file
from common.durable.durably import durably
from common.errors import DamagedFile, Unavailable
from common.locks import Owner
from common.paths import Paths
from common.resources import Resource
from common.schedules.schedule import Schedule
from common.system.log import get_log
from common.webaccess.sessions import KeptSession
from daemons.wconfd.core import keptrows, reservations
from daemons.wconfd.core.keptrows import RESOURCES, SCHEDULES, SESSIONS, Form, Rows
from daemons.wconfd.core.reservations import Reservations
from daemons.wconfd.distribution import ConfigDistribution, ReservationsChange, RowsChange, StateChange
from daemons.wconfd.steps import Step, StepCounts, StepWriter

S = TypeVar("S")
T = TypeVar("T")
R = TypeVar("R")


_log: Final = get_log(__name__)


class FileStore(Generic[S]):
    """The only holder of a state. Make one with `load`; start `run` before the first change.

    Args: distribution: None: no other node is to have the state.
    """

    def __init__(self, path: Path, state: S, distribution: ConfigDistribution | None) -> None:
        self._path = path
        self._distribution = distribution or ConfigDistribution()
        self._writer = StepWriter(state, self._write)
        self.run = self._writer.run
        self.counts: Final[StepCounts] = self._writer.counts

    @property
    def state(self) -> S:
        """The durable state."""
        return self._writer.state

    async def change(self, step: Step[S, R]) -> R:
        """Change the state by a step; see `StepWriter.change`.

        Raises: Unavailable: the file could not be written; nothing has changed.
        Durability: on return the change survives a loss of power.
        """
        return await self._writer.change(step)

    def change_to(self, state: S) -> StateChange:
        """The change from the durable state to this one, for the other nodes."""
        raise NotImplementedError

    def encoded(self, state: S) -> bytes:
        """The content of the file."""
        raise NotImplementedError

    def _write(self, state: S, _: object) -> None:
        """Write in the writer's thread."""
        self._distribution.carry_out(self.change_to(state), lambda: self._write_file(self.encoded(state)))

    def _write_file(self, content: bytes) -> None:
        try:
            durably(lambda: write_file(self._path, content))
        except OSError as error:
            _log.error("file.unwritten", path=self._path, reason=error, effect="what is in it cannot be changed")
            reason = error.strerror or error
            raise Unavailable(f"'{self._path}' could not be written: {reason}; nothing was changed") from error


def _read(path: Path, decode: Callable[[bytes], S], nothing: S, advice: str) -> S:
    """The state in a file, read before trio runs. Args: nothing: the state without a file.

    Raises:
        DamagedFile: with the path, the place, and what to do; it is never replaced by an empty file.
        OSError: the file cannot be read.
    """
    try:
        return decode(path.read_bytes())
    except FileNotFoundError:
        _log.info("file.missing", path=path, effect="there is nothing in it yet")
        return nothing
    except DamagedFile as error:
        raise DamagedFile(f"'{path}': {error.message}; {advice}", path=str(path), **error.fields) from error


class ReservationStore(FileStore[Reservations]):
    """The temporary reservations.

    Args: meet: called with each owner before its change gets its place among the changes.
    """

    def __init__(
        self,
        path: Path,
        state: Reservations,
        meet: Callable[[Owner], None] = lambda _: None,
        distribution: ConfigDistribution | None = None,
    ) -> None:
        super().__init__(path, state, distribution)
        self._meet = meet
        # owners whose changes are under way
        self._changing: Counter[Owner] = Counter()
        for owner in state.owners():
            meet(owner)

    @classmethod
    def load(
        cls, path: Path, meet: Callable[[Owner], None] = lambda _: None, distribution: ConfigDistribution | None = None
    ) -> Self:
        """Raises: DamagedFile, OSError: the file cannot be read."""
        advice = (
            f"restore it from a backup, or, once no job process is left alive, start without reservations: rm {path}"
        )
        return cls(path, _read(path, reservations.decode, Reservations(), advice), meet, distribution)

    async def change_of(self, owner: Owner, step: Step[Reservations, R]) -> R:
        """Change the reservations of an owner. Raises, Durability: as `change`."""
        self._meet(owner)
        self._changing[owner] += 1
        try:
            return await self.change(step)
        finally:
            self._changing[owner] -= 1
            if not self._changing[owner]:
                # or it would grow with each owner that there ever was
                del self._changing[owner]

    async def release_minors(self, *disks: str) -> None:
        """Remove the temporary minors of these disks. Raises, Durability: as `change`."""
        if self._writer.is_idle and self.state.without_minors(*disks) is self.state:
            return
        await self.change(lambda state: (state.without_minors(*disks), None))

    def change_to(self, state: Reservations) -> StateChange:
        return ReservationsChange(before=self.state, after=state)

    def encoded(self, state: Reservations) -> bytes:
        return reservations.encode(state)

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
        return await self.change(step)

    async def settled(self) -> None:
        """Wait for all changes begun before this call. Raises: as `change`."""
        await self._writer.settled()


class KeptStore(FileStore[Rows[T]], Generic[T]):
    """The rows of a file of ours, by key."""

    def __init__(
        self, path: Path, form: Form[T], rows: Rows[T], distribution: ConfigDistribution | None = None
    ) -> None:
        super().__init__(path, rows, distribution)
        self._form = form

    @classmethod
    def load(cls, path: Path, form: Form[T], distribution: ConfigDistribution | None = None) -> Self:
        """Raises: DamagedFile, OSError: the file cannot be read."""
        advice = (
            f"restore it from a backup or a master candidate: 'cp BACKUP {path}', or start without {form.noun}: "
            f"'mv {path} {path}.damaged'"
        )
        none: Rows[T] = Map()
        rows = _read(path, lambda content: keptrows.decode(form, content), none, advice)
        return cls(path, form, rows, distribution)

    def with_value(self, rows: Rows[T], value: T) -> Rows[T]:
        """For steps: the rows with this one, in place of the one with its key."""
        return keptrows.with_value(self._form, rows, value)

    def change_to(self, state: Rows[T]) -> StateChange:
        return RowsChange(before=self.state, after=state, file=self._path.name)

    def encoded(self, state: Rows[T]) -> bytes:
        return keptrows.encode(self._form, state)


AnyStore = KeptStore[Schedule] | KeptStore[Resource] | KeptStore[KeptSession]


@attrs.frozen
class KeptFiles:
    """The stores of all files of ours that hold rows."""

    schedules: KeptStore[Schedule]
    resources: KeptStore[Resource]
    sessions: KeptStore[KeptSession]

    @classmethod
    def load(cls, paths: Paths, distribution: ConfigDistribution | None = None) -> Self:
        """Read all of them. Args, Raises: as `KeptStore`."""
        return cls(
            KeptStore.load(paths.schedules_data, SCHEDULES, distribution),
            KeptStore.load(paths.resources_data, RESOURCES, distribution),
            KeptStore.load(paths.sessions_data, SESSIONS, distribution),
        )

    @property
    def stores(self) -> Mapping[str, AnyStore]:
        """By the names of their files."""
        return {"schedules.data": self.schedules, "resources.data": self.resources, "sessions.data": self.sessions}

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the writers; for `nursery.start`. Raises, Cancellation: as `StepWriter.run`."""
        async with trio.open_nursery() as nursery:
            for store in self.stores.values():
                await nursery.start(store.run)
            task_status.started()
