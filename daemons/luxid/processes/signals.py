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

from common.places.runpaths import launcher_socket
from common.queue.jobs import Job
from common.system.livelock import is_alive
from common.system.processes import Process, descendants, find_process, holders, is_holder, send, send_all
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
