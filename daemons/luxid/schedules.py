"""The schedules as luxid knows them, and the task that submits their jobs."""

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from typing import Final, TypeVar

import attrs
import trio

from common.conditions import Condition, check_condition
from common.errors import Conflict, GantryError, InvalidRequest, NotFound, OverLimit, PlacesReserved, Unavailable
from common.ids import JobId
from common.jsontext import ascii_json
from common.metrics import Metrics, counter
from common.queue.reasons import JobOwner
from common.schedules.schedule import RunState, Schedule, ScheduleRun, settled
from common.schedules.times import ScheduleTimes, instant_name, times_of
from common.system.clocks import Clock
from common.system.log import get_log
from common.system.shortages import retry_pauses
from daemons.luxid.core.choice.limits import UserKey, key_of
from daemons.luxid.core.schedules import Agenda, Decision, decide, run_job, run_key
from protocol.client import Client
from protocol.luxi.jobs import JobInput
from protocol.messages import Request
from protocol.wconfd.config import PutSchedule, ReadSchedules, RemoveSchedule, Settlement, SettleRuns

# The schedules that wconfd keeps, in luxid's memory.
#
# Theory. Only luxid changes schedules. It has wconfd make a change durable, and then makes the same one here; so what
# is here is what wconfd has, except after a call whose fate is unknown. Then, and whenever a connection to wconfd
# begins, all are read anew.
#
# Source: DESIGN section 16.


# seconds in which wconfd must reply; it may be being restarted
PATIENCE_S: Final = 15.0
R = TypeVar("R")


@attrs.frozen
class ScheduleBounds:
    """What the schedules of one user may be together."""

    count: int
    # of their jobs as JSON
    size: int


class NameTaken(Conflict):
    """there is a schedule of this name"""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is a schedule '{name}' already; choose another name, or change it")


