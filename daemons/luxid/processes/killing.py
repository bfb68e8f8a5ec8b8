"""Kill jobs: all processes of a job are gone before the job counts as ended.

Theory. The job's own processes can end all others: the job process, and the supervisors of its commands, which live
until the last descendant is gone. So they are asked, by a message and SIGTERM, and get the grace time; a unit without
a command needs none. The rest is a backstop for processes that are stopped, hang, or were killed: in rounds, KILL goes
to all descendants of the holders of the livelock, and to the holders only when no descendant is left. A process that
survives that cannot be killed (it waits for a dead disk): the job stays as it is, with its locks, and the rounds go on
with growing pauses.
If luxid ends in the middle, the job's own processes do the rest, and the next luxid goes on.

Source: DESIGN section 16; everyday.md a, j.
"""

import os
import signal
import time
from collections.abc import Callable, Iterable
from typing import Final, Protocol, assert_never

import attrs
import trio

from common.access import Caller, caller_text
from common.errors import Unavailable
from common.ids import JobId
from common.queue.jobs import FINAL, Job, JobState
from common.system.inthread import in_thread
from common.system.livelock import PROBE_AGAIN_AFTER_S, is_alive
from common.system.log import get_log
from daemons.luxid.broadcasts import Broadcast
from daemons.luxid.core.queue.entry import AT_REST, Phase
from daemons.luxid.core.queue.recovery import RecoveryRequest, cancel_for, cancel_queued
from daemons.luxid.files.store import Store
from daemons.luxid.jobs import MAKING_WAY, JobEvents, JobViews, LiveJobs, Rewriting, timestamp
from daemons.luxid.processes.signals import Pauses, ask_to_end, kill_all, signal_group, signal_process, supervisors
from daemons.luxid.processes.starting import TakeUps

# seconds for a unit without a command
QUICK_S: Final = 0.6
# seconds for supervisors to finish their last round
MARGIN_S: Final = 1.0
# seconds that a job process takes at most to give up a node that does not reply
NODE_S: Final = 20.0
FIRST_ROUND_S: Final = 0.1
LONGEST_ROUND_S: Final = 32.0
# number of rounds after which the log reports an error
_TOLD_AFTER: Final = 5
_log: Final = get_log(__name__)


