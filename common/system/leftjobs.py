"""End job processes that nobody waits for any more, with all that they have started.

A process that has a job's livelock open is the job's process or a supervisor of its command; what is left of a job is
found through it, as when a single job is killed. These are stopped first: a job's process whose command is killed
would write into the job's file how it ended, and that file is another master's by now.

Source: DESIGN section 16.
"""

import signal
from pathlib import Path

from common.system.livelock import is_alive
from common.system.processes import Process, descendants, holders, send_all


def kill_left_jobs(livelocks: Path) -> frozenset[Process]:
    """Send KILL to the processes that jobs have started; to a job's own processes when nothing else of it is left.

    Returns: the signalled processes; repeat the call until there are none.
    Raises: OSError: the folder cannot be read.
    Cost: O(open files of the machine) for each job that lives.
    """
    killed: frozenset[Process] = frozenset()
    for livelock in livelocks.glob("job_*"):
        if is_alive(str(livelock)):
            roots = holders(str(livelock))
            send_all(roots, signal.SIGSTOP)
            below = descendants(*(process.pid for process in roots)) - roots
            send_all(below or roots, signal.SIGKILL)
            killed |= below or roots
    return killed
