"""What a process has used so far."""

import os
import re
from pathlib import Path


def cpu_s(pid: int) -> float:
    """Seconds of CPU, its own and the system's for it."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mib(pid: int) -> float:
    """Resident memory."""
    match = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert match is not None
    return int(match[1]) / 1024


def private_mib(pid: int) -> float:
    """Memory that no other process has a share of."""
    return _rolled_up_mib(pid, "Private_Clean") + _rolled_up_mib(pid, "Private_Dirty")


def proportional_mib(pid: int) -> float:
    """Its memory, of which each shared page counts by its part."""
    return _rolled_up_mib(pid, "Pss")


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def threads(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/task"))


def watches(pid: int) -> int:
    """Folders and files that its inotify instances watch."""
    return sum(path.read_text().count("inotify wd:") for path in Path(f"/proc/{pid}/fdinfo").iterdir())


def _rolled_up_mib(pid: int, name: str) -> float:
    match = re.search(rf"^{name}:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    assert match is not None
    return int(match[1]) / 1024
