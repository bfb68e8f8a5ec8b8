"""Signals to job processes, and to those that supervise what they started; never to a stranger.

A number is used again once its process is gone. Who has the job's livelock open is the job's process or a supervisor
of a command of it, so that is looked at, and the signal goes through a pidfd (`common.system.processes`). Of an
external executor the number may be a wrapper's, which has nothing open: it must have been there before the livelock
was.

Source: DESIGN section 16; everyday.md a.
"""

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from typing import Final

from common.queue.jobs import Job
from common.system.livelock import is_alive
from common.system.processes import Process, descendants, find_process, holders, is_holder, send, send_all

_TICKS_S: Final = os.sysconf("SC_CLK_TCK")
# of the clocks that are compared
_ROUGHLY_S: Final = 0.05


def job_process(job: Job, *, may_be_wrapper: bool = False) -> Process | None:
    """The job's process; None: it has ended, or has never been.

    Args:
        may_be_wrapper: of an external executor.
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
    """Signal the job's process alone; False: there is none."""
    process = job_process(job, may_be_wrapper=may_be_wrapper)
    return process is not None and send(process, number)


def signal_group(job: Job, number: signal.Signals) -> bool:
    """Signal the process of an external executor and its process group; False: there is none."""
    process = job_process(job, may_be_wrapper=True)
    if process is None:
        return False
    with contextlib.suppress(OSError):
        if os.getpgid(process.pid) == process.pid:
            os.killpg(process.pid, number)
            return True
    # it did not make a group of its own
    return send(process, number)


def ask_to_end(job: Job) -> bool:
    """TERM for the job's process, which passes it on; when it is gone for the supervisors. False: all are gone."""
    assert job.livelock is not None
    process = job_process(job)
    targets = [process] if process is not None else holders(job.livelock)
    # not any(...): each of them is to get it
    return bool([target for target in targets if send(target, signal.SIGTERM)])


def supervisors(job: Job) -> frozenset[Process]:
    """The supervisors of what the job has started."""
    assert job.livelock is not None
    return frozenset(process for process in holders(job.livelock) if process.pid != job.process_id)


def kill_all(job: Job) -> frozenset[Process]:
    """KILL for what the job has started; only when nothing of that is left, for those that would reap it.

    Returns: who was signalled; to be repeated until it is nobody.
    """
    assert job.livelock is not None
    roots = holders(job.livelock)
    below = started_by(roots)
    send_all(below or roots, signal.SIGKILL)
    return below or roots


def started_by(roots: Iterable[Process]) -> frozenset[Process]:
    """What these job processes and supervisors have started, without themselves."""
    roots = frozenset(roots)
    return descendants(*(process.pid for process in roots)) - roots


def pids_of(job: Job) -> tuple[int, ...]:
    """What the job has started and still lives, in order; if there is nothing, its process and its supervisors."""
    if job.livelock is None or not is_alive(job.livelock):
        return ()
    roots = holders(job.livelock)
    return tuple(sorted(process.pid for process in started_by(roots) or roots))


def _was_before(process: Process, livelock: str) -> bool:
    """Whether the process was started before the livelock was made: then it has not got its number later."""
    if not is_alive(livelock):
        return False
    try:
        age_s = time.time() - os.stat(livelock).st_mtime
    except OSError:
        return False
    made_at = time.clock_gettime(time.CLOCK_BOOTTIME) - age_s
    return process.started_at / _TICKS_S <= made_at + _ROUGHLY_S
