"""Signals to job processes, and to all that they started.

A number of a process or group may be used again once all its members are gone; as long as the livelock
is held one is there, and the number is taken. So the livelock is asked before each signal.
"""

import contextlib
import os
import signal

from common.jobs import Job
from common.livelock import is_alive


def may_signal(job: Job) -> bool:
    """Whether the job has a process, or anything that it started, that lives."""
    if job.process_id is None or job.process_id <= 1 or job.livelock is None:
        return False
    return is_alive(job.livelock)


def signal_process(job: Job, number: signal.Signals) -> bool:
    """Signal the job's process alone; False: there is none."""
    if not may_signal(job):
        return False
    with contextlib.suppress(OSError):
        os.kill(_pid(job), number)
    return True


def signal_group(job: Job, number: signal.Signals) -> bool:
    """Signal the job's process and all that it started and that stayed in its group; False: there is none."""
    if not may_signal(job):
        return False
    with contextlib.suppress(OSError):
        try:
            os.killpg(_pid(job), number)
        except ProcessLookupError:
            # an executor that did not make a group of its own
            os.kill(_pid(job), number)
    return True


def _pid(job: Job) -> int:
    assert job.process_id is not None
    return job.process_id
