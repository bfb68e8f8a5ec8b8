"""Files of the kernel, read as values. Raises, all: ValueError: a file has another form.

Source: mond.md 4; proc(5).
"""

import re
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

import attrs

_DISK_FIELDS: Final = (
    "readsNum",
    "mergedReads",
    "secRead",
    "timeRead",
    "writes",
    "mergedWrites",
    "secWritten",
    "timeWrite",
    "ios",
    "timeIO",
    "wIOmillis",
)
_IDLE: Final = 3
_TICK_FIELDS: Final = 10
_MEMORY_LINE: Final = re.compile(r"^([\w()]+): +(\d+)(?: (kB))?$", re.MULTILINE)
_GROUP: Final = re.compile(r"/(job-\d+(?:-detached-\d+)?|command-\d+\.\d+\.\d+)\.cg(?:/|$)", re.ASCII)


def busy_ticks(text: str) -> Sequence[int]:
    """Ticks that all processors together, then each of them, were not idle. Args: text: of /proc/stat."""
    found = []
    for line in text.splitlines():
        name, *values = line.split()
        if name.startswith("cpu"):
            ticks = [int(value) for value in values[:_TICK_FIELDS]]
            found.append(sum(ticks) - ticks[_IDLE])
    if not found:
        raise ValueError("expected lines of processors in /proc/stat")
    return found


@attrs.frozen
class DiskCounters:
    """What a block device has done."""

    major: int
    minor: int
    name: str
    # by Ganeti's names
    counts: Mapping[str, int]

    def to_wire(self) -> dict[str, object]:
        return {"major": self.major, "minor": self.minor, "name": self.name, **self.counts}


def disk_statistics(text: str) -> Sequence[DiskCounters]:
    """The lines of /proc/diskstats; newer columns are left out."""
    found: list[DiskCounters] = []
    for line in text.splitlines():
        major, minor, name, *values = line.split()
        counts = dict(zip(_DISK_FIELDS, map(int, values), strict=False))
        if len(counts) < len(_DISK_FIELDS):
            raise ValueError(f"expected 14 columns in /proc/diskstats, got {3 + len(values)}")
        found.append(DiskCounters(int(major), int(minor), name, counts))
    return found


def memory_bytes(text: str) -> Mapping[str, int]:
    """The values of /proc/meminfo, in bytes."""
    return {name: int(value) * (1024 if unit else 1) for name, value, unit in _MEMORY_LINE.findall(text)}


@attrs.frozen
class LoadAverage:
    # over 1, 5 and 15 minutes
    minutes: tuple[float, float, float]
    runnable: int
    processes: int


def load_average(text: str) -> LoadAverage:
    """Args: text: of /proc/loadavg."""
    one, five, fifteen, tasks, *_ = text.split()
    runnable, _, all_of_them = tasks.partition("/")
    return LoadAverage((float(one), float(five), float(fifteen)), int(runnable), int(all_of_them))


@attrs.frozen
class ProcessCounters:
    """What a process has used."""

    cpu_ticks: int
    memory_pages: int


def process_use(text: str) -> ProcessCounters:
    """Args: text: of /proc/PID/stat. CPU time is also that of children that it has waited for."""
    # the name may have spaces and brackets
    fields = text.rpartition(")")[2].split()
    return ProcessCounters(sum(map(int, fields[11:15])), int(fields[21]))


def command_of(text: str, folder: str) -> str | None:
    """The name of the command whose control group a process is in; None: it is in none.

    Args:
        text: of /proc/PID/cgroup.
        folder: name of the folder with the groups of the installation.
    """
    for line in text.splitlines():
        _, has_folder, rest = line.partition(f"/{folder}/")
        found = _GROUP.match(f"/{rest}") if has_folder else None
        if found:
            return found[1]
    return None


# Counters over a sliding window of time: how much they have grown, by second.
#
# Source: mond.md 4, cpu-avg-load.


# samples that are kept at most, whatever the interval
_MOST = 4096
# time in which a rate can be told
_LEAST_S = 0.5


class Window:
    """Samples of the last seconds, and the one before them. Args: length_s: its length."""

    def __init__(self, length_s: float) -> None:
        self._length_s = length_s
        self._samples: deque[tuple[float, tuple[int, ...]]] = deque(maxlen=_MOST)

    def add(self, at_s: float, counters: Sequence[int]) -> None:
        """Add a sample. Args: at_s: a clock that never goes back. Other counters than before begin a new window."""
        if self._samples and len(self._samples[-1][1]) != len(counters):
            self._samples.clear()
        self._samples.append((at_s, tuple(counters)))
        while len(self._samples) > 2 and self._samples[1][0] <= at_s - self._length_s:
            self._samples.popleft()

    def rates(self) -> Sequence[float] | None:
        """Growth by second of each counter, from the oldest sample to the newest; None: there are too few."""
        if len(self._samples) < 2:
            return None
        (began_s, first), (ended_s, last) = self._samples[0], self._samples[-1]
        elapsed_s = ended_s - began_s
        if elapsed_s < _LEAST_S:
            return None
        # some counters of the kernel may go back a little
        return [max(after - before, 0) / elapsed_s for before, after in zip(first, last, strict=True)]
