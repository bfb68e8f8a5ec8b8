"""How busy the processors were in the last ten minutes, as Ganeti's hbal reads it."""

import os
import time
from pathlib import Path
from typing import ClassVar, Final

from common.settings import Settings
from daemons.mond.collectors.base import Collector, Found
from daemons.mond.core.exposition import Number
from daemons.mond.core.procfiles import busy_ticks
from daemons.mond.core.window import Window

WINDOW_S: Final = 600.0
_STAT: Final = Path("/proc/stat")


class ProcessorLoad(Collector):
    """Processors in use, on average: all together, and each."""

    NAME: ClassVar[str] = "cpu-avg-load"
    VERSION: ClassVar[str] = "B"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._window = Window(WINDOW_S)
        self._ticks = os.sysconf("SC_CLK_TCK")

    def collect(self) -> Found:
        self._window.add(time.monotonic(), busy_ticks(_STAT.read_text()))
        rates = self._window.rates()
        if rates is None:
            return Found({"error": "there are too few samples yet"})
        total, *each = (rate / self._ticks for rate in rates)
        numbers = (
            Number("gantry_node_cpu_load", total, help="Processors in use, on average of the last ten minutes"),
            Number("gantry_node_cpus", len(each), help="Processors of the node"),
        )
        return Found({"cpu_number": len(each), "cpus": each, "cpu_total": total}, numbers)
