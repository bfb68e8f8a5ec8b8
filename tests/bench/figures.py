"""Figures as they are taken and shown."""

import statistics
import time
from collections.abc import Callable

from tests.bench.results import note

RUNS = 3


def median(run: Callable[[], float], runs: int = RUNS) -> float:
    return statistics.median(run() for _ in range(runs))


def median_ms(run: Callable[[], object], runs: int) -> float:
    """Median milliseconds of a call."""
    return median(lambda: seconds(run), runs) * 1000


def seconds(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def show(what: str, value: float, unit: str, remark: str = "") -> None:
    print(f"{what:82} {value:9.1f} {unit:7} {remark}", flush=True)
    note(what, value, unit, remark)
