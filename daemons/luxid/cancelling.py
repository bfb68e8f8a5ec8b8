"""Cancelling and killing jobs, wherever they stand.

Source: luxid.md 2.4, 9.3, 9.4; DESIGN section 7.
"""

import os
import signal
from typing import Final

import attrs
import trio

from common.errors import Unavailable
from common.jobs import FINAL, Job, JobState
from common.livelock import PROBE_AGAIN_AFTER_S, is_alive
from common.locks import JobId
from common.log import get_log
from daemons.luxid.bells import Bell
from daemons.luxid.core.decisions import Phase
from daemons.luxid.core.recovery import Ask, cancel_queued
from daemons.luxid.deaths import Deaths
from daemons.luxid.rewriting import timestamp
from daemons.luxid.scheduler import Scheduler
from daemons.luxid.signals import signal_group, signal_process

# clients wait twice as long for a reply (luxid.md 1.5)
CANCEL_WAIT_S: Final = 44.0
# until a process of an external executor is ready for signals (luxid.md 2.4)
PID_WAIT_S: Final = 6.2
# a running opcode may heed the signal; longer than this nobody is kept waiting for it
RUNNING_WAIT_S: Final = 1.0
_log: Final = get_log(__name__)

Done = tuple[bool, str]


class Canceller:
    """Carries out requests to cancel or kill."""

    def __init__(self, scheduler: Scheduler, deaths: Deaths, nursery: trio.Nursery, kill_grace_s: float) -> None:
        self._scheduler = scheduler
        self._deaths = deaths
        self._nursery = nursery
        self._kill_grace_s = kill_grace_s

    async def cancel(self, job_id: JobId, *, kill: bool) -> Done:
        """Cancel a job; answers whether that is done, and a sentence.

        A job without a process is canceled durably. One with a process is asked by a signal, and
        waited for; when killed it is not waited for.
        """
        with self._scheduler.bells.listen(job_id) as bell, trio.move_on_after(CANCEL_WAIT_S):
            while (phase := self._scheduler.queue.phase(job_id)) is not None:
                if phase in (Phase.READY, Phase.BLOCKED):
                    return await self._cancel_queued(job_id)
                if phase is Phase.RUNNING and kill:
                    return self._kill(job_id)
                if phase is Phase.RUNNING:
                    return await self._cancel_running(job_id, bell)
                # it is just being started or rewritten
                await bell.wait()
            return self._answer_ended(job_id)
        return False, f"job {job_id} did not end within {CANCEL_WAIT_S:g} s; it will when its process gets to it"

    async def _cancel_queued(self, job_id: JobId) -> Done:
        try:
            await self._scheduler.rewriting.change(job_id, lambda job: cancel_queued(job, timestamp()))
        except Unavailable as error:
            return False, error.message
        return True, f"job {job_id} was canceled"

    async def _cancel_running(self, job_id: JobId, bell: Bell) -> Done:
        self._scheduler.asks.setdefault(job_id, Ask.CANCEL)
        with trio.move_on_after(PID_WAIT_S) as scope:
            await self._until_pid(job_id, bell)
        if scope.cancelled_caught:
            return False, f"job {job_id} is just being started; try again"
        if self._scheduler.queue.phase(job_id) is None:
            return self._answer_canceled(job_id)
        job = self._scheduler.job(job_id)
        if not signal_process(job, signal.SIGTERM):
            self._deaths.suspect(job_id)
        while self._scheduler.queue.phase(job_id) is not None:
            if self._scheduler.views.state(job_id) is not JobState.RUNNING:
                await bell.wait()
                continue
            with trio.move_on_after(RUNNING_WAIT_S) as scope:
                await self._until_ended(job_id, bell)
            if scope.cancelled_caught:
                return False, (
                    f"job {job_id} is running; its opcode ends by itself, what follows is canceled; "
                    f"use kill to end it now: gnt-job cancel --kill {job_id}"
                )
        return self._answer_canceled(job_id)

    async def _until_pid(self, job_id: JobId, bell: Bell) -> None:
        while self._scheduler.queue.phase(job_id) is not None and self._scheduler.job(job_id).process_id is None:
            await bell.wait()

    async def _until_ended(self, job_id: JobId, bell: Bell) -> None:
        while self._scheduler.queue.phase(job_id) is not None:
            await bell.wait()

    def _kill(self, job_id: JobId) -> Done:
        job = self._scheduler.job(job_id)
        if job.process_id is None:
            job = attrs.evolve(job, process_id=self._scheduler.child_pids.get(job_id))
        self._scheduler.asks[job_id] = Ask.KILL
        if signal_group(job, signal.SIGTERM):
            self._nursery.start_soon(self._kill_after_grace, job)
        else:
            self._deaths.suspect(job_id)
        return True, f"job {job_id} is being killed"

    async def _kill_after_grace(self, job: Job) -> None:
        """TERM was sent; KILL whatever still holds the livelock after the grace time."""
        assert job.livelock is not None
        with self._scheduler.livelock_bells.listen(os.path.basename(job.livelock)) as bell:
            with trio.move_on_after(self._kill_grace_s):
                while is_alive(job.livelock):
                    await bell.wait()
                    # the bell rings a moment before the lock is let go
                    await trio.sleep(PROBE_AGAIN_AFTER_S[-1])
        if signal_group(job, signal.SIGKILL):
            _log.warning("job.killed", job=job.job_id, pid=job.process_id, grace_s=self._kill_grace_s)

    def _answer_ended(self, job_id: JobId) -> Done:
        state = self._scheduler.views.state(job_id)
        if state is None:
            return False, f"there is no job {job_id} in the queue"
        return False, f"job {job_id} is already final ({state.value}); archive it with 'gnt-job archive {job_id}'"

    def _answer_canceled(self, job_id: JobId) -> Done:
        state = self._scheduler.views.state(job_id)
        if state is JobState.CANCELED:
            return True, f"job {job_id} was canceled"
        assert state is None or state in FINAL
        return False, f"job {job_id} ended before it could be canceled ({state.value if state else 'archived'})"
