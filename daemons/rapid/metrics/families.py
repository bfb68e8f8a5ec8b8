"""Families of numbers in the form of Prometheus: gauges, counters, histograms.

Names begin with `gantry_` and end with their unit; a counter's with `_total`. The values of a label are always of a
bounded set, and never names that users choose.

Source: Prometheus, "Metric and label naming".
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from typing import Final, TypeVar

import attrs
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from common.metrics import CallCounts, CommitWork, Distribution
from common.system.processes import ProcessUse
from protocol.keeperd import ClusterView
from protocol.luxi.daemon import Durations, JobsSoFar, LuxidMetrics, QueueNow, StoreNow
from protocol.wconfd.daemon import WconfdMetrics

PREFIX: Final = "gantry_"
V = TypeVar("V")
# values by those of the labels
Labelled = Mapping[tuple[str, ...], V]


def gauge(name: str, text: str, values: float | Labelled[float], *labels: str) -> Metric:
    """Numbers that rise and fall; one without labels, or one for each combination of labels' values."""
    family = GaugeMetricFamily(PREFIX + name, text, labels=labels)
    for key, value in _labelled(values).items():
        family.add_metric(key, value)
    return family


def counter(name: str, text: str, values: float | Labelled[float], *labels: str) -> Metric:
    """Numbers that only rise, as `gauge`; `_total` is added to the name."""
    family = CounterMetricFamily(PREFIX + name, text, labels=labels)
    for key, value in _labelled(values).items():
        family.add_metric(key, value)
    return family


def histogram(name: str, text: str, values: Distribution | Labelled[Distribution], *labels: str) -> Metric:
    """Histograms, as `gauge`."""
    family = HistogramMetricFamily(PREFIX + name, text, labels=labels)
    for key, value in _labelled(values).items():
        family.add_metric(key, _buckets(value), value.total)
    return family


def by(values: Mapping[str, V]) -> Labelled[V]:
    """Values by the one label that a family has."""
    return {(key,): value for key, value in values.items()}


def _labelled(values: V | Labelled[V]) -> Labelled[V]:
    return values if isinstance(values, Mapping) else {(): values}


def _buckets(value: Distribution) -> list[tuple[str, float]]:
    ends = [*map(repr, map(float, value.bounds)), "+Inf"]
    return list(zip(ends, accumulate(value.counts), strict=True))


# What all daemons tell alike, with a label for the daemon.
#
# Source: DESIGN section 15.


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


# The numbers of rapid itself.
#
# Source: DESIGN section 15.


@attrs.frozen
class HttpNow:
    """rapid's requests, streams and connections."""

    # by part and class of status
    requests: Mapping[tuple[str, ...], int] = attrs.field(factory=dict)
    # seconds until the reply begins, by part
    times: Mapping[str, Distribution] = attrs.field(factory=dict)
    streams: int = 0
    # requests that wait for an event
    long_polls: int = 0
    # connections of clients, by the way that they came
    connections: Mapping[str, int] = attrs.field(factory=dict)
    # connections to luxid, by what they do
    luxid_connections: Mapping[str, int] = attrs.field(factory=dict)


def http_families(now: HttpNow) -> Iterator[Metric]:
    text = "Requests by part of the interface and class of the status; gone: the client went before the reply."
    yield counter("http_requests", text, now.requests, "part", "status")
    text = "Time until the reply begins, without requests that wait for an event."
    yield histogram("http_request_seconds", text, by(now.times), "part")
    yield gauge("http_streams", "Streams of events that are open.", now.streams)
    yield gauge("http_long_polls", "Requests that wait for an event.", now.long_polls)
    yield gauge("http_connections", "Connections of clients, by the way that they came.", by(now.connections), "over")
    text = "Connections of rapid to luxid, by what they do."
    yield gauge("http_luxid_connections", text, by(now.luxid_connections), "state")


# The numbers of a mastership under a lease: who has it, what etcd is like, and what commits cost.
#
# Source: DESIGN section 14; protocol/keeperd.py; common/metrics.py.


def mastership_families(view: ClusterView) -> Iterator[Metric]:
    """What keeperd of this node knows."""
    yield gauge("is_master", "1 if this node is the master.", float(view.master == view.asked))
    yield gauge("mastership_epoch", "Highest epoch that this node has heard of.", view.epoch)
    text = "Time for which this node may act as the master without a renewal; 0: it is not the master."
    yield gauge("lease_valid_seconds", text, view.valid_s or 0.0)
    if view.dirty is not None:
        yield gauge("etcd_changes", "All changes that are kept in etcd, since a candidate may lack them.", view.dirty)
    if view.etcd_heard_s is not None:
        yield gauge("etcd_silence_seconds", "Time since etcd has replied to this node last.", view.etcd_heard_s)
    yield gauge("etcd_alarms", "Alarms that etcd has raised.", len(view.alarms))
    sizes = {member.name: float(member.db_bytes) for member in view.etcd if member.version}
    yield gauge("etcd_members", "Members of etcd that this node knows.", len(view.etcd))
    yield gauge("etcd_members_silent", "Members of etcd that do not reply.", len(view.etcd) - len(sizes))
    yield gauge("etcd_size_bytes", "Size of the largest member of etcd.", max(sizes.values(), default=0.0))
    stale = sum(member.copies == "stale" for member in view.members)
    yield gauge("candidates_stale", "Candidates that were away too long, and may not become the master.", stale)
    yield gauge("maintenance", "1 if the mastership stays where it is.", float(view.maintenance))


