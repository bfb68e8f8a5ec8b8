"""The schedules, as luxid reads and changes them; luxid has checked them.

Source: DESIGN section 16.
"""

from typing import Final

import attrs

from common.errors import Conflict
from common.schedules.schedule import Schedule
from common.schedules.settling import settled
from common.system.log import get_log
from daemons.wconfd.core.keptrows import Rows
from daemons.wconfd.keptstore import KeptStore
from protocol.peer import Peer
from protocol.stream import Publisher
from protocol.wconfd.schedules import PutSchedule, ReadSchedules, RemoveSchedule, SettleRuns
from protocol.wconfd.subscribe import KEPT_CHANGED, SCHEDULES

_log: Final = get_log(__name__)


@attrs.frozen
class ScheduleHandlers:
    _store: KeptStore[Schedule]
    _publisher: Publisher

    async def read_schedules(self, _: ReadSchedules, __: Peer) -> tuple[Schedule, ...]:
        return tuple(sorted((row.value for row in self._store.rows.values()), key=lambda each: each.name))

    async def put_schedule(self, call: PutSchedule, peer: Peer) -> None:
        """A second delivery finds what it wants already there."""
        schedule = call.schedule

        def step(rows: Rows[Schedule]) -> tuple[Rows[Schedule], bool]:
            for row in rows.values():
                if row.value.name == schedule.name and row.value.uuid != schedule.uuid:
                    raise Conflict(f"there is a schedule '{schedule.name}' already; choose another name, or change it")
            had = rows.get(schedule.uuid)
            after = schedule if had is None else attrs.evolve(schedule, runs=had.value.runs)
            if had is not None and had.value == after:
                return rows, False
            return self._store.with_value(rows, after), True

        if await self._store.change(step):
            _log.info("schedule.put", schedule=schedule.name, uuid=schedule.uuid, by=peer)
            self._publisher.publish(KEPT_CHANGED, SCHEDULES)

    async def remove_schedule(self, call: RemoveSchedule, peer: Peer) -> bool:
        def step(rows: Rows[Schedule]) -> tuple[Rows[Schedule], bool]:
            return (rows.delete(call.uuid), True) if call.uuid in rows else (rows, False)

        is_gone = await self._store.change(step)
        if is_gone:
            _log.info("schedule.removed", uuid=call.uuid, by=peer)
            self._publisher.publish(KEPT_CHANGED, SCHEDULES)
        return is_gone

    async def settle_runs(self, call: SettleRuns, _: Peer) -> None:
        """No event: luxid, which alone settles runs, knows of them."""

        def step(rows: Rows[Schedule]) -> tuple[Rows[Schedule], None]:
            for each in call.settlements:
                if (row := rows.get(each.uuid)) is None:
                    continue
                after = settled(row.value, each.run, each.settled_at)
                if after is not row.value:
                    rows = self._store.with_value(rows, after)
            return rows, None

        await self._store.change(step)
