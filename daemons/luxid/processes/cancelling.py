"""Cancel and kill jobs, in any phase.

Source: luxid.md 2.4, 9.3, 9.4; DESIGN section 7.
"""

import signal
import time
from collections.abc import Callable
from typing import Final, Protocol

import attrs
import trio

from common.access import Caller, caller_text
from common.errors import Unavailable
from common.ids import JobId
from common.queue.jobs import FINAL, JobState
from daemons.luxid.bells import Bell
from daemons.luxid.core.queue.decisions import AT_REST, Phase
from daemons.luxid.core.queue.recovery import Ask, cancel_for
from daemons.luxid.files.store import Store
from daemons.luxid.jobs.jobviews import JobViews
from daemons.luxid.jobs.livejobs import LiveJobs
from daemons.luxid.jobs.rewriting import Rewriting, timestamp
from daemons.luxid.processes.killing import Kills
from daemons.luxid.processes.signals import signal_process

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
        with self._jobs.bells.listen(job_id) as bell, trio.move_on_after(CANCEL_WAIT_S):
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
                    return await self._cancel_running(job_id, bell, caller)
                # the job is just being started or rewritten
                await bell.wait()
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
            ask = Ask.KILL if kill else Ask.CANCEL
            await self._commit(job_id, ask.value, caller_text(caller), is_orphan=is_orphan)

    async def _cancel_running(self, job_id: JobId, bell: Bell, caller: Caller) -> Done:
        record = self._jobs.processes.record(job_id)
        record.ask = record.ask or Ask.CANCEL
        with trio.move_on_after(PID_WAIT_S) as scope:
            await self._until_pid(job_id, bell)
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
                await bell.wait()
                continue
            with trio.move_on_after(RUNNING_WAIT_S) as scope:
                await self._until_ended(job_id, bell)
            if scope.cancelled_caught:
                return _goes_on(job_id)
        return self._answer_canceled(job_id)

    def _ask_orphan(self, job_id: JobId, *, kill: bool) -> Done:
        """Leave the request to the task that takes the job up."""
        if kill:
            self._kills.ask(job_id)
            return True, f"job {job_id} is being killed"
        record = self._jobs.processes.record(job_id)
        record.ask = record.ask or Ask.CANCEL
        return _goes_on(job_id)

    async def _until_pid(self, job_id: JobId, bell: Bell) -> None:
        while self._jobs.phase(job_id) is not None and self._jobs.unended(job_id).process_id is None:
            await bell.wait()

    async def _until_ended(self, job_id: JobId, bell: Bell) -> None:
        while self._jobs.phase(job_id) is not None:
            await bell.wait()

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
