"""Schedules: their calls, and the jobs that luxid submits for them."""

import os
import time
import uuid as uuids
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from typing import Final

import attrs
import trio

from common.access import Role, check_role
from common.conditions import Condition, check_condition
from common.errors import Conflict, GantryError, InvalidRequest, NotFound, Unavailable
from common.ids import JobId
from common.jsontext import ascii_json
from common.opcodes.command import OpRunCommand
from common.schedules.schedule import RunState, Schedule, ScheduleRun
from common.schedules.times import ScheduleTimes, times_of
from common.settings import LimitsSettings
from common.system.clocks import WallClock
from common.system.log import get_log
from daemons.luxid.core.rights import Submitter, Viewer, public_input
from daemons.luxid.core.schedules import (
    changed_schedule,
    hand_key,
    new_schedule,
    paused,
    replaced_schedule,
    run_job,
    upcoming,
)
from daemons.luxid.core.submission.newjobs import JobBounds
from daemons.luxid.files.submissionkeys import SubmissionKeys
from daemons.luxid.handlers.submission import Acceptance, SubmissionHandlers, read_jobs
from daemons.luxid.jobs import LiveJobs
from daemons.luxid.processes.killing import Canceller
from daemons.luxid.schedules import Firing, NameTaken, ScheduleBook, ScheduleBounds
from daemons.luxid.submitters import Submitters
from daemons.luxid.turns import in_turns
from protocol.luxi.jobs import JobInput
from protocol.luxi.queue import (
    AddSchedule,
    ChangeSchedule,
    ListSchedules,
    PauseSchedule,
    RemoveScheduleOf,
    RunSchedule,
    ScheduleRequest,
    ScheduleView,
    SetSchedule,
)
from protocol.peer import Peer

# Jobs that luxid itself submits, for the user whose they are.
#
# Source: DESIGN section 16.


_log: Final = get_log(__name__)


@attrs.frozen
class OwnJobs:
    """Submissions without a client."""

    _acceptance: Acceptance
    _submission: SubmissionHandlers
    _keys: SubmissionKeys
    _bounds: JobBounds

    async def check(self, job: JobInput, submitter: Submitter) -> None:
        """Make sure that the user could submit this job now.

        Raises: InvalidRequest: it is malformed, or has secrets. Denied: it is not for him. ConfigurationMissing.
        """
        (wanted,) = await self._acceptance.of(await read_jobs([job], self._bounds), submitter)
        if isinstance(wanted, GantryError):
            raise wanted
        if any(op.secret_parameters() for op in wanted):
            raise InvalidRequest("a schedule keeps no secrets: put them into a file that only the command reads")

    async def submit(self, job: JobInput, key: str, submitter: Submitter) -> JobId:
        """Submit a job under a key; the same key gives the same job, even if it would be another one by now.

        Raises: the reason why it was refused. Unavailable: try again.
        Durability: on return the job survives a loss of power.
        """
        earlier = self._earlier(key, submitter)
        if earlier is not None:
            return earlier
        try:
            return await self._submission.submit_as(job, key, submitter, _self())
        except Conflict:
            # the same call was delivered twice at once, and the other one's job has other times
            earlier = self._earlier(key, submitter)
            if earlier is None:
                raise
            return earlier

    def _earlier(self, key: str, submitter: Submitter) -> JobId | None:
        """The job that was submitted under the key; None: there is none. Raises: InvalidRequest: why it was refused."""
        earlier = self._keys.find(submitter.key_owner, key)
        if earlier is None:
            return None
        _log.info("submission.repeated", jobs=earlier.count, first=earlier.first_id, key=key)
        answer = earlier.answers[0]
        if isinstance(answer, str):
            raise InvalidRequest(answer)
        return answer


def _self() -> Peer:
    return Peer(os.getpid(), os.getuid(), os.getgid(), role=Role.FULL)


# Schedules: seen by all, changed by those whose they are and by operators.
#
# Source: DESIGN section 16.


MOST_SCHEDULES: Final = 10_000
# of these, for users with the role *operate* or more
RESERVED_SCHEDULES: Final = 500
MOST_NEXT: Final = 100
# times that a schedule is looked for again, as it was added or removed meanwhile
_TURNS: Final = 10
# schedules whose times are computed before other tasks run
_COSTS: Final = 20


