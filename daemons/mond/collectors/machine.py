"""Facts of the machine, its load and its memory."""

import os
import time
from pathlib import Path
from typing import ClassVar, Final

from common.system.daemons.program import release
from daemons.mond.collectors.base import Collector, Found
from daemons.mond.core.exposition import Number
from daemons.mond.core.procfiles import load_average, memory_bytes

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_LOAD: Final = Path("/proc/loadavg")
_MEMORY: Final = Path("/proc/meminfo")
_MINUTES: Final = (1, 5, 15)
# our name -> the kernel's
_MEMORY_PARTS: Final = {
    "total": "MemTotal",
    "free": "MemFree",
    "available": "MemAvailable",
    "buffers": "Buffers",
    "cached": "Cached",
    "swap_total": "SwapTotal",
    "swap_free": "SwapFree",
}


class NodeFacts(Collector):
    """What seldom changes."""

    NAME: ClassVar[str] = "node-facts"
    INTERVAL_S: ClassVar[float] = 60.0

    def collect(self) -> Found:
        system, node, own = os.uname(), self.settings.cluster.own_name, release()
        uptime_s = int(time.clock_gettime(time.CLOCK_BOOTTIME))
        labels = {"node": node, "kernel": system.release, "gantry": own}
        data = {
            "node": node,
            "host": system.nodename,
            "kernel": system.release,
            "machine": system.machine,
            "cpus": os.cpu_count(),
            "boot_id": _BOOT_ID.read_text().strip(),
            "uptime_s": uptime_s,
            "gantry": own,
        }
        uptime = Number("gantry_node_uptime_seconds", uptime_s, help="Seconds since the machine was started")
        return Found(data, (Number("gantry_node_info", 1, labels, "Facts of the node"), uptime))


class Load(Collector):
    """Processes that run or wait, on average."""

    NAME: ClassVar[str] = "load"

    def collect(self) -> Found:
        load = load_average(_LOAD.read_text())
        averages = {f"load{minutes}": value for minutes, value in zip(_MINUTES, load.minutes, strict=True)}
        numbers = [Number(f"gantry_node_{name}", value, help="Load average") for name, value in averages.items()]
        return Found({**averages, "runnable": load.runnable, "processes": load.processes}, numbers)


class Memory(Collector):
    """Memory in bytes."""

    NAME: ClassVar[str] = "memory"

    def collect(self) -> Found:
        found = memory_bytes(_MEMORY.read_text())
        parts = {own: found[name] for own, name in _MEMORY_PARTS.items() if name in found}
        text = "Memory of the node"
        return Found(parts, [Number("gantry_node_memory_bytes", parts[name], {"part": name}, text) for name in parts])
