"""What a process uses, as it reads it of itself.

Source: proc(5).
"""

import os
import resource
import time
from math import inf
from typing import Final

import attrs

from common.metrics import DAEMON, Metrics, counter, gauge
from common.shapes import Lenient

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_TICKS: Final = os.sysconf("SC_CLK_TCK")


@attrs.frozen
class ProcessUse(Lenient, Metrics):
    """A process and what it uses."""

    # release of the program
    release: str = gauge(
        "build_info",
        "Release of the daemon; always 1.",
        DAEMON,
        "release",
        begin=str,
        of=lambda release: {release: 1},
    )
    # seconds since the epoch
    started_at: float = gauge("process_start_time_seconds", "Start of the daemon, since the epoch.", DAEMON)
    cpu_s: float = counter("process_cpu_seconds", "CPU time of the daemon.", DAEMON)
    memory_bytes: int = gauge("process_resident_memory_bytes", "Resident memory of the daemon.", DAEMON)
    descriptors: int = gauge("process_open_fds", "Open descriptors of the daemon.", DAEMON)
    # limit of descriptors; -1: there is none
    max_descriptors: int = gauge(
        "process_max_fds",
        "Limit of descriptors of the daemon.",
        DAEMON,
        begin=lambda: -1,
        of=lambda most: inf if most < 0 else most,
    )
    # folders of which the kernel tells it no changes, each with the reason: it looks at them at intervals
    unwatched: tuple[str, ...] = gauge(
        "unwatched_folders",
        "Folders of which the kernel tells the daemon no changes; it looks at them at intervals.",
        DAEMON,
        begin=tuple,
        of=len,
    )


def own_use(release: str, unwatched: tuple[str, ...] = ()) -> ProcessUse:
    """What this process uses now. Args: unwatched: as in `ProcessUse`.

    Cost: some 50 us, and linear in its open descriptors.
    """
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return ProcessUse(
        release=release,
        started_at=_started_at(),
        cpu_s=time.process_time(),
        memory_bytes=_memory_bytes(),
        # one of them is that of the listing
        descriptors=len(os.listdir("/proc/self/fd")) - 1,
        max_descriptors=-1 if limit == resource.RLIM_INFINITY else limit,
        unwatched=unwatched,
    )


def _memory_bytes() -> int:
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * _PAGE_BYTES


def _started_at() -> float:
    with open("/proc/self/stat", "rb") as file:
        # field 22, counted after the name in brackets, which may have blanks
        ticks = int(file.read().rpartition(b")")[2].split()[19])
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / _TICKS
