"""Start one job: a process, the handshake, the file that names it, and the go-ahead.

Source: DESIGN section 7; protocol/forkserver.py; luxid.md 5.9, 9.1.
"""

from typing import Final

import attrs
import trio

from common.errors import GantryError, RemoteError, Unavailable
from common.ids import JobId
from common.queue.jobs import Job
from common.queue.tries import tries_so_far
from common.system.log import get_log
from common.system.retrypauses import LONGEST_PAUSE_S
from daemons.luxid.core.queue.decisions import Phase
from daemons.luxid.files.store import Store
from daemons.luxid.jobs.jobevents import JobEvents
from daemons.luxid.jobs.livejobs import LiveJobs
from daemons.luxid.processes.attempts import Attempts
from daemons.luxid.processes.handshake import Handshake, NoAnswer
from daemons.luxid.processes.jobprocesses import JobProcess
from daemons.luxid.processes.launcher import Launcher, Started

_log: Final = get_log(__name__)


class Starter:
    """Starts jobs.

    Args:
        timeout_s: limit of the request for a process, and of each message of the handshake.
    """

    def __init__(
        self,
        jobs: LiveJobs,
        store: Store,
        launcher: Launcher,
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
        record.reaped = trio.Event()
        try:
            await self._start(job, record)
        except Unavailable as error:
            # the fork server is away or slow, the disk is full, descriptors are short: this is not the job's fault
            await self._attempts.back_off(job, error.message)
        except RemoteError as error:
            if error.code == "conflict":
                await self._wait_for_exit(job, record.reaped, error.message)
            else:
                await self._attempts.back_off(job, f"the fork server refuses: {error.message}")
        except GantryError as error:
            await self._broke(job, error.message)
        except Exception as error:
            _log.exception("job.start_crashed", job=job_id)
            await self._broke(job, f"internal error: {error!r}")
        finally:
            record.reaped = None

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
                await self._write_process(job, started, await self._livelock(handshake))
                secrets = record.secrets or [None] * len(job.ops)
                asks = self._launcher.rules.asks_secrets
                if await handshake.give_go_ahead(secrets, asks=asks) and asks:
                    self._events.heeds_pauses(job.job_id)
        except Exception:
            await self._launcher.abandon(started)
            raise
        self._attempts.succeeded()

    async def _launch(self, job: Job) -> Started:
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

    async def _write_process(self, job: Job, started: Started, livelock: str) -> None:
        is_ours = self._launcher.rules.own_livelock is None
        job = attrs.evolve(job, livelock=livelock, process_id=started.pid if is_ours else None)
        await self._write(job)
        record = self._jobs.processes.has(job.job_id, livelock)
        record.begun_at, record.child_pid = job.next_index, started.pid
        record.begun_tries = tries_so_far(job)
        self._events.started(job)
        _log.info("job.started", job=job.job_id, pid=started.pid, livelock=livelock)

    async def _write(self, job: Job) -> None:
        # never half done: once the write has begun, the process owns the job
        with trio.CancelScope(shield=True):
            await self._store.save(job)

    async def _wait_for_exit(self, job: Job, reaped: trio.Event, reason: str) -> None:
        """Wait for an earlier process of this job, which has released its livelock and is about to end."""
        _log.debug("job.start_early", job=job.job_id, reason=reason)
        with trio.move_on_after(LONGEST_PAUSE_S) as scope:
            await reaped.wait()
        if scope.cancelled_caught:
            _log.warning("job.start_waits", job=job.job_id, reason=reason, next="ask for a process again")
        self._events.requeue(job)