@attrs.define
class RunCounts(Metrics):
    """The runs of schedules since the start of luxid."""

    made: Counter[RunState] = counter("schedule_runs", "Runs of schedules, by what became of them.", "state")


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
        # number of schedules of each user, and the bytes of their jobs as JSON
        self._counts: Counter[UserKey] = Counter()
        self._sizes: Counter[UserKey] = Counter()
        self.counts = RunCounts()
        # one change at a time
        self._turn = trio.Lock()
        # how often what is here may have come to differ from what wconfd has, and after which of these it was read
        self._forgotten = 0
        self._read_after = -1

    def __len__(self) -> int:
        return len(self._schedules)

    @property
    def is_stale(self) -> bool:
        """Whether what is here may differ from what wconfd has; also while it is being read."""
        return self._read_after != self._forgotten

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
        self._forgotten += 1
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
        after = self._forgotten
        found = await self._wconfd.call_retrying(ReadSchedules(), PATIENCE_S)
        self._read_after = after
        self._schedules = {each.uuid: each for each in found}
        self._counts, self._sizes = Counter(), Counter()
        for each in found:
            self._count(each, 1)
        self.changed(None)

    async def add(self, schedule: Schedule, bounds: ScheduleBounds | None = None) -> None:
        """Add a schedule. Durability: on return it survives a loss of power.

        Args: bounds: those of its user; None: there are none.
        Raises: NameTaken. OverLimit: the user has so many, or so much. GantryError: wconfd has refused it.
            Unavailable: whether it is there is unknown.
        """
        async with self._turn:
            if any(each.name == schedule.name for each in self._schedules.values()):
                raise NameTaken(schedule.name)
            self._check(schedule, bounds)
            await self._put(schedule)
        self.changed([schedule.uuid])

    async def change(
        self, uuid: str, change: Callable[[Schedule], Schedule], bounds: ScheduleBounds | None = None
    ) -> Schedule | None:
        """Change a schedule; return it, or None: it was removed meanwhile. Durability, Raises: as `add`.

        Args:
            change: makes the new one of that which is there at its turn, so that no other change is lost; what it
                raises is raised.
            bounds: as `add`.
        """
        async with self._turn:
            await self._read_if_stale()
            schedule = self._schedules.get(uuid)
            if schedule is None:
                return None
            after = change(schedule)
            if after == schedule:
                return schedule
            self._check(after, bounds)
            await self._put(after)
        self.changed([uuid])
        return after

    def _check(self, schedule: Schedule, bounds: ScheduleBounds | None) -> None:
        """Raises: OverLimit: with this schedule, new or changed, its user has too many, or too much."""
        if bounds is None:
            return
        user, name, before = user_of(schedule), schedule.user or schedule.http_user, self._schedules.get(schedule.uuid)
        count = self._counts[user]
        if before is None and count >= bounds.count:
            raise OverLimit(
                f"user {name!r} has {count} schedules, of at most {bounds.count}; remove some, or have an "
                "administrator raise 'max_schedules_per_user' in '[limits]'",
                limit=bounds.count,
            )
        others, size = self._sizes[user] - (0 if before is None else _size(before)), _size(schedule)
        # who has too much, after the bound was lowered, may still have less
        if others + size > max(bounds.size, 0 if before is None else self._sizes[user]):
            raise OverLimit(
                f"user {name!r} has other schedules with jobs of {others} bytes, and {size} more are over "
                f"{bounds.size}; keep what is long in files that the jobs read, remove some, or have an administrator "
                "raise 'max_schedule_bytes_per_user' in '[limits]'",
                limit=bounds.size,
            )

    async def _put(self, schedule: Schedule) -> None:
        await self._call(PutSchedule(schedule))
        if (before := self._schedules.get(schedule.uuid)) is not None:
            self._count(before, -1)
        self._count(schedule, 1)
        self._schedules[schedule.uuid] = schedule

    def _count(self, schedule: Schedule, step: int) -> None:
        user = user_of(schedule)
        self._counts[user] += step
        self._sizes[user] += step * _size(schedule)

    async def restart(self, uuid: str, now: float) -> Schedule | None:
        """Settle a schedule up to now, although it is settled for later. Durability, Raises: as `change`."""
        return await self.change(uuid, lambda schedule: attrs.evolve(schedule, settled_at=now))

    async def remove(self, schedule: Schedule, condition: Condition | None = None) -> bool:
        """False: it was gone already.

        Durability, Raises: as `add`. PreconditionFailed: it is another one than the condition says.
        """
        async with self._turn:
            await self._read_if_stale()
            if (now := self._schedules.get(schedule.uuid)) is not None:
                check_condition(condition, f"schedule '{schedule.name}'", now.tag)
            is_gone = await self._call(RemoveSchedule(schedule.uuid))
            if (gone := self._schedules.pop(schedule.uuid, None)) is not None:
                self._count(gone, -1)
        self.changed([schedule.uuid])
        return is_gone

    async def settle(self, runs: Sequence[tuple[str, ScheduleRun]]) -> None:
        """Note what became of runs, by the uuids of their schedules, in one write. Durability, Raises: as `add`."""
        async with self._turn:
            settlements = list(self._settlements(runs))
            if settlements:
                await self._call(SettleRuns(tuple(settlements)))
            self.counts.made.update(each.run.state for each in settlements)
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


def _size(schedule: Schedule) -> int:
    """Bytes of its job as JSON."""
    return len(ascii_json(schedule.job))


# Submits the jobs of schedules when they are due: one task, which sleeps until the first instant.
#
# Theory. What is due is handled in groups. Each run is submitted under the key of its nominal instant, then all runs of
# the group are settled in one write of wconfd, and only then the next group is begun. So a crash leaves at most one
# group unsettled, and the keys say which of its runs have their jobs: a group is smaller than the number of keys that
# are kept at any age (`submissionkeys`).
#
# What hinders everybody (a full disk, a drained queue, wconfd away) is no verdict on a run: it is tried again, until it
# counts as missed; meanwhile one schedule at a time finds out whether it is over, however many are due. What is said
# about the job itself (its user may not submit or has too many jobs, a rule rejects it) is one: the run is refused.
# Where only the places reserved for operators are left, each run waits for itself, and keeps nobody's schedule from its
# turn.
#
# Source: DESIGN section 16; everyday.md section c.


# schedules of a group
GROUP: Final = 50
# seconds after which a schedule that cannot be looked at now is looked at again
LOOKED_AGAIN_S: Final = 5.0
# seconds after which a run that found no queue place, but for the reserved ones, is tried again
PLACES_AGAIN_S: Final = 20.0
# seconds; an instant may lie further ahead than a timer can be set
_LONGEST_SLEEP_S: Final = 100 * 366 * 86400.0
# codes of errors that concern everybody, or nobody yet
_HINDRANCES: Final = frozenset({"unavailable", "internal"})
_log: Final = get_log(__name__)

