"""Starting one job: a process, the handshake, the file that names it, and the go-ahead.

Source: DESIGN section 7; protocol/forkserver.py; luxid.md 5.9, 9.1.
"""

import os
import time
from collections.abc import Callable
from typing import Final

import attrs
import trio

from common.errors import GantryError, RemoteError, Unavailable
from common.ids import JobId
from common.queue.jobs import Job
from common.system.log import get_log
from daemons.luxid.core.queue.decisions import Phase
from daemons.luxid.core.queue.recovery import START_SOURCE, fail_job
from daemons.luxid.files.rewriting import timestamp
from daemons.luxid.processes.handshake import Handshake, NoAnswer
from daemons.luxid.processes.launcher import Launcher, Started
from daemons.luxid.scheduler import Scheduler
from protocol.forkserver import JobExited

FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 5.0
# and then why, for those who ask what holds their job
BACK_OFF: Final = "a start failed and is tried again soon"
_log: Final = get_log(__name__)


def _ignore(_: JobId) -> None:
    pass


class Starter:
    """Starts jobs, and counts their attempts.

    Args:
        timeout_s: of the request for a process, and of each message of the handshake.
    """

    def __init__(self, scheduler: Scheduler, launcher: Launcher, timeout_s: float) -> None:
        self._scheduler = scheduler
        self._launcher = launcher
        self._timeout_s = timeout_s
        # job -> starts in a row that came to nothing
        self._failures: dict[JobId, int] = {}
        # job -> the opcode that its present process was to begin with
        self._begun_at: dict[JobId, int | None] = {}
        self._pause_s = FIRST_PAUSE_S
        scheduler.on_ended = self._forget_job
        # by the names of their livelocks' files, the jobs that have a process
        self.livelocks: dict[str, JobId] = {}
        # jobs that are being started -> whether a process of theirs was reaped meanwhile
        self._exits: dict[JobId, trio.Event] = {}
        # told of a job whose process, known to all by now, broke off the handshake
        self.on_broken: Callable[[JobId], None] = _ignore

    async def start(self, job_id: JobId) -> None:
        """Bring a job that is `starting` to a process, or back to the queue, or to its end."""
        job = self._scheduler.job(job_id)
        self._exits[job_id] = trio.Event()
        try:
            await self._start(job)
        except Unavailable as error:
            # the fork server is away or slow, the disk is full, descriptors are short: not the job's fault
            await self._back_off(job, error.message)
        except RemoteError as error:
            if error.code == "conflict":
                await self._wait_for_exit(job, error.message)
            else:
                await self._back_off(job, f"the fork server refuses: {error.message}")
        except GantryError as error:
            await self._broke(job, error.message)
        except Exception as error:
            _log.exception("job.start_crashed", job=job_id)
            await self._broke(job, f"internal error: {error!r}")
        finally:
            self._exits.pop(job_id, None)

    def exited(self, notice: JobExited) -> None:
        """The fork server reaped a process of a job."""
        if (exited := self._exits.get(notice.job_id)) is not None:
            exited.set()

    def expect(self, job: Job) -> None:
        """Know a process of this job by its livelock."""
        if job.livelock is not None:
            self.livelocks[os.path.basename(job.livelock)] = job.job_id

    def forget(self, job: Job) -> None:
        """The process is gone."""
        if job.livelock is not None:
            self.livelocks.pop(os.path.basename(job.livelock), None)

    def _forget_job(self, job: Job) -> None:
        self.forget(job)
        self._failures.pop(job.job_id, None)
        self._begun_at.pop(job.job_id, None)

    def made_progress(self, job: Job) -> bool:
        """Whether the process that is now gone has ended at least one opcode."""
        has_progress = self._begun_at.pop(job.job_id, None) != job.next_index
        if has_progress:
            self._failures.pop(job.job_id, None)
        return has_progress

    async def failed(self, job: Job, reason: str) -> None:
        """A process came to nothing: try again, but not for ever."""
        failures = self._failures[job.job_id] = self._failures.get(job.job_id, 0) + 1
        if failures < self._launcher.rules.attempts:
            await self._back_off(job, reason)
            return
        attempts = f" ({failures} attempts)" if failures > 1 else ""
        text = f"job could not be started: {reason}{attempts}"
        _log.error("job.not_started", job=job.job_id, reason=reason, attempts=failures)
        self._scheduler.queue.hold(job.job_id)
        await self._scheduler.rewriting.finish(fail_job(job, text, START_SOURCE, timestamp(), time.time_ns()))

    async def _broke(self, job: Job, reason: str) -> None:
        if self._scheduler.queue.phase(job.job_id) is Phase.STARTING:
            await self.failed(job, reason)
        else:
            # its livelock tells the rest: let go, with all opcodes queued, the job is started again
            _log.warning("job.start_broken", job=job.job_id, reason=reason)
            self.on_broken(job.job_id)

    async def _start(self, job: Job) -> None:
        """Raises: GantryError: the start failed; before the job was given away if it is still `starting`."""
        if (own_livelock := self._launcher.rules.own_livelock) is not None:
            await self._write(attrs.evolve(job, livelock=own_livelock, process_id=None))
        started = await self._launch(job)
        try:
            async with started.stream:
                handshake = Handshake(started.stream, self._timeout_s)
                await self._write_process(job, started, await self._livelock(handshake))
                secrets = self._scheduler.secrets.get(job.job_id)
                asks = self._launcher.rules.asks_secrets
                if await handshake.give_go_ahead(secrets or [None] * len(job.ops), asks=asks) and asks:
                    self._scheduler.heeds_pauses(job.job_id)
        except Exception:
            await self._launcher.abandon(started)
            raise
        self._pause_s = FIRST_PAUSE_S

    async def _launch(self, job: Job) -> Started:
        with trio.move_on_after(self._timeout_s):
            return await self._launcher.start(job.job_id)
        raise Unavailable(f"no process was made within {self._timeout_s:g} s")

    async def _livelock(self, handshake: Handshake) -> str:
        """Raises: GantryError: the process is not there; Unavailable: that is not the job's fault."""
        try:
            return await handshake.livelock()
        except NoAnswer as error:
            if self._launcher.rules.may_be_slow:
                raise Unavailable(error.message) from error
            raise

    async def _write_process(self, job: Job, started: Started, livelock: str) -> None:
        is_ours = self._launcher.rules.own_livelock is None
        job = attrs.evolve(job, livelock=livelock, process_id=started.pid if is_ours else None)
        await self._write(job)
        self.expect(job)
        self._begun_at[job.job_id] = job.next_index
        self._scheduler.child_pids[job.job_id] = started.pid
        self._scheduler.started(job)
        _log.info("job.started", job=job.job_id, pid=started.pid, livelock=livelock)

    async def _write(self, job: Job) -> None:
        # never left half done: once the write is on its way the process is the job's
        with trio.CancelScope(shield=True):
            await self._scheduler.store.save(job)

    async def _wait_for_exit(self, job: Job, reason: str) -> None:
        """An earlier process of this job has let its livelock go and is about to end: only then comes the next."""
        _log.debug("job.start_early", job=job.job_id, reason=reason)
        with trio.move_on_after(LONGEST_PAUSE_S) as scope:
            await self._exits[job.job_id].wait()
        if scope.cancelled_caught:
            _log.warning("job.start_waits", job=job.job_id, reason=reason, next="ask for a process again")
        self._scheduler.requeue(job)

    async def _back_off(self, job: Job, reason: str) -> None:
        pause_s, self._pause_s = self._pause_s, min(2 * self._pause_s, LONGEST_PAUSE_S)
        _log.warning("job.start_failed", job=job.job_id, reason=reason, retry_s=pause_s)
        obstacle = f"{BACK_OFF}: {reason}"
        self._scheduler.obstruct(obstacle)
        self._scheduler.requeue(job)
        await trio.sleep(pause_s)
        self._scheduler.clear(obstacle)
