"""Start one job: a process, the handshake, the file that names it, and the go-ahead.

Source: DESIGN section 7; protocol/forkserver.py; luxid.md 5.9, 9.1.
"""

import signal
import time
from collections import Counter
from typing import Final

import attrs
import trio

from common.errors import GantryError, Unavailable
from common.ids import JobId
from common.queue.jobs import Job
from common.queue.reasons import tries_so_far
from common.queue.sidefiles import asked_by
from common.system.livelock import process_of
from common.system.log import get_log
from common.system.shortages import retry_pauses
from daemons.luxid.core.queue.entry import Phase
from daemons.luxid.core.queue.recovery import (
    START_SOURCE,
    Circumstances,
    RecoveryRequest,
    after_death,
    fail_job,
    pause_before,
)
from daemons.luxid.files.store import Store
from daemons.luxid.jobs import JobEvents, LiveJobs, Rewriting, timestamp
from daemons.luxid.processes.jobprocesses import JobProcess
from daemons.luxid.processes.launcher import Handshake, NoAnswer, ProcessLauncher, StartedProcess
from daemons.luxid.processes.signals import signal_process

# Failed starts: another attempt after a pause, or the end of the job.
#
# Source: DESIGN section 7.


# prefix of the obstacle, followed by the reason, for users who ask what holds their job
BACK_OFF: Final = "a start failed and is tried again soon"
_log: Final = get_log(__name__)


class Attempts:
    """Counts the attempts of each job.

    Args:
        limit: number of consecutive failures after which a job is ended.
    """

    def __init__(self, jobs: LiveJobs, rewriting: Rewriting, events: JobEvents, limit: int) -> None:
        self._jobs = jobs
        self._rewriting = rewriting
        self._events = events
        self._limit = limit
        self._retries = retry_pauses()
        # obstacle -> number of present pauses with it; it stays until the last of them is over
        self._pauses: Counter[str] = Counter()

    def succeeded(self) -> None:
        """Record a successful start: the next pause is short again."""
        self._retries = retry_pauses()

    def made_progress(self, job: Job) -> bool:
        """Whether the process that is now gone has ended at least one opcode, or a try of one."""
        record = self._jobs.processes.record(job.job_id)
        has_progress = record.begun_at != job.next_index or tries_so_far(job) > record.begun_tries
        record.begun_at = None
        if has_progress:
            record.failures = 0
        return has_progress

    async def failed(self, job: Job, reason: str) -> None:
        """Handle the failure of a process: try again, but not for ever."""
        record = self._jobs.processes.record(job.job_id)
        record.failures += 1
        if record.failures < self._limit or self._jobs.work_left(job) is not None:
            await self.back_off(job, reason)
            return
        attempts = f" ({record.failures} attempts)" if record.failures > 1 else ""
        text = f"job could not be started: {reason}{attempts}"
        _log.error("job.not_started", job=job.job_id, reason=reason, attempts=record.failures)
        self._jobs.queue.hold(job.job_id)
        await self._rewriting.finish(fail_job(job, text, START_SOURCE, timestamp(), time.time_ns()))

    async def back_off(self, job: Job, reason: str) -> None:
        """Put the job back into the queue, and start no job for a pause that doubles each time.

        A job with a command on a node has pauses of its own (`TakeUps`).
        """
        if self._jobs.work_left(job) is not None:
            self._jobs.processes.record(job.job_id).failures += 1
            _log.warning("job.not_taken_up", job=job.job_id, reason=reason, next="another attempt after a pause")
            self._events.requeue(job)
            return
        pause_s = next(self._retries)
        _log.warning("job.start_failed", job=job.job_id, reason=reason, retry_s=pause_s)
        obstacle = f"{BACK_OFF}: {reason}"
        self._pauses[obstacle] += 1
        self._events.obstruct(obstacle)
        self._events.requeue(job)
        await trio.sleep(pause_s)
        self._pauses[obstacle] -= 1
        if not self._pauses[obstacle]:
            del self._pauses[obstacle]
            self._events.clear(obstacle)