class Kills:
    """Kills jobs that have a process, or whose commands left processes behind.

    Args:
        grace_s: seconds from TERM to KILL for commands.
        is_external: the processes are an external executor's, which has no grace time.
    """

    def __init__(
        self, jobs: LiveJobs, rewriting: Rewriting, nursery: trio.Nursery, grace_s: float, *, is_external: bool
    ) -> None:
        self._jobs = jobs
        self._processes = jobs.processes
        self._rewriting = rewriting
        self._nursery = nursery
        self._grace_s = grace_s
        self._is_external = is_external
        # livelocks of jobs that are being killed
        self._under_way: set[str] = set()
        # running jobs that an earlier luxid was asked to kill
        self._found: list[JobId] = []

    def recover(self) -> None:
        """Restore an earlier luxid's requests; call it before dead jobs are settled, and before any is started."""
        for job_id in self._processes.found_kills():
            match phase := self._jobs.phase(job_id):
                case Phase.RUNNING:
                    self._processes.record(job_id).ask = RecoveryRequest.KILL
                    self._found.append(job_id)
                case None:
                    self._processes.kill_is_over(job_id)
                case Phase.HELD:
                    # it is ended already, by what dooms it
                    self._processes.record(job_id).ask = RecoveryRequest.KILL
                case Phase.READY | Phase.BLOCKED | Phase.DEFERRED | Phase.STARTING | Phase.ORPHANED:
                    # its process had ended between two opcodes
                    self._processes.record(job_id).ask = RecoveryRequest.KILL
                    # at once: it must not be started before the task has its turn
                    self._jobs.queue.hold(job_id)
                    self._nursery.start_soon(self._cancel, self._jobs.unended(job_id))
                case _:
                    assert_never(phase)
        for job_id in self._processes.found_notes():
            if self._jobs.phase(job_id) is None:
                self._processes.kill_is_over(job_id)
            elif self._jobs.work_left(self._jobs.unended(job_id)) is not None:
                # nobody but its next process can carry out that it was to be canceled
                record = self._processes.record(job_id)
                record.ask = record.ask or RecoveryRequest.CANCEL

    async def _cancel(self, job: Job) -> None:
        await self._rewriting.finish(cancel_queued(job, timestamp()))

    def resume(self) -> None:
        """Continue the kills that `recover` found."""
        for job_id in self._found:
            if self._jobs.phase(job_id) is Phase.RUNNING:
                _log.info("job.kill_resumed", job=job_id)
                self._nursery.start_soon(self.kill, self._jobs.unended(job_id))

    async def kill(self, job: Job) -> None:
        """Kill a job that has a process; return when the process was told, so that the rest does not need luxid."""
        self.ask(job.job_id)
        if not self._is_external:
            await in_thread(ask_to_end, job)
        self._begin(job)

    def ask(self, job_id: JobId) -> None:
        """Record that the job is being killed; from now on it is shown as being canceled."""
        self._processes.ask_kill(job_id)
        self._jobs.changes.notify(job_id)
        self._jobs.news.tell_job(job_id)

    async def end_left(self, job: Job) -> bool:
        """End the processes that an ended job left running under its locks; return false if there are none."""
        if job.livelock is None or self._is_external or not is_alive(job.livelock):
            return False
        await in_thread(ask_to_end, job)
        self._begin(job)
        return True

    def _begin(self, job: Job) -> None:
        if job.livelock is not None and job.livelock not in self._under_way:
            self._under_way.add(job.livelock)
            self._nursery.start_soon(self._carry_out, job, job.livelock)

    async def _carry_out(self, job: Job, livelock: str) -> None:
        try:
            with self._processes.livelock_releases.listen(os.path.basename(livelock)) as broadcast:
                if self._is_external:
                    await self._end_external(job, livelock, broadcast)
                else:
                    await self._end(job, livelock, broadcast)
        finally:
            self._under_way.discard(livelock)
        self._processes.suspect(job.job_id)

    async def _end_external(self, job: Job, livelock: str, broadcast: Broadcast) -> None:
        pause_s = FIRST_ROUND_S
        while signal_group(job, signal.SIGKILL):
            _log.warning("job.killed", job=job.job_id, pid=job.process_id)
            if await _is_gone(livelock, broadcast, pause_s):
                return
            pause_s = min(2 * pause_s, LONGEST_ROUND_S)

    async def _end(self, job: Job, livelock: str, broadcast: Broadcast) -> None:
        if await _is_gone(livelock, broadcast, QUICK_S):
            return
        patience_s = await self._patience_s(job)
        if patience_s and await _is_gone(livelock, broadcast, patience_s - QUICK_S):
            return
        await self._kill_by_force(job, livelock, broadcast)

    async def _patience_s(self, job: Job) -> float:
        """Seconds that its own processes get to end what it runs; 0: it runs no command."""
        if self._jobs.work_left(job) is not None:
            # the job's process waits for the word of the node
            return self._grace_s + NODE_S + MARGIN_S
        return self._grace_s + MARGIN_S if await in_thread(supervisors, job) else 0.0

    async def _kill_by_force(self, job: Job, livelock: str, broadcast: Broadcast) -> None:
        rounds, pause_s = 0, FIRST_ROUND_S
        while is_alive(livelock):
            left = await in_thread(kill_all, job)
            rounds += 1
            pids = ",".join(str(process.pid) for process in sorted(left, key=lambda process: process.pid)[:10])
            if rounds > _TOLD_AFTER:
                _log.error("job.not_killed", job=job.job_id, pids=pids, retry_s=pause_s, effect="its locks are kept")
            else:
                _log.warning("job.killed", job=job.job_id, pids=pids)
            if await _is_gone(livelock, broadcast, pause_s):
                return
            pause_s = min(2 * pause_s, LONGEST_ROUND_S)


async def _is_gone(livelock: str, broadcast: Broadcast, within_s: float) -> bool:
    with trio.move_on_after(within_s):
        while is_alive(livelock):
            await broadcast.wait()
            # the broadcast rings a moment before the lock is released
            await trio.sleep(PROBE_AGAIN_AFTER_S[-1])
    return not is_alive(livelock)


# Cancel and kill jobs, in any phase.
#
# Source: luxid.md 2.4, 9.3, 9.4; DESIGN section 7.


# seconds; clients wait twice as long for a reply (luxid.md 1.5)
CANCEL_WAIT_S: Final = 44.0
# seconds until a process of an external executor is ready for signals (luxid.md 2.4)
PID_WAIT_S: Final = 6.2
# seconds for a running opcode to react to the signal; after that the caller gets a reply
RUNNING_WAIT_S: Final = 1.0

Done = tuple[bool, str]


class CommitAsk(Protocol):
    """Lets each next master know what was asked for. Raises: NoLongerMaster."""

    async def __call__(self, job_id: JobId, ask: str, by: str, *, is_orphan: bool) -> None: ...


