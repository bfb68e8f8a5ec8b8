"""What all daemons tell alike, with a label for the daemon.

Source: DESIGN section 15.
"""

from collections.abc import Callable, Iterator, Mapping

import attrs
from prometheus_client.metrics_core import Metric

from common.metrics.calls import CallCounts
from common.metrics.histogram import Distribution
from common.metrics.process import ProcessUse
from daemons.rapid.metrics.families import Labelled, by, counter, gauge, histogram


@attrs.frozen
class DaemonReport:
    """A daemon that was reached."""

    process: ProcessUse
    # of its socket; None: it counts requests in its own way
    calls: CallCounts | None = None
    # deaths that no event reported; None: it looks for none
    backstop_wakeups: int | None = None
    # seconds of durable writes by store
    writes: Mapping[str, Distribution] = attrs.field(factory=dict)


def daemon_families(reports: Mapping[str, DaemonReport | None]) -> Iterator[Metric]:
    """Numbers by daemon; None: it was not reached."""
    up = by({name: float(report is not None) for name, report in reports.items()})
    yield gauge("up", "1 if the daemon replies.", up, "daemon")
    there = {name: report for name, report in reports.items() if report is not None}
    yield from _processes({name: report.process for name, report in there.items()})
    yield from _calls({name: report.calls for name, report in there.items() if report.calls is not None})
    wakeups = {name: report.backstop_wakeups for name, report in there.items() if report.backstop_wakeups is not None}
    text = "Deaths that only the periodic check has found; each is a missed event, and a defect."
    yield counter("backstop_wakeups", text, by(wakeups), "daemon")
    writes: Labelled[Distribution] = {
        (name, store): times for name, report in there.items() for store, times in report.writes.items()
    }
    yield histogram("store_write_seconds", "One durable write, fsyncs included.", writes, "daemon", "store")


def _processes(processes: Mapping[str, ProcessUse]) -> Iterator[Metric]:
    def each(read: Callable[[ProcessUse], float]) -> Labelled[float]:
        return by({name: read(use) for name, use in processes.items()})

    releases: Labelled[float] = {(name, use.release): 1.0 for name, use in processes.items()}
    yield gauge("build_info", "Release of the daemon; always 1.", releases, "daemon", "release")
    text = "Start of the daemon, since the epoch."
    yield gauge("process_start_time_seconds", text, each(lambda use: use.started_at), "daemon")
    yield counter("process_cpu_seconds", "CPU time of the daemon.", each(lambda use: use.cpu_s), "daemon")
    text = "Resident memory of the daemon."
    yield gauge("process_resident_memory_bytes", text, each(lambda use: use.memory_bytes), "daemon")
    yield gauge("process_open_fds", "Open descriptors of the daemon.", each(lambda use: use.descriptors), "daemon")
    text = "Limit of descriptors of the daemon."
    yield gauge("process_max_fds", text, each(lambda use: _limit(use.max_descriptors)), "daemon")
    text = "Folders of which the kernel tells the daemon no changes; it looks at them at intervals."
    yield gauge("unwatched_folders", text, each(lambda use: float(len(use.unwatched))), "daemon")


def _calls(calls: Mapping[str, CallCounts]) -> Iterator[Metric]:
    def each(read: Callable[[CallCounts], float]) -> Labelled[float]:
        return by({name: read(counts) for name, counts in calls.items()})

    yield counter("calls", "Calls over the daemon's Unix socket.", each(lambda counts: counts.calls), "daemon")
    refused: Labelled[float] = {
        (name, code): count for name, counts in calls.items() for code, count in counts.refused.items()
    }
    yield counter("calls_refused", "Calls that failed, by the code of the error.", refused, "daemon", "code")
    text = "Connections to the daemon's Unix socket."
    yield gauge("connections", text, each(lambda counts: counts.connections), "daemon")
    text = "Connections beyond the daemon's bounds."
    yield counter("connections_refused", text, each(lambda counts: counts.connections_refused), "daemon")


def _limit(count: int) -> float:
    return float("inf") if count < 0 else float(count)
