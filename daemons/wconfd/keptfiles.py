"""The stores of all files of ours that hold rows: schedules and resources.

Source: DESIGN section 16.
"""

from collections.abc import Callable, Mapping
from typing import Self

import attrs
import trio

from common.paths import Paths
from common.resources import Resource
from common.schedules.schedule import Schedule
from daemons.wconfd.core.keptforms import RESOURCES, SCHEDULES
from daemons.wconfd.keptstore import KeptStore, RowKeeping


@attrs.frozen
class KeptFiles:
    schedules: KeptStore[Schedule]
    resources: KeptStore[Resource]

    @classmethod
    def load(cls, paths: Paths, keeping: RowKeeping | None = None, written: Callable[[], None] = lambda: None) -> Self:
        """Read all of them. Args, Raises: as `KeptStore`."""
        return cls(
            KeptStore.load(paths.schedules_data, SCHEDULES, keeping, written),
            KeptStore.load(paths.resources_data, RESOURCES, keeping, written),
        )

    @property
    def stores(self) -> Mapping[str, KeptStore[Schedule] | KeptStore[Resource]]:
        """By the names of their files."""
        return {"schedules.data": self.schedules, "resources.data": self.resources}

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the writers; for `nursery.start`. Raises, Cancellation: as `StepWriter.run`."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self.schedules.run)
            await nursery.start(self.resources.run)
            task_status.started()