@attrs.frozen
class Schedules:
    """The methods about schedules."""

    _book: ScheduleBook
    _own_jobs: OwnJobs
    _submitters: Submitters
    # bounds of users without all rights
    _limits: LimitsSettings
    # the jobs of a schedule's runs that have not ended, the oldest first
    _unended: Callable[[Schedule], Sequence[JobId]]

    async def list_schedules(self, call: ListSchedules, peer: Peer) -> tuple[ScheduleView, ...]:
        """Raises: Unavailable: wconfd is away, and they are not known."""
        if not 0 <= call.next_count <= MOST_NEXT:
            raise InvalidRequest(f"next_count must be 0 to {MOST_NEXT}, got {call.next_count}")
        await self._book.require()
        if call.names is not None:
            found = [schedule for name in call.names if (schedule := await self._book.find(name)) is not None]
            return tuple(self._view(schedule, call.next_count, peer) for schedule in found)
        return tuple(await in_turns(self._views(call.next_count, peer)))

    async def add_schedule(self, call: AddSchedule, peer: Peer) -> ScheduleView:
        """Durability: on return the schedule survives a loss of power."""
        return await self._add(call.wish, peer)

    async def set_schedule(self, call: SetSchedule, peer: Peer) -> ScheduleView:
        """Durability: as `add_schedule`. Raises: PreconditionFailed: it is another one than the condition says."""
        name = call.wish.name
        for _ in range(_TURNS):
            schedule = await self._book.find(name)
            if schedule is not None:
                view = await self._replace(schedule, call, peer)
                if view is not None:
                    return view
                continue
            check_condition(call.condition, f"schedule '{name:.80}'", None)
            with suppress(NameTaken):
                return await self._add(call.wish, peer)
        raise Conflict(f"schedule '{name:.80}' is added and removed by others all the time; try again")

    async def _replace(self, schedule: Schedule, call: SetSchedule, peer: Peer) -> ScheduleView | None:
        """None: it was removed meanwhile. Raises: as `set_schedule`."""
        _check_owner(schedule, "changed", peer)
        now, bounds = time.time(), None
        after = replaced_schedule(schedule, call.wish, now)
        if after.job != schedule.job:
            bounds = await self._check_job(schedule, after, peer)
        replaced = await self._book.change(
            schedule.uuid,
            lambda each: _conditional(each, replaced_schedule(each, call.wish, now), call.condition),
            bounds,
        )
        if replaced is None:
            return None
        _log.info("schedule.replaced", schedule=replaced.name, **peer.named)
        return self._view(replaced, 3, peer)

    async def _add(self, wish: ScheduleRequest, peer: Peer) -> ScheduleView:
        """Raises: NameTaken; else as `add_schedule`."""
        submitter = await self._submitters.of(peer)
        owner = await self._submitters.owner_of_schedules(submitter)
        schedule = new_schedule(wish, str(uuids.uuid4()), owner, time.time())
        if await self._book.find(schedule.name) is not None:
            raise NameTaken(schedule.name)
        most = MOST_SCHEDULES - (0 if submitter.role >= Role.OPERATE else RESERVED_SCHEDULES)
        if len(self._book) >= most:
            reserved = "" if most == MOST_SCHEDULES else "; the last ones are reserved for operators"
            raise Conflict(f"there are {len(self._book)} schedules, of at most {most}; remove some{reserved}")
        self._check_size(schedule, submitter)
        await self._own_jobs.check(run_job(schedule, schedule.created_at), submitter)
        await self._book.add(schedule, self._bounds(submitter))
        _log.info("schedule.added", schedule=schedule.name, uuid=schedule.uuid, **peer.named)
        return self._view(schedule, 3, peer)

    async def change_schedule(self, call: ChangeSchedule, peer: Peer) -> ScheduleView:
        """Durability: as `add_schedule`. Raises: PreconditionFailed: it is another one than the condition says."""
        schedule = await self._owned(call.wish.name, "changed", peer)
        now, bounds, cleared = time.time(), None, call.cleared or ()
        after = changed_schedule(schedule, call.wish, now, cleared)
        if call.wish.job is not None:
            bounds = await self._check_job(schedule, after, peer)
        after = await self._change(
            schedule,
            lambda each: _conditional(each, changed_schedule(each, call.wish, now, cleared), call.condition),
            bounds,
        )
        _log.info("schedule.changed", schedule=after.name, **peer.named)
        return self._view(after, 3, peer)

    async def _check_job(self, schedule: Schedule, after: Schedule, peer: Peer) -> ScheduleBounds | None:
        """Make sure that a schedule may get another job; return the bounds of its user. Raises: as `add_schedule`."""
        submitter = await self._submitters.of_schedule(after)
        _check_job_change(schedule, submitter, peer)
        self._check_size(after, submitter)
        await self._own_jobs.check(run_job(after, after.created_at), submitter)
        return self._bounds(submitter)

    async def pause_schedule(self, call: PauseSchedule, peer: Peer) -> ScheduleView:
        """Durability: as `add_schedule`."""
        schedule = await self._owned(call.name, "paused" if call.is_paused else "resumed", peer)
        now = time.time()
        after = await self._change(schedule, lambda each: paused(each, now, is_paused=call.is_paused))
        if after.is_paused is not schedule.is_paused:
            _log.info("schedule.paused" if call.is_paused else "schedule.resumed", schedule=after.name, **peer.named)
        return self._view(after, 3, peer)

    async def run_schedule(self, call: RunSchedule, peer: Peer) -> JobId:
        """Raises: what a submission by the schedule's user raises. Durability: the job is durable."""
        schedule = await self._owned(call.name, "run", peer)
        now = time.time()
        submitter = await self._submitters.of_schedule(schedule)
        key = hand_key(schedule, call.key or str(uuids.uuid4()))
        job_id = await self._own_jobs.submit(run_job(schedule, now), key, submitter)
        run = ScheduleRun(now, RunState.SUBMITTED, job_id, is_by_hand=True)
        _log.info("schedule.run", schedule=schedule.name, job=job_id, **peer.named)
        if job_id not in (each.job_id for each in schedule.runs):
            await self._book.settle([(schedule.uuid, run)])
        return job_id

    async def remove_schedule(self, call: RemoveScheduleOf, peer: Peer) -> bool:
        """Durability: as `add_schedule`. Raises: PreconditionFailed: it is another one than the condition says."""
        if await self._book.find(call.name) is None:
            return False
        schedule = await self._owned(call.name, "removed", peer)
        is_gone = await self._book.remove(schedule, call.condition)
        _log.info("schedule.removed", schedule=schedule.name, uuid=schedule.uuid, **peer.named)
        return is_gone

    def _bounds(self, submitter: Submitter) -> ScheduleBounds | None:
        if submitter.owner is None:
            return None
        return ScheduleBounds(self._limits.max_schedules_per_user, self._limits.max_schedule_bytes_per_user)

    async def _change(
        self, schedule: Schedule, change: Callable[[Schedule], Schedule], bounds: ScheduleBounds | None = None
    ) -> Schedule:
        """Raises: NotFound: somebody has removed it meanwhile; and as `ScheduleBook.change`."""
        after = await self._book.change(schedule.uuid, change, bounds)
        if after is None:
            raise NotFound(f"schedule '{schedule.name}' was removed meanwhile")
        return after

    def _check_size(self, schedule: Schedule, submitter: Submitter) -> None:
        """Raises: InvalidRequest: its job is too large; says the number and the bound."""
        size, most = len(ascii_json(schedule.job)), self._limits.max_schedule_bytes
        if submitter.owner is not None and size > most:
            raise InvalidRequest(
                f"schedule '{schedule.name}': its job has {size} bytes, of at most {most}; keep what is long in a file "
                "that the job reads, or have an administrator raise 'max_schedule_bytes' in '[limits]'",
                limit=most,
            )

    async def _owned(self, name: str, action: str, peer: Peer) -> Schedule:
        """The schedule.

        Args: action: what is to be done with it: "removed".
        Raises: NotFound. Denied: it is another's, and the caller is no operator.
        """
        schedule = await self._book.named(name)
        _check_owner(schedule, action, peer)
        return schedule

    def _views(self, count: int, peer: Peer) -> Generator[int, None, list[ScheduleView]]:
        views = []
        for schedule in self._book.all():
            # jobs may be large, and lists long
            view = self._view(schedule, count, peer)
            views.append(attrs.evolve(view, schedule=attrs.evolve(view.schedule, job=())))
            yield _COSTS
        return views

    def _view(self, schedule: Schedule, count: int, peer: Peer) -> ScheduleView:
        times, stopped = _times_or_why(schedule)
        unended = self._unended(schedule)
        is_seen = _owns(schedule, peer) or _sees_all(peer)
        return ScheduleView(
            schedule if is_seen else _public(schedule),
            next_at=upcoming(schedule, times, time.time(), count) if times is not None else (),
            active_job=unended[-1] if unended else None,
            stopped=stopped,
            # it would let others guess at what they do not see
            tag=schedule.tag if is_seen else "",
        )


