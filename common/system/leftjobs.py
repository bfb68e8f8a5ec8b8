"""End job processes that nobody waits for any more, with all that they have started.

A process that has a job's livelock open is the job's process or a supervisor of its command; what is left of a job is
found through it, as when a single job is killed. These are stopped first: a job's process whose command is killed
would write into the job's file how it ended, and that file is another master's by now.

A held livelock whose holder is not found is no proof that nothing is left: a supervisor of root, say, whose launcher
is away.

Source: DESIGN section 16.
"""

import errno
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from common.system.livelock import PROBE_AGAIN_AFTER_S, is_alive
from common.system.processes import Ancestry, Process, holders_in, send_all

# ends commands of a job that this process may not signal, by the path of its livelock, and returns their processes.
# Raises: OSError: they cannot be ended now
EndLaunched = Callable[[str], frozenset[Process]]


def kill_left_jobs(livelocks: Path, end_launched: EndLaunched | None = None) -> frozenset[Process]:
    """Send KILL to the processes that jobs have started; to a job's own processes when nothing else of it is left.

    Args: end_launched: None: there is no launcher here.
    Returns: the signalled processes; repeat the call until there are none.
    Raises: OSError: the folder cannot be read, the launcher does not answer, or a process that lives is not found.
    Cost: O(open files of the machine), however many jobs live: all must be dead when a mastership runs out.
    """
    living = {path.name for path in livelocks.glob("job_*") if is_alive(str(path))}
    if not living:
        return frozenset()
    jobs = [processes for name, processes in holders_in(str(livelocks)).items() if name in living]
    for roots in jobs:
        send_all(roots, signal.SIGSTOP)
    # read when no process of a job starts another one any more
    ancestry = Ancestry.read()
    killed: frozenset[Process] = frozenset()
    for roots in jobs:
        killed |= ancestry.descendants(*(process.pid for process in roots)) - roots or roots
    send_all(killed, signal.SIGKILL)
    if end_launched is not None:
        # last: the launcher may let us wait
        for name in sorted(living):
            killed |= end_launched(str(livelocks / name))
    if not killed and (hidden := _still_held(livelocks, living)):
        raise OSError(
            errno.EBUSY,
            f"'{min(hidden)}' is held by a process that cannot be found here; if commands run as other users, start "
            "gantry-launcher.socket and gantry-launcher",
        )
    return killed


def _still_held(livelocks: Path, names: Iterable[str]) -> frozenset[str]:
    """The names that are held for longer than the kernel takes to release them."""
    held = frozenset(names)
    for pause_s in (0.0, *PROBE_AGAIN_AFTER_S):
        if held:
            time.sleep(pause_s)
            held = frozenset(name for name in held if is_alive(str(livelocks / name)))
    return held
