"""The bare limit: what the kernel and the disk alone allow, measured in the same run.

With any engine a job costs a process and some durable writes; the figures of the engine are
quoted as a ratio to these loops.
"""

import os
import time
from pathlib import Path

from common.durable.atomicfile import write_file

# what one job of one opcode makes durable: submitted, started, running, ended, and two lock updates
# that are shared with others when there are others
WRITES_PER_JOB = 4
CONTENT = b"x" * 700


def bare_jobs(folder: Path, count: int, *, at_once: int = 2) -> float:
    """Jobs per second of a loop: fork, the same number of durable writes, exit; `at_once` children at a time."""
    began = time.perf_counter()
    running = 0
    for number in range(count):
        if running == at_once:
            os.wait()
            running -= 1
        if os.fork() == 0:
            for _ in range(WRITES_PER_JOB):
                write_file(folder / f"bare-{number}", CONTENT)
            os._exit(0)
        running += 1
    for _ in range(running):
        os.wait()
    return count / (time.perf_counter() - began)


def bare_writes(folder: Path, count: int) -> float:
    """Durable replacements of one small file per second, one after the other."""
    began = time.perf_counter()
    for _ in range(count):
        write_file(folder / "bare-locks", CONTENT)
    return count / (time.perf_counter() - began)