def _times_or_why(schedule: Schedule) -> tuple[ScheduleTimes | None, str]:
    try:
        return times_of(schedule), ""
    except (InvalidRequest, Unavailable) as error:
        return None, error.message


def _check_owner(schedule: Schedule, action: str, peer: Peer) -> None:
    """Args, Raises: as `Schedules._owned`."""
    if not _owns(schedule, peer):
        owner = schedule.user or schedule.http_user
        refusal = f"schedule '{schedule.name}' cannot be {action}: it belongs to {owner!r}; another user"
        check_role(peer.role, Role.OPERATE, peer.caller, refusal)


def _conditional(schedule: Schedule, after: Schedule, condition: Condition | None) -> Schedule:
    """What a schedule becomes at its turn: the very same one, if a change finds what it wants.

    Raises: PreconditionFailed: it is another one than the condition says.
    """
    if condition is None:
        return after
    tag = schedule.tag
    if tag == after.tag and condition.is_there is not False:
        return schedule
    check_condition(condition, f"schedule '{schedule.name}'", tag)
    return after


def _check_job_change(schedule: Schedule, submitter: Submitter, peer: Peer) -> None:
    """Make sure that nobody has commands run as another user by way of that user's schedule.

    Raises: Denied: it is another's, and the caller is no administrator, or has not all rights that the other has.
    """
    if not _owns(schedule, peer):
        needed = Role.FULL if submitter.role is Role.FULL else Role.ADMIN
        owner = schedule.user or schedule.http_user
        refusal = f"schedule '{schedule.name}' cannot get another job: it belongs to {owner!r}; another user"
        check_role(peer.role, needed, peer.caller, refusal)


