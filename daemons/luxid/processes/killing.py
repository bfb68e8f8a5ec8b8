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
from typing import Final, assert_never

import trio

from common.ids import JobId
from common.queue.jobs import Job
from common.system.inthread import in_thread
from common.system.livelock import PROBE_AGAIN_AFTER_S, is_alive
from common.system.log import get_log
from daemons.luxid.bells import Bell
from daemons.luxid.core.queue.decisions import Phase
from daemons.luxid.core.queue.recovery import Ask, cancel_queued
from daemons.luxid.jobs.livejobs import LiveJobs
from daemons.luxid.jobs.rewriting import Rewriting, timestamp
from daemons.luxid.processes.signals import ask_to_end, kill_all, signal_group, supervisors

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
                    self._processes.record(job_id).ask = Ask.KILL
                    self._found.append(job_id)
                case None:
                    self._processes.kill_is_over(job_id)
                case Phase.HELD:
                    # it is ended already, by what dooms it
                    self._processes.record(job_id).ask = Ask.KILL
                case Phase.READY | Phase.BLOCKED | Phase.DEFERRED | Phase.STARTING | Phase.ORPHANED:
                    # its process had ended between two opcodes
                    self._processes.record(job_id).ask = Ask.KILL
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
                record.ask = record.ask or Ask.CANCEL

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
        self._jobs.bells.ring(job_id)
        self._jobs.news.job_changed(job_id)

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
            with self._processes.livelock_bells.listen(os.path.basename(livelock)) as bell:
                if self._is_external:
                    await self._end_external(job, livelock, bell)
                else:
                    await self._end(job, livelock, bell)
        finally:
            self._under_way.discard(livelock)
        self._processes.suspect(job.job_id)

    async def _end_external(self, job: Job, livelock: str, bell: Bell) -> None:
        pause_s = FIRST_ROUND_S
        while signal_group(job, signal.SIGKILL):
            _log.warning("job.killed", job=job.job_id, pid=job.process_id)
            if await _is_gone(livelock, bell, pause_s):
                return
            pause_s = min(2 * pause_s, LONGEST_ROUND_S)

    async def _end(self, job: Job, livelock: str, bell: Bell) -> None:
        if await _is_gone(livelock, bell, QUICK_S):
            return
        patience_s = await self._patience_s(job)
        if patience_s and await _is_gone(livelock, bell, patience_s - QUICK_S):
            return
        await self._kill_by_force(job, livelock, bell)

    async def _patience_s(self, job: Job) -> float:
        """Seconds that its own processes get to end what it runs; 0: it runs no command."""
        if self._jobs.work_left(job) is not None:
            # the job's process waits for the word of the node
            return self._grace_s + NODE_S + MARGIN_S
        return self._grace_s + MARGIN_S if await in_thread(supervisors, job) else 0.0

    async def _kill_by_force(self, job: Job, livelock: str, bell: Bell) -> None:
        rounds, pause_s = 0, FIRST_ROUND_S
        while is_alive(livelock):
            left = await in_thread(kill_all, job)
            rounds += 1
            pids = ",".join(str(process.pid) for process in sorted(left, key=lambda process: process.pid)[:10])
            if rounds > _TOLD_AFTER:
                _log.error("job.not_killed", job=job.job_id, pids=pids, retry_s=pause_s, effect="its locks are kept")
            else:
                _log.warning("job.killed", job=job.job_id, pids=pids)
            if await _is_gone(livelock, bell, pause_s):
                return
            pause_s = min(2 * pause_s, LONGEST_ROUND_S)


async def _is_gone(livelock: str, bell: Bell, within_s: float) -> bool:
    with trio.move_on_after(within_s):
        while is_alive(livelock):
            await bell.wait()
            # the bell rings a moment before the lock is released
            await trio.sleep(PROBE_AGAIN_AFTER_S[-1])
    return not is_alive(livelock)
