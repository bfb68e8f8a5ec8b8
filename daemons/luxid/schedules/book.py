"""The schedules that wconfd keeps, in luxid's memory.

Theory. Only luxid changes schedules. It has wconfd make a change durable, and then makes the same one here; so what is
here is what wconfd has, except after a call whose fate is unknown. Then, and whenever a connection to wconfd begins,
all are read anew.

Source: DESIGN section 16.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, TypeVar

import attrs
import trio

from common.errors import GantryError, NotFound, OverLimit, Unavailable
from common.queue.submitter import JobOwner
from common.schedules.schedule import Schedule, ScheduleRun
from common.schedules.settling import settled
from daemons.luxid.core.choice.userbounds import UserKey, key_of
from protocol.client import Client
from protocol.messages import Request
from protocol.wconfd.schedules import PutSchedule, ReadSchedules, RemoveSchedule, Settlement, SettleRuns

# seconds in which wconfd must reply; it may be being restarted
PATIENCE_S: Final = 15.0
R = TypeVar("R")


class ScheduleBook:
    """All schedules.

    Args:
        wconfd: client of its own.
        changed: called with the uuids of schedules that are new, changed or gone; None: any may be.
    """

    def __init__(self, wconfd: Client, changed: Callable[[Collection[str] | None], None] = lambda _: None) -> None:
        self._wconfd = wconfd
        self.changed = changed
        self._schedules: dict[str, Schedule] = {}
        # number of schedules of each user
        self._counts: Counter[UserKey] = Counter()
        # number of runs since the start of luxid, by what became of them
        self.made: Counter[str] = Counter()
        # one change at a time
        self._turn = trio.Lock()
        # whether what is here may differ from what wconfd has
        self.is_stale = True

    def __len__(self) -> int:
        return len(self._schedules)

    def all(self) -> list[Schedule]:
        """By name."""
        return sorted(self._schedules.values(), key=lambda each: each.name)

    def get(self, uuid: str) -> Schedule | None:
        return self._schedules.get(uuid)

    def uuids(self) -> list[str]:
        return list(self._schedules)

    async def named(self, name: str) -> Schedule:
        """Raises: NotFound: there is no such schedule. Unavailable: wconfd is away, and they are not known."""
        found = await self.find(name)
        if found is None:
            raise NotFound(f"there is no schedule {name!r:.80}; 'gantry schedule list' shows them")
        return found

    async def find(self, name: str) -> Schedule | None:
        """Raises: Unavailable: as `named`."""
        await self.require()
        return next((each for each in self._schedules.values() if each.name == name), None)

    def forget(self) -> None:
        """What is here may differ from what wconfd has."""
        self.is_stale = True
        self.changed(None)

    async def require(self) -> None:
        """Read the schedules, if what is here may differ. Raises: Unavailable."""
        if not self.is_stale:
            return
        async with self._turn:
            await self._read_if_stale()

    async def _read_if_stale(self) -> None:
        if not self.is_stale:
            return
        # told again while they are read: they are read once more
        self.is_stale = False
        try:
            found = await self._wconfd.call_retrying(ReadSchedules(), PATIENCE_S)
        except BaseException:
            self.is_stale = True
            raise
        self._schedules = {each.uuid: each for each in found}
        self._counts = Counter(map(user_of, found))
        self.changed(None)

    async def add(self, schedule: Schedule, most: int | None = None) -> None:
        """Add a schedule. Durability: on return it survives a loss of power.

        Args: most: number of schedules that its user may have; None: any.
        Raises: OverLimit: the user has so many. GantryError: wconfd has refused it. Unavailable: whether it is there is
            unknown.
        """
        async with self._turn:
            count = self._counts[user_of(schedule)]
            if most is not None and count >= most:
                raise OverLimit(
                    f"user {schedule.user or schedule.http_user!r} has {count} schedules, of at most {most}; remove "
                    "some, or have an administrator raise 'max_schedules_per_user' in '[limits]'",
                    limit=most,
                )
            await self._put(schedule)
        self.changed([schedule.uuid])

    async def change(self, uuid: str, change: Callable[[Schedule], Schedule]) -> Schedule | None:
        """Change a schedule; return it, or None: it was removed meanwhile. Durability, Raises: as `add`.

        Args: change: makes the new one of that which is there at its turn, so that no other change is lost; what it
            raises is raised.
        """
        async with self._turn:
            await self._read_if_stale()
            schedule = self._schedules.get(uuid)
            if schedule is None:
                return None
            after = change(schedule)
            if after == schedule:
                return schedule
            await self._put(after)
        self.changed([uuid])
        return after

    async def _put(self, schedule: Schedule) -> None:
        await self._call(PutSchedule(schedule))
        if schedule.uuid not in self._schedules:
            self._counts[user_of(schedule)] += 1
        self._schedules[schedule.uuid] = schedule

    async def restart(self, uuid: str, now: float) -> Schedule | None:
        """Settle a schedule up to now, although it is settled for later. Durability, Raises: as `change`."""
        return await self.change(uuid, lambda schedule: attrs.evolve(schedule, settled_at=now))

    async def remove(self, schedule: Schedule) -> bool:
        """False: it was gone already. Durability, Raises: as `add`."""
        async with self._turn:
            is_gone = await self._call(RemoveSchedule(schedule.uuid))
            if (gone := self._schedules.pop(schedule.uuid, None)) is not None:
                self._counts[user_of(gone)] -= 1
        self.changed([schedule.uuid])
        return is_gone

    async def settle(self, runs: Sequence[tuple[str, ScheduleRun]]) -> None:
        """Note what became of runs, by the uuids of their schedules, in one write. Durability, Raises: as `add`."""
        async with self._turn:
            settlements = list(self._settlements(runs))
            if settlements:
                await self._call(SettleRuns(tuple(settlements)))
            self.made.update(each.run.state.value for each in settlements)
            for each in settlements:
                self._schedules[each.uuid] = settled(self._schedules[each.uuid], each.run, each.settled_at)

    def _settlements(self, runs: Iterable[tuple[str, ScheduleRun]]) -> Iterable[Settlement]:
        """Several runs of a schedule come in order; one by hand settles only itself."""
        settled_at: dict[str, float] = {}
        for uuid, run in runs:
            schedule = self._schedules.get(uuid)
            if schedule is None:
                # it was removed meanwhile
                continue
            before = settled_at.get(uuid, schedule.settled_at)
            settled_at[uuid] = before if run.is_by_hand else max(before, run.nominal_at)
            yield Settlement(uuid, run, settled_at[uuid])

    async def _call(self, request: Request[R]) -> R:
        try:
            return await self._wconfd.call_retrying(request, PATIENCE_S)
        except GantryError as error:
            if error.code == Unavailable.code:
                self.forget()
            raise
        except BaseException:
            self.forget()
            raise


def user_of(schedule: Schedule) -> UserKey:
    """By what the schedules of its user are counted."""
    return key_of(JobOwner(schedule.uid, schedule.user, http_user=schedule.http_user))
