"""Rows of a file of ours in memory and on disk: schedules, resources and sessions.

Theory. All rows are one state, which its writer replaces as a whole (`steps`). Without a file there are no rows; a
damaged one stops the daemon. Under a lease only the rows that change are committed, each under a key of its own.

Source: DESIGN section 16.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Generic, Self, TypeVar

import attrs
import trio
from immutables import Map

from common.durable.atomicfile import write_file
from common.durable.durably import durably
from common.errors import DamagedFile, Unavailable
from common.paths import Paths
from common.resources import Resource
from common.schedules.schedule import Schedule
from common.system.log import get_log
from common.webaccess.sessions import KeptSession
from daemons.wconfd.core.keptrows import RESOURCES, SCHEDULES, SESSIONS, Form, Rows, decode, encode, with_value
from daemons.wconfd.distribution import ConfigDistribution, RowsChange
from daemons.wconfd.steps import Step, StepWriter

T = TypeVar("T")
R = TypeVar("R")


_log: Final = get_log(__name__)


class KeptStore(Generic[T]):
    """The only holder of these rows. Make one with `load`; start `run` before the first change.

    Args: distribution: None: no other node is to have the rows.
    """

    def __init__(
        self, path: Path, form: Form[T], rows: Rows[T], distribution: ConfigDistribution | None = None
    ) -> None:
        self._path = path
        self._form = form
        self._distribution = distribution or ConfigDistribution()
        self._writer = StepWriter(rows, self._write)
        self.run = self._writer.run
        self.counts = self._writer.counts

    @classmethod
    def load(cls, path: Path, form: Form[T], distribution: ConfigDistribution | None = None) -> Self:
        """Read the rows, before trio runs. Without a file there are none.

        Raises:
            DamagedFile: with the path, the place, and what to do; it is never replaced by an empty file.
            OSError: the file cannot be read.
        """
        try:
            return cls(path, form, decode(form, path.read_bytes()), distribution)
        except FileNotFoundError:
            return cls(path, form, Map(), distribution)
        except DamagedFile as error:
            text = (
                f"'{path}': {error.message}; restore it from a backup or a master candidate: 'cp BACKUP {path}', "
                f"or start without {form.noun}: 'mv {path} {path}.damaged'"
            )
            raise DamagedFile(text, path=str(path), **error.fields) from error

    @property
    def rows(self) -> Rows[T]:
        """The durable rows, by key."""
        return self._writer.state

    async def change(self, step: Step[Rows[T], R]) -> R:
        """Change the rows by a step; see `StepWriter.change`.

        Raises: Unavailable: the file could not be written; nothing has changed.
        Durability: on return the change survives a loss of power.
        """
        return await self._writer.change(step)

    def with_value(self, rows: Rows[T], value: T) -> Rows[T]:
        """For steps: the rows with this one, in place of the one with its key."""
        return with_value(self._form, rows, value)

    def _write(self, rows: Rows[T], _: object) -> None:
        """Write in the writer's thread."""
        change = RowsChange(self._path.name, self.rows, rows)
        self._distribution.carry_out(change, lambda: self._write_file(rows))

    def _write_file(self, rows: Rows[T]) -> None:
        try:
            durably(lambda: write_file(self._path, encode(self._form, rows)))
        except OSError as error:
            noun = self._form.noun
            _log.error("rows.unwritten", path=self._path, reason=error, effect=f"the {noun} cannot be changed")
            reason = error.strerror or error
            raise Unavailable(f"'{self._path}' could not be written: {reason}; nothing was changed") from error


# The stores of all files of ours that hold rows.
#
# Source: DESIGN section 16.


AnyStore = KeptStore[Schedule] | KeptStore[Resource] | KeptStore[KeptSession]


@attrs.frozen
class KeptFiles:
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