# submits a job of a schedule, under a key; raises what a submission raises
Submit = Callable[[Schedule, JobInput, str], Awaitable[JobId]]


class Firing:
    """Args:
    submit: submits a job for the schedule's user.
    cancel: cancels a job of the schedule; does not wait.
    is_unended: tells whether a job has not ended.
    """

    def __init__(
        self,
        book: ScheduleBook,
        clock: Clock,
        submit: Submit,
        cancel: Callable[[Schedule, JobId], None],
        is_unended: Callable[[JobId], bool],
    ) -> None:
        self._book = book
        self._clock = clock
        self._submit = submit
        self._cancel = cancel
        self._is_unended = is_unended
        self._agenda = Agenda()
        # schedules that are to be looked at now; None: all
        self._news: set[str] | None = None
        self._has_news = trio.Event()
        self._last_now = 0.0
        # pauses while runs are hindered; None: they are not
        self._pauses: Iterator[float] | None = None
        # what was told of schedules that are stopped or hindered
        self._told: dict[str, str] = {}
        # whether a run of the group was hindered
        self._hindered = False
        book.changed = self.tell

    def tell(self, uuids: Collection[str] | None) -> None:
        """These schedules have changed; None: any may have."""
        if uuids is None:
            self._news = None
        elif self._news is not None:
            self._news.update(uuids)
        self._has_news.set()

    def unended_jobs(self, schedule: Schedule) -> Sequence[JobId]:
        """The jobs of its runs that have not ended, the oldest first."""
        found = (run.job_id for run in schedule.runs if run.job_id is not None)
        return [job_id for job_id in found if self._is_unended(job_id)]

    async def run(self) -> None:
        """Submit what is due, until cancelled; then the clock is let go of."""
        try:
            await self._run()
        finally:
            self._clock.close()

    async def _run(self) -> None:
        retries, told = retry_pauses(), ""
        while True:
            try:
                await self._book.require()
                retries, told = retry_pauses(), ""
            except GantryError as error:
                if error.message != told:
                    told = error.message
                    _log.warning("schedules.unknown", reason=error, effect="no schedule runs until wconfd replies")
                await trio.sleep(next(retries))
                continue
            self._plan()
            if await self._fire_due() and self._pauses is not None:
                await trio.sleep(next(self._pauses))
            elif not self._book.is_stale and not self._has_news.is_set():
                await self._wait()

    async def _fire_due(self) -> bool:
        """Handle all that is due; return true, with the rest undone, once a run is hindered."""
        while due := self._agenda.take(self._clock.now(), GROUP if self._pauses is None else 1):
            if await self._fire(due):
                return True
        return False

    def _plan(self) -> None:
        """Look at what has changed; at everything, if the clock was set back."""
        now = self._clock.now()
        news, self._news = self._news, set()
        self._has_news = trio.Event()
        if now < self._last_now:
            news = None
        self._last_now = now
        for uuid in self._book.uuids() if news is None else news:
            self._agenda.put(uuid, now)

    async def _wait(self) -> None:
        at = self._agenda.next_at
        self._clock.wake_at(None if at is None else min(at, self._clock.now() + _LONGEST_SLEEP_S))
        if self._clock.now() < self._last_now:
            # it was set back while runs were submitted, when no alarm was set that would tell: all is planned anew
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._until_woken, nursery.cancel_scope)
            await self._has_news.wait()
            nursery.cancel_scope.cancel()

    async def _until_woken(self, scope: trio.CancelScope) -> None:
        await self._clock.woken()
        if (at := self._agenda.next_at) is None or at > self._clock.now():
            # it was the clock that was set: instants that were computed before may be wrong
            self.tell(None)
        scope.cancel()

    async def _fire(self, due: Sequence[str]) -> bool:
        """Look at these schedules, and settle their runs; return whether any was hindered."""
        made: list[tuple[str, ScheduleRun]] = []
        self._hindered = False
        async with trio.open_nursery() as nursery:
            for uuid in due:
                nursery.start_soon(self._look_at, uuid, made)
        if made:
            await self._settle(made)
        if self._hindered:
            self._pauses = self._pauses or retry_pauses()
        elif any(run.job_id is not None for _, run in made):
            self._pauses = None
        return self._hindered

    async def _settle(self, made: Sequence[tuple[str, ScheduleRun]]) -> None:
        retries, told = retry_pauses(), ""
        while True:
            try:
                await self._book.settle(made)
                return
            except GantryError as error:
                if error.message != told:
                    told = error.message
                    _log.error("runs.unsettled", count=len(made), reason=error, going_on="again until it succeeds")
            await trio.sleep(next(retries))

    async def _look_at(self, uuid: str, made: list[tuple[str, ScheduleRun]]) -> None:
        schedule = self._book.get(uuid)
        if schedule is None:
            return
        try:
            await self._handle(schedule, made)
        except InvalidRequest as error:
            self._tell_once(schedule, "schedule.stopped", error.message)
        except (Unavailable, OSError) as error:
            # a shortage, or a faulty disk: no verdict on the schedule
            self._agenda.put(schedule.uuid, self._clock.now() + LOOKED_AGAIN_S)
            self._tell_once(schedule, "schedule.hindered", str(error))
        except Exception:
            # a fault in what is done about one schedule must not stop the others, nor all jobs
            _log.exception("schedule.failed", schedule=schedule.name, effect="it does not run until it is changed")

    async def _handle(self, schedule: Schedule, made: list[tuple[str, ScheduleRun]]) -> None:
        """Raises:
        InvalidRequest: it has no instants, as its zone is unknown here.
        Unavailable, OSError: its zone, or what a submission needs, cannot be read now.
        """
        uuid, times = schedule.uuid, times_of(schedule)
        decision = await self._decide(schedule, times)
        for run in decision.skipped:
            made.append((uuid, run))
            if run not in schedule.runs:
                _log.info("run.skipped", schedule=schedule.name, nominal=instant_name(run.nominal_at), why=run.why)
        if decision.submit_at is not None:
            run_made = await self._submit_run(schedule, decision.submit_at, decision)
            if run_made is None:
                return
            made.append((uuid, run_made))
        self._agenda.put(uuid, decision.next_at)

    async def _decide(self, schedule: Schedule, times: ScheduleTimes) -> Decision:
        now = self._clock.now()
        decision = decide(schedule, times, now, self.unended_jobs(schedule))
        if not decision.begins_anew:
            return decision
        _log.warning(
            "schedule.begins_anew",
            schedule=schedule.name,
            settled=instant_name(schedule.settled_at),
            reason="the clock was set back by more than a day",
        )
        anew = await self._begin_anew(schedule, now)
        return Decision(next_at=now + 1.0) if anew is None else decide(anew, times, now, self.unended_jobs(anew))

    async def _begin_anew(self, schedule: Schedule, now: float) -> Schedule | None:
        try:
            return await self._book.restart(schedule.uuid, now)
        except GantryError as error:
            self._tell_once(schedule, "schedule.hindered", error.message)
            return None

    async def _submit_run(self, schedule: Schedule, nominal_at: float, decision: Decision) -> ScheduleRun | None:
        """Submit a run; None: something hinders it, and it is tried again."""
        nominal = instant_name(nominal_at)
        try:
            job_id = await self._submit(
                schedule, run_job(schedule, nominal_at, decision.after), run_key(schedule, nominal_at)
            )
        except GantryError as error:
            if isinstance(error, PlacesReserved):
                # those of operators may have their jobs meanwhile
                self._agenda.put(schedule.uuid, self._clock.now() + PLACES_AGAIN_S)
                self._tell_once(schedule, "run.hindered", error.message)
                return None
            if error.code in _HINDRANCES:
                self._try_later(schedule, error)
                return None
            _log.warning("run.refused", schedule=schedule.name, nominal=nominal, reason=error)
            return ScheduleRun(nominal_at, RunState.REFUSED, why=error.message)
        # only now: a run that is refused, or hindered for hours, replaces no job
        for each in decision.cancel:
            self._cancel(schedule, each)
        self._told.pop(schedule.uuid, None)
        _log.info("run.submitted", schedule=schedule.name, nominal=nominal, job=job_id)
        return ScheduleRun(nominal_at, RunState.SUBMITTED, job_id)

    def _try_later(self, schedule: Schedule, error: GantryError) -> None:
        self._hindered = True
        # behind the others that are due
        self._agenda.put(schedule.uuid, self._clock.now())
        self._tell_once(schedule, "run.hindered", error.message)

    def _tell_once(self, schedule: Schedule, event: str, reason: str) -> None:
        if self._told.get(schedule.uuid) != reason:
            self._told[schedule.uuid] = reason
            _log.warning(event, schedule=schedule.name, reason=reason)