class Starter:
    """Starts jobs.

    Args:
        timeout_s: limit of the request for a process, and of each message of the handshake.
    """

    def __init__(
        self,
        jobs: LiveJobs,
        store: Store,
        launcher: ProcessLauncher,
        attempts: Attempts,
        events: JobEvents,
        timeout_s: float,
    ) -> None:
        self._jobs = jobs
        self._store = store
        self._launcher = launcher
        self._attempts = attempts
        self._events = events
        self._timeout_s = timeout_s

    async def start(self, job_id: JobId) -> None:
        """Take a job in phase STARTING to a process, or back to the queue, or to its end."""
        job = self._jobs.unended(job_id)
        record = self._jobs.processes.record(job_id)
        try:
            await self._start(job, record)
        except Unavailable as error:
            # the fork server is away or slow, the disk is full, descriptors are short: this is not the job's fault
            await self._attempts.back_off(job, error.message)
        except GantryError as error:
            await self._broke(job, error.message)
        except Exception as error:
            _log.exception("job.start_crashed", job=job_id)
            await self._broke(job, f"internal error: {error!r}")

    async def _broke(self, job: Job, reason: str) -> None:
        if self._jobs.phase(job.job_id) is Phase.STARTING:
            await self._attempts.failed(job, reason)
        else:
            # its livelock decides: when it is released with all opcodes queued, the job is started again
            _log.warning("job.start_broken", job=job.job_id, reason=reason)
            self._jobs.processes.suspect(job.job_id)

    async def _start(self, job: Job, record: JobProcess) -> None:
        """Raises: GantryError: the start failed; if the job is still STARTING, before it was given away."""
        if (own_livelock := self._launcher.rules.own_livelock) is not None:
            await self._write(attrs.evolve(job, livelock=own_livelock, process_id=None))
        started = await self._launch(job)
        try:
            async with started.stream:
                handshake = Handshake(started.stream, self._timeout_s)
                await self._note_process(job, started, await self._livelock(handshake))
                secrets = record.secrets or [None] * len(job.ops)
                asks = self._launcher.rules.asks_secrets
                if await handshake.give_go_ahead(secrets, asks=asks) and asks:
                    self._events.heeds_pauses(job.job_id)
        except Exception:
            await self._launcher.abandon(started)
            raise
        self._attempts.succeeded()

    async def _launch(self, job: Job) -> StartedProcess:
        with trio.move_on_after(self._timeout_s):
            return await self._launcher.start(job.job_id)
        raise Unavailable(f"no process was made within {self._timeout_s:g} s")

    async def _livelock(self, handshake: Handshake) -> str:
        """Raises: GantryError: the process is gone; Unavailable: that is not the job's fault."""
        try:
            return await handshake.livelock()
        except NoAnswer as error:
            if self._launcher.rules.may_be_slow:
                raise Unavailable(error.message) from error
            raise

    async def _note_process(self, job: Job, started: StartedProcess, livelock: str) -> None:
        """Record the process before its go-ahead, where it must be known after all that can happen.

        On this machine the livelock is the record: a luxid that starts finds it. The process names itself in the file
        before it executes anything. After a loss of power it has done nothing yet, and nothing of it is left.
        """
        is_ours = self._launcher.rules.own_livelock is None
        pid = started.pid or process_of(livelock)
        job = attrs.evolve(job, livelock=livelock, process_id=pid if is_ours else None)
        if not is_ours or self._store.files.are_copied:
            await self._write(job)
        record = self._jobs.processes.has(job.job_id, livelock)
        record.begun_at, record.child_pid = job.next_index, pid
        record.begun_tries = tries_so_far(job)
        self._events.started(job)
        _log.info("job.started", job=job.job_id, pid=pid, livelock=livelock)

    async def _write(self, job: Job) -> None:
        # never half done: once the write has begun, the process owns the job
        with trio.CancelScope(shield=True):
            await self._store.save(job)


# Give jobs whose commands run on nodes another process, when theirs has died.
#
# Theory. Such a job runs, whether it has a process or not: it keeps its slot, and neither filters nor limits hold it.
# Its next process starts at once; if processes die again and again, after pauses. As long as it has none, its file is
# luxid's and stays as it is: *running*. Only the task here takes it on, to a process or to its end, so that no two
# write the file. A kill ends the job at once; its locks are then orphaned, and kept until the node tells the end of
# its command. A cancel is passed to the next process: what runs goes on, what follows does not.
#
# Source: DESIGN sections 13 and 14.


# as many as luxid starts of other jobs
_AT_ONCE: Final = 8


class TakeUps:
    """Starts the next processes of orphaned jobs."""

    def __init__(self, jobs: LiveJobs, store: Store, starter: Starter, rewriting: Rewriting) -> None:
        self._jobs = jobs
        self._store = store
        self._starter = starter
        self._rewriting = rewriting
        self._turns = trio.CapacityLimiter(_AT_ONCE)
        # not set: nothing is taken up
        self._may_go_on = trio.Event()
        self._may_go_on.set()

    def hold(self) -> None:
        """Take up nothing until `go_on`."""
        self._may_go_on = trio.Event()

    def go_on(self) -> None:
        self._may_go_on.set()

    async def take_up(self, job_id: JobId) -> None:
        """Give an orphaned job a process; a start that comes to nothing orphans it again."""
        await self._pause(job_id)
        while not self._may_go_on.is_set():
            await self._may_go_on.wait()
        async with self._turns:
            if self._jobs.processes.ask(job_id) is RecoveryRequest.KILL:
                await self._end(job_id)
            else:
                await self._start(job_id)

    async def _pause(self, job_id: JobId) -> None:
        record = self._jobs.processes.record(job_id)
        pause_s = pause_before(record.short_lives, record.failures)
        with self._jobs.changes.listen(job_id) as broadcast, trio.move_on_after(pause_s):
            while record.ask is not RecoveryRequest.KILL:
                await broadcast.wait()

    async def _start(self, job_id: JobId) -> None:
        record = self._jobs.processes.record(job_id)
        record.started_s = trio.current_time()
        self._jobs.queue.start_anew(job_id)
        await self._starter.start(job_id)
        if self._jobs.phase(job_id) is not Phase.RUNNING:
            return
        record.failures = 0
        job = self._jobs.unended(job_id)
        _log.info("job.taken_up", job=job_id, pid=job.process_id)
        if record.ask is RecoveryRequest.CANCEL:
            signal_process(job, signal.SIGTERM)

    async def _end(self, job_id: JobId) -> None:
        job = self._jobs.unended(job_id)
        self._jobs.queue.hold(job_id)
        by = asked_by(self._store.paths.asker_note(job_id))
        ended = after_death(job, RecoveryRequest.KILL, timestamp(), time.time_ns(), by, Circumstances(takes_up=True))
        assert ended is not None
        _log.info("job.killed_as_orphan", job=job_id, effect="its locks are kept until its node tells the end")
        await self._rewriting.finish(ended)
