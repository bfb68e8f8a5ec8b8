"""Signals to job processes and to the supervisors of their commands, never to a stranger.

The kernel reuses a pid once its process is gone. A process that has the job's livelock open is the job's process or a
supervisor of its command; so that is checked, and the signal goes through a pidfd (`common.system.processes`). With an
external executor the pid may be a wrapper's, which does not have the livelock open: it must be older than the
livelock. Supervisors that the launcher has started belong to root: it knows them, and signals them.

Source: DESIGN section 16; everyday.md a.
"""

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import trio

from common.ids import JobId
from common.paths import Paths, launcher_socket
from common.queue.jobs import Job
from common.system.livelock import is_alive
from common.system.log import get_log
from common.system.processes import Process, descendants, find_process, holders, is_holder, send, send_all
from common.system.shortages import retry_pauses
from daemons.luxid.jobs import LiveJobs
from protocol.launched import End, Running, running_commands, supervisors_of

_TICKS_S: Final = os.sysconf("SC_CLK_TCK")
# seconds of inaccuracy between the compared clocks
_ROUGHLY_S: Final = 0.05


def job_process(job: Job, *, may_be_wrapper: bool = False) -> Process | None:
    """Return the job's process; None: it has ended, or has never existed.

    Args:
        may_be_wrapper: the process is an external executor's.
    """
    if job.process_id is None or job.process_id <= 1 or job.livelock is None:
        return None
    process = find_process(job.process_id)
    if process is None:
        return None
    is_ours = is_holder(process.pid, job.livelock)
    if is_ours or ((is_ours is None or may_be_wrapper) and _was_before(process, job.livelock)):
        return process
    return None


def signal_process(job: Job, number: signal.Signals, *, may_be_wrapper: bool = False) -> bool:
    """Signal only the job's process; return False if there is none."""
    process = job_process(job, may_be_wrapper=may_be_wrapper)
    return process is not None and send(process, number)


def signal_group(job: Job, number: signal.Signals) -> bool:
    """Signal the process of an external executor and its process group; return False if there is none."""
    process = job_process(job, may_be_wrapper=True)
    if process is None:
        return False
    with contextlib.suppress(OSError):
        if os.getpgid(process.pid) == process.pid:
            os.killpg(process.pid, number)
            return True
    # it has not made a process group of its own
    return send(process, number)


def ask_to_end(job: Job) -> bool:
    """Send TERM to the job's process, which passes it on, or without it to the supervisors. False: all are gone."""
    assert job.livelock is not None
    process = job_process(job)
    targets = [process] if process is not None else holders(job.livelock)
    # not any(...): each of them must get the signal
    told = [target for target in targets if send(target, signal.SIGTERM)]
    return bool(told or (process is None and _launched(job, End.ASK)))


def supervisors(job: Job) -> frozenset[Process]:
    """The supervisors of the job's commands."""
    assert job.livelock is not None
    own = frozenset(process for process in holders(job.livelock) if process.pid != job.process_id)
    return own | supervisors_of(_launched(job))


def kill_all(job: Job) -> frozenset[Process]:
    """Send KILL to the processes that the job has started; if none is left, to the processes that would reap them.

    Returns: the signalled processes; repeat the call until there are none.
    """
    assert job.livelock is not None
    launched = _launched(job, End.KILL)
    by_launcher = frozenset(process for each in launched for pid in each.pids if (process := find_process(pid)))
    # the launcher's supervisors belong to root, and end by themselves when their commands have ended
    roots = holders(job.livelock) - supervisors_of(launched)
    below = started_by(roots)
    own = below or (frozenset() if by_launcher else roots)
    send_all(own, signal.SIGKILL)
    return own | by_launcher or supervisors_of(launched)


def started_by(roots: Iterable[Process]) -> frozenset[Process]:
    """The processes started by these job processes and supervisors, without these themselves."""
    roots = frozenset(roots)
    return descendants(*(process.pid for process in roots)) - roots