class Canceller:
    """Carries out requests to cancel or kill.

    Args:
        end_on_nodes: ends what an ended job has left running on nodes; returns false if there is nothing.
        commit: None: nobody else becomes the master by itself.
    """

    def __init__(
        self,
        jobs: LiveJobs,
        store: Store,
        views: JobViews,
        rewriting: Rewriting,
        kills: Kills,
        *,
        is_external: bool,
        end_on_nodes: Callable[[JobId], bool] = lambda _: False,
        commit: CommitAsk | None = None,
    ) -> None:
        self._jobs = jobs
        self._store = store
        self._views = views
        self._rewriting = rewriting
        self._kills = kills
        self._is_external = is_external
        self._end_on_nodes = end_on_nodes
        self._commit = commit

    async def cancel(self, job_id: JobId, *, kill: bool, caller: Caller) -> Done:
        """Cancel a job; return whether that is done, and a sentence.

        A job without a process is canceled durably. A job with a process gets a signal, and is
        waited for, unless it is killed. For an ended job, a kill ends the processes left running under its locks.

        Args: caller: who asks.
        """
        with self._jobs.changes.listen(job_id) as broadcast, trio.move_on_after(CANCEL_WAIT_S):
            while (phase := self._jobs.phase(job_id)) is not None:
                if phase in AT_REST:
                    return await self._cancel_queued(job_id, caller)
                if phase in (Phase.RUNNING, Phase.ORPHANED):
                    self._jobs.processes.note_asker(job_id, caller, kill=kill)
                if phase is Phase.ORPHANED:
                    done = self._ask_orphan(job_id, kill=kill)
                    await self._commit_ask(job_id, caller, kill=kill, is_orphan=True)
                    return done
                if phase is Phase.RUNNING and kill:
                    done = await self._kill(job_id)
                    await self._commit_ask(job_id, caller, kill=True)
                    return done
                if phase is Phase.RUNNING:
                    return await self._cancel_running(job_id, broadcast, caller)
                # the job is just being started or rewritten
                await broadcast.wait()
            if kill and await self._end_left(job_id):
                return True, f"job {job_id} has ended; what it left running is being ended"
            return self._answer_ended(job_id)
        return False, f"job {job_id} did not end within {CANCEL_WAIT_S:g} s; it will when its process gets to it"

    async def _cancel_queued(self, job_id: JobId, caller: Caller) -> Done:
        now, now_ns = timestamp(), time.time_ns()
        try:
            await self._rewriting.change(job_id, lambda job: cancel_for(job, caller, now, now_ns))
        except Unavailable as error:
            return False, error.message
        return True, f"job {job_id} was canceled"

    async def _commit_ask(self, job_id: JobId, caller: Caller, *, kill: bool, is_orphan: bool = False) -> None:
        """What was done about it here does no harm if this fails; the caller is told only afterwards."""
        if self._commit is not None:
            ask = RecoveryRequest.KILL if kill else RecoveryRequest.CANCEL
            await self._commit(job_id, ask.value, caller_text(caller), is_orphan=is_orphan)

    async def _cancel_running(self, job_id: JobId, broadcast: Broadcast, caller: Caller) -> Done:
        record = self._jobs.processes.record(job_id)
        record.ask = record.ask or RecoveryRequest.CANCEL
        with trio.move_on_after(PID_WAIT_S) as scope:
            await self._until_pid(job_id, broadcast)
        if scope.cancelled_caught:
            return False, f"job {job_id} is just being started; try again"
        if self._jobs.phase(job_id) is None:
            return self._answer_canceled(job_id)
        job = self._jobs.unended(job_id)
        if not signal_process(job, signal.SIGTERM, may_be_wrapper=self._is_external):
            self._jobs.processes.suspect(job_id)
        await self._commit_ask(job_id, caller, kill=False)
        while self._jobs.phase(job_id) is not None:
            if self._views.state(job_id) is not JobState.RUNNING:
                await broadcast.wait()
                continue
            with trio.move_on_after(RUNNING_WAIT_S) as scope:
                await self._until_ended(job_id, broadcast)
            if scope.cancelled_caught:
                return _goes_on(job_id)
        return self._answer_canceled(job_id)

    def _ask_orphan(self, job_id: JobId, *, kill: bool) -> Done:
        """Leave the request to the task that takes the job up."""
        if kill:
            self._kills.ask(job_id)
            return True, f"job {job_id} is being killed"
        record = self._jobs.processes.record(job_id)
        record.ask = record.ask or RecoveryRequest.CANCEL
        return _goes_on(job_id)

    async def _until_pid(self, job_id: JobId, broadcast: Broadcast) -> None:
        while self._jobs.phase(job_id) is not None and self._jobs.unended(job_id).process_id is None:
            await broadcast.wait()

    async def _until_ended(self, job_id: JobId, broadcast: Broadcast) -> None:
        while self._jobs.phase(job_id) is not None:
            await broadcast.wait()

    async def _kill(self, job_id: JobId) -> Done:
        job = self._jobs.unended(job_id)
        if job.process_id is None:
            job = attrs.evolve(job, process_id=self._jobs.processes.record(job_id).child_pid)
        await self._kills.kill(job)
        return True, f"job {job_id} is being killed"

    async def _end_left(self, job_id: JobId) -> bool:
        """End the processes that an ended job left running under its locks; return false if there are none."""
        job = self._jobs.table.get(job_id) or self._store.find_archived(job_id)
        return self._end_on_nodes(job_id) or (job is not None and await self._kills.end_left(job))

    def _answer_ended(self, job_id: JobId) -> Done:
        state = self._views.state(job_id)
        if state is None:
            return False, f"Job {job_id} not found in queue"
        return False, f"job {job_id} is already final ({state.value}); archive it with 'gnt-job archive {job_id}'"

    def _answer_canceled(self, job_id: JobId) -> Done:
        state = self._views.state(job_id)
        if state is JobState.CANCELED:
            return True, f"job {job_id} was canceled"
        assert state is None or state in FINAL
        return False, f"job {job_id} ended before it could be canceled ({state.value if state else 'archived'})"


