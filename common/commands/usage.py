"""The usage of a command: CPU time, peak memory, input and output.

Theory. The kernel sums up the children that a process has waited for. So a supervisor, which inherits and
reaps all processes that its command leaves, knows the times and the I/O of all that have ended; of memory it knows
only the peak of the largest single process. A control group with the memory controller knows the peak of all together.

The peak of a process includes its life before it executed its program, when it was a copy of the supervisor, and
that program's own memory cannot be told apart from it. So a peak that is not above the supervisor's is only a bound.

Source: DESIGN section 16; getrusage(2); everyday.md a.
"""

import resource
from typing import Final

from common.commands.cgroups import Group

# bytes of a unit of ru_inblock and ru_oublock, independent of the disk's blocks
_BLOCK_BYTES: Final = 512
# KiB by which a copy may exceed the supervisor: the kernel adds up pages of its processors now and then
_COPY_KIB: Final = 4096
# files with the peak and the count of kills, by the version of the groups
_PEAKS: Final = ("memory.peak", "memory.max_usage_in_bytes")
_EVENTS: Final = ("memory.events", "memory.oom_control")


def usage_so_far(memory: Group | None) -> dict[str, object]:
    """The usage of the ended children of this process, and of their ended children; JSON-able.

    Args: memory: the command's group that counts memory; None: there is none.
    """
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    peak = _peak_of(memory)
    return {
        "cpu_user_s": round(used.ru_utime, 6),
        "cpu_system_s": round(used.ru_stime, 6),
        "memory_peak_bytes": used.ru_maxrss * 1024 if peak is None else peak,
        # false: the peak of the largest process
        "memory_of_all": peak is not None,
        # true: the peak is not known, only that it is no higher
        "memory_is_at_most": peak is None and used.ru_maxrss <= _own_peak_kib() + _COPY_KIB,
        "read_bytes": used.ru_inblock * _BLOCK_BYTES,
        "written_bytes": used.ru_oublock * _BLOCK_BYTES,
    }


def killed_for_memory(memory: Group | None) -> int:
    """The number of processes of the group that the kernel has killed for memory."""
    for name in _EVENTS if memory is not None else ():
        assert memory is not None
        for line in (memory.read(name) or "").splitlines():
            key, _, value = line.partition(" ")
            if key == "oom_kill" and value.isdigit():
                return int(value)
    return 0


def _own_peak_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _peak_of(memory: Group | None) -> int | None:
    for name in _PEAKS if memory is not None else ():
        assert memory is not None
        text = (memory.read(name) or "").strip()
        if text.isdigit():
            return int(text)
    return None