def _owns(schedule: Schedule, peer: Peer) -> bool:
    if schedule.http_user and peer.speaker is not None and peer.speaker.name == schedule.http_user:
        return True
    return Viewer(peer.uid, peer.role).owns_uid(schedule.uid)


def _sees_all(peer: Peer) -> bool:
    return Viewer(peer.uid, peer.role).sees_all


def _public(schedule: Schedule) -> Schedule:
    return attrs.evolve(schedule, job=tuple(map(public_input, schedule.job)))


# The parts that run schedules, made together.
#
# Source: DESIGN section 16.


@attrs.frozen
class ScheduleParts:
    """What schedules need of the rest of luxid. Args: nursery: runs what takes long."""

    book: ScheduleBook
    own_jobs: OwnJobs
    submitters: Submitters
    jobs: LiveJobs
    canceller: Canceller
    limits: LimitsSettings
    nursery: trio.Nursery

    def begin(self) -> Schedules:
        """Begin to submit what is due; return the methods about schedules. Raises: OSError: no descriptor is left."""
        firing = Firing(self.book, WallClock(), self._submit, self._cancel, self._is_unended)
        self.nursery.start_soon(firing.run)
        return Schedules(self.book, self.own_jobs, self.submitters, self.limits, firing.unended_jobs)

    async def _submit(self, schedule: Schedule, job: JobInput, key: str) -> JobId:
        # the user's rights are those of now
        return await self.own_jobs.submit(job, key, await self.submitters.of_schedule(schedule))

    def _cancel(self, schedule: Schedule, job_id: JobId) -> None:
        self.nursery.start_soon(self._cancel_job, schedule, job_id)

    async def _cancel_job(self, schedule: Schedule, job_id: JobId) -> None:
        caller = schedule.http_user or schedule.uid
        # a command would go on to its end; other opcodes may, as what they have begun must not be left half done
        kill = all(op.get("OP_ID") == OpRunCommand.OP_ID for op in schedule.job)
        try:
            is_done, text = await self.canceller.cancel(job_id, kill=kill, caller=caller)
        except GantryError as error:
            is_done, text = False, error.message
        _log.info("run.canceled", schedule=schedule.name, job=job_id, done=is_done, told=text)

    def _is_unended(self, job_id: JobId) -> bool:
        return self.jobs.phase(job_id) is not None