def _goes_on(job_id: JobId) -> Done:
    return False, (
        f"job {job_id} is running; its opcode ends by itself, what follows is canceled; "
        f"use kill to end it now: gnt-job cancel --kill {job_id}"
    )


# Make way for another master: nothing new begins, and what runs here ends, but for what goes on elsewhere.
#
# Theory. While this lasts no job is started or taken up, and no submission is accepted. A job process ends before its
# next opcode, or when it waits for locks; the job goes on with the next master. A job whose command runs on a node
# loses its process: the command goes on, and the next master takes it up. Other opcodes are waited for, or killed.
#
# Source: DESIGN section 14; lease.md 7, "switchover".


# a process has the job, or had it, or luxid is about to write how it ended
_BUSY: Final = (Phase.STARTING, Phase.RUNNING, Phase.HELD)


class MakingWay:
    """Begins with the first call of `begin`, and ends with the last of `end`."""

    def __init__(self, jobs: LiveJobs, events: JobEvents, take_ups: TakeUps, pauses: Pauses, kills: Kills) -> None:
        self._jobs = jobs
        self._events = events
        self._take_ups = take_ups
        self._pauses = pauses
        self._kills = kills
        self._holders = 0

    def begin(self) -> None:
        """Take and start nothing more, until `end`."""
        self._holders += 1
        if self._holders == 1:
            self._events.obstruct(MAKING_WAY)
            self._take_ups.hold()
            self._pauses.all_pause = True
            self._tell(self._jobs.queue.running())

    def end(self) -> None:
        """Take and start jobs again, unless others want way."""
        self._holders -= 1
        if not self._holders:
            self._pauses.all_pause = False
            self._tell(self._jobs.queue.running())
            self._take_ups.go_on()
            self._events.clear(MAKING_WAY)

    async def until_nothing_runs(self, *, kill: bool) -> None:
        """Return when no job has a process here, and its file says how far it is. Args: kill: opcodes that run here."""
        busy = self._jobs.queue.busy()
        _log.info("master.makes_way", jobs=len(busy), kill=kill)
        async with trio.open_nursery() as nursery:
            for job_id in busy:
                nursery.start_soon(self._until_idle, job_id, kill)

    async def _until_idle(self, job_id: JobId, kill: bool) -> None:  # from `start_soon`
        has_killed = False
        with self._jobs.changes.listen(job_id) as broadcast:
            while (phase := self._jobs.phase(job_id)) in _BUSY:
                if phase is Phase.RUNNING and self._jobs.processes.ask(job_id) is not RecoveryRequest.KILL:
                    job = self._jobs.unended(job_id)
                    if self._jobs.work_left(job) is not None:
                        # its command goes on
                        signal_process(job, signal.SIGKILL)
                    elif kill and not has_killed:
                        has_killed = True
                        await self._kills.kill(job)
                        continue
                await broadcast.wait()

    def _tell(self, job_ids: Iterable[JobId]) -> None:
        # one that the disk refuses runs on to its end, or stops once for nothing
        self._pauses.tell(job_ids)