def commit_families(work: CommitWork) -> Iterator[Metric]:
    """wconfd's commits to etcd; those of luxid are among the numbers of the queue."""
    text = "One transaction of a majority of etcd with changes of the configuration, with its retries."
    yield histogram("config_commit_seconds", text, work.durations)
    yield counter("config_commits", "Changes of the configuration that were committed to etcd.", work.commits)
    yield counter("config_commit_failures", "Changes of the configuration that etcd has refused.", work.failures)
    yield counter("config_commit_retries", "Requests sent again, as their outcome was unknown.", work.retries)
    yield gauge("config_commits_waiting", "Changes of the configuration that wait for etcd.", work.waiting)
    yield gauge("config_etcd_entries", "Objects in etcd that some candidate may lack.", work.uncopied)


# The numbers of wconfd.
#
# Source: protocol/wconfd/daemon.py.


def lock_families(told: WconfdMetrics) -> Iterator[Metric]:
    locks = told.locks
    yield gauge("locks_held", "Locks held, a shared one counted for each holder.", locks.held)
    yield gauge("lock_owners", "Jobs and other owners that hold locks.", locks.owners)
    yield gauge("lock_requests_waiting", "Requests that wait for locks.", locks.waiting)
    yield gauge("longest_lock_wait_seconds", "Time for which the oldest request has waited.", locks.longest_wait_s)
    yield gauge("ghosts", "Dead owners whose locks are kept for a command on a node.", locks.ghosts)
    yield gauge(
        "oldest_ghost_seconds", "Time since the death of the oldest ghost; 0: there is none.", locks.oldest_ghost_s
    )
    yield gauge("config_serial", "Serial number of the configuration.", told.config_serial)
    changes = {name: work.changes for name, work in told.files.items()}
    failures = {name: work.failures for name, work in told.files.items()}
    yield counter("state_changes", "Changes of a state file, of which several may share a write.", by(changes), "store")
    yield counter("state_write_failures", "Writes of a state file that failed.", by(failures), "store")


# The numbers of luxid.
#
# Source: protocol/luxi/daemon.py.


def queue_families(told: LuxidMetrics) -> Iterator[Metric]:
    yield from _now(told.queue)
    yield from _store(told.store)
    yield from _so_far(told.jobs)
    yield from _durations(told.durations)


def _now(queue: QueueNow) -> Iterator[Metric]:
    yield gauge("jobs", "Jobs that are not archived, by status.", by(queue.jobs), "status")
    yield gauge("job_slots", "Jobs that may have a process at once.", queue.slots)
    yield gauge("job_slots_taken", "Jobs that have a process.", queue.slots_taken)
    yield gauge(
        "oldest_wait_seconds",
        "Time since the arrival of the job that has waited longest for its process, whatever it waits for.",
        queue.oldest_wait_s,
    )
    yield gauge("limits_in_use", "Rate limits, of reasons and filter rules, with running jobs.", queue.limits)
    yield gauge("limits_full", "Rate limits that let no further job start.", queue.limits_full)
    yield gauge("jobs_deferred", "Queued jobs on hold, or that begin or are tried again later.", queue.deferred)
    yield gauge("resources", "Counted resources.", queue.resources)
    yield gauge("resources_full", "Counted resources of which no unit is free.", queue.resources_full)
    yield gauge("notices_untold", "Events that somebody is still to be told of.", queue.untold)
    yield gauge("queue_drained", "1 if the queue takes no new jobs.", queue.is_drained)


def _store(store: StoreNow) -> Iterator[Metric]:
    yield gauge("queue_disk_free_bytes", "Free room of the queue's file system.", store.free_bytes)
    yield gauge("queue_disk_size_bytes", "Size of the queue's file system.", store.size_bytes)
    yield gauge("candidates_behind", "Master candidates that lack files of the queue.", store.nodes_behind)
    yield gauge("candidate_lag_files", "Files that the candidate furthest behind lacks.", store.lag_files)
    yield gauge("candidate_lag_seconds", "Time for which a candidate has lacked files, at most.", store.lag_s)
    yield gauge("etcd_entries", "Files in etcd that some candidate may lack.", store.entries)
    yield gauge("commits_waiting", "Changes of the queue that wait for etcd.", store.commits_waiting)
    yield gauge("etcd_silent_seconds", "Time since etcd has not replied to a change of the queue.", store.etcd_silent_s)
    yield gauge("etcd_full", "1 if etcd takes no changes for want of space.", store.etcd_is_full)
    yield gauge("master_epoch", "Number of times that the master has moved.", store.epoch)


def _so_far(jobs: JobsSoFar) -> Iterator[Metric]:
    yield counter("jobs_submitted", "Jobs that the queue has taken.", jobs.submitted)
    yield counter("jobs_refused", "Jobs refused at submission.", jobs.refused)
    yield counter("job_starts", "Processes started for jobs.", jobs.started)
    yield counter("jobs_ended", "Jobs that have ended, by status.", by(jobs.ended), "status")
    yield counter("schedule_runs", "Runs of schedules, by what became of them.", by(jobs.schedule_runs), "state")
    yield counter("notices_given_up", "Deliveries of events that were given up.", jobs.given_up)
    yield counter("jobs_removed", "Archived jobs removed by retention.", jobs.removed)
    yield counter("job_deaths", "Jobs that ended because their process had died.", jobs.died)


def _durations(took: Durations) -> Iterator[Metric]:
    yield histogram("submission_seconds", "One call that submits jobs, the disk included.", took.submission)
    yield histogram("queue_delay_seconds", "From the arrival of a job to its process.", took.queue_delay)
    yield histogram("lock_wait_seconds", "Wait of an opcode for its locks.", took.lock_wait)
    yield histogram("opcode_run_seconds", "Execution of an opcode, without its waits.", by(took.run), "opcode")
    yield histogram("commit_seconds", "One transaction in etcd with changes of the queue.", took.commit)
    yield histogram("scheduling_seconds", "One choice of the jobs to start next.", took.scheduling)
