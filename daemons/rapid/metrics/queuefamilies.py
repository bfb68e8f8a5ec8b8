"""The numbers of luxid.

Source: protocol/luxi/daemon/metrics.py.
"""

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from daemons.rapid.metrics.families import by, counter, gauge, histogram
from protocol.luxi.daemon.metrics import Durations, JobsSoFar, LuxidMetrics, QueueNow, StoreNow


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
    yield counter("jobs_refused", "Jobs that were submitted in vain.", jobs.refused)
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