def pids_of(job: Job) -> tuple[int, ...]:
    """The living processes that the job has started, in order; without any, its process and its supervisors."""
    if job.livelock is None or not is_alive(job.livelock):
        return ()
    launched = _launched(job)
    roots = holders(job.livelock) | supervisors_of(launched)
    found = {process.pid for process in started_by(roots)}.union(*(each.pids for each in launched))
    return tuple(sorted(found or {process.pid for process in roots}))


def _launched(job: Job, how: End = End.NO) -> Sequence[Running]:
    """The job's commands that the launcher has started."""
    assert job.livelock is not None
    return running_commands(launcher_socket(Path(job.livelock).parent.parent), job.livelock, how)


def _was_before(process: Process, livelock: str) -> bool:
    """Whether the process is older than the livelock: then its pid has not been reused since."""
    if not is_alive(livelock):
        return False
    try:
        age_s = time.time() - os.stat(livelock).st_mtime
    except OSError:
        return False
    made_at = time.clock_gettime(time.CLOCK_BOOTTIME) - age_s
    return process.started_at / _TICKS_S <= made_at + _ROUGHLY_S


# Ask running jobs to stop before their next opcode.
#
# The request is a file among the messages for job processes. A process looks for it between two opcodes, and while an
# opcode waits for its locks, for which the signal wakes it that also announces a new priority. It then releases its
# locks and ends, as before an opcode that waits for other jobs, and the job is continued when no rule pauses it any
# more. An external executor is woken only if it reported its support in the handshake (`protocol.forkserver`): for
# others the signal means a new priority, which they would not find. If the disk refuses a request, it is tried again: a
# disk error is not a verdict on the job.
#
# Source: filters design; DESIGN section 11, "PAUSE".


_log = get_log(__name__)


class Pauses:
    """The requests to pause; those of an earlier luxid are withdrawn.

    Args:
        all_heed: whether every process supports requests; else only those that reported it to this luxid.
    """

    def __init__(self, paths: Paths, jobs: LiveJobs, *, all_heed: bool) -> None:
        self._paths = paths
        self._jobs = jobs
        self._all_heed = all_heed
        # whether all jobs are asked, whatever the rules say
        self.all_pause = False
        # jobs whose requests the disk refused, and that are being retried
        self._retried: set[JobId] = set()
        for left in paths.messages.glob("*.pause"):
            left.unlink(missing_ok=True)

    def tell(self, job_ids: Iterable[JobId]) -> list[JobId]:
        """Ask these jobs to pause, or withdraw that, by the present rules; return those that the disk refused."""
        return [job_id for job_id in job_ids if not self._tell(job_id)]

    async def until_told(self, job_id: JobId) -> None:
        """Repeat the request until the disk takes it, with pauses that double."""
        if job_id in self._retried:
            return
        self._retried.add(job_id)
        try:
            for pause_s in retry_pauses():
                await trio.sleep(pause_s)
                if self._tell(job_id):
                    return
        finally:
            self._retried.discard(job_id)

    def _tell(self, job_id: JobId) -> bool:
        should_pause = self.all_pause or self._jobs.queue.should_pause(job_id)
        return self._ask(job_id) if should_pause else self._withdraw(job_id)

    def _ask(self, job_id: JobId) -> bool:
        """Ask the job to stop before its next opcode and to drop its waiting request; false: the disk refused."""
        try:
            self._paths.pause_message(job_id).touch()
        except OSError as error:
            _log.error("job.pause_not_asked", job=job_id, reason=error, effect="it runs on until this succeeds")
            return False
        is_woken = self._is_heeded(job_id) and signal_process(self._jobs.unended(job_id), signal.SIGUSR1)
        _log.info("job.pause_asked", job=job_id, woken=is_woken)
        return True

    def _is_heeded(self, job_id: JobId) -> bool:
        """Whether the process is known to support requests, and may be woken."""
        return self._all_heed or self._jobs.processes.heeds_pauses(job_id)

    def _withdraw(self, job_id: JobId) -> bool:
        """Withdraw the request, if there is one; return false if the disk refused."""
        try:
            self._paths.pause_message(job_id).unlink(missing_ok=True)
        except OSError as error:
            _log.error("job.pause_not_withdrawn", job=job_id, reason=error, effect="it may stop once for nothing")
            return False
        return True
