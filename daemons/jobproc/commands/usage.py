"""What a command used: CPU time, peak memory, input and output.

Theory. The kernel sums up the children that a process has waited for, so a supervisor, which inherits and
reaps all that its command leaves, knows the times and the I/O of everything that has ended; of memory it knows
the peak of the largest single process. A control group with the memory controller knows the peak of all together.

Source: DESIGN section 16; getrusage(2); everyday.md a.
"""

import resource
from typing import Final

from daemons.jobproc.commands.cgroups import Group

# of ru_inblock and ru_oublock, whatever the disk's are
_BLOCK_BYTES: Final = 512
# peak and count of kills, by the version of the groups
_PEAKS: Final = ("memory.peak", "memory.max_usage_in_bytes")
_EVENTS: Final = ("memory.events", "memory.oom_control")


def usage_so_far(memory: Group | None) -> dict[str, object]:
    """What the children of this process that have ended, and theirs, have used; JSON-able.

    Args: memory: the command's group in which memory is counted; None: there is none.
    """
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    peak = _peak_of(memory)
    return {
        "cpu_user_s": round(used.ru_utime, 6),
        "cpu_system_s": round(used.ru_stime, 6),
        "memory_peak_bytes": used.ru_maxrss * 1024 if peak is None else peak,
        # false: of the largest process
        "memory_of_all": peak is not None,
        "read_bytes": used.ru_inblock * _BLOCK_BYTES,
        "written_bytes": used.ru_oublock * _BLOCK_BYTES,
    }


def killed_for_memory(memory: Group | None) -> int:
    """How many processes of the group the kernel has killed because its memory was used up."""
    for name in _EVENTS if memory is not None else ():
        assert memory is not None
        for line in (memory.read(name) or "").splitlines():
            key, _, value = line.partition(" ")
            if key == "oom_kill" and value.isdigit():
                return int(value)
    return 0


def _peak_of(memory: Group | None) -> int | None:
    for name in _PEAKS if memory is not None else ():
        assert memory is not None
        text = (memory.read(name) or "").strip()
        if text.isdigit():
            return int(text)
    return None
