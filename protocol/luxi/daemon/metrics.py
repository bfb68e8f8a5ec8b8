"""Numbers of luxid for graphs and alerts. Ours.

Counters and histograms begin anew with each luxid.
"""

from collections.abc import Mapping

import attrs

from common.metrics.calls import CallCounts
from common.metrics.histogram import Distribution
from common.metrics.process import ProcessUse
from common.shapes import Lenient
from protocol.messages import Request


@attrs.frozen
class QueueNow(Lenient):
    """The queue at this moment."""

    # number of jobs that are not archived, by status as lists show it
    jobs: Mapping[str, int] = attrs.field(factory=dict)
    # jobs that may have a process at once, and those that have one
    slots: int = 0
    slots_taken: int = 0
    # seconds since the job came that has waited longest for its process, whatever it waits for
    oldest_wait_s: float = 0.0
    # limits with running jobs, of reasons (buckets) and of filter rules, and how many of them are full
    limits: int = 0
    limits_full: int = 0
    is_drained: bool = False
    # queued jobs that are on hold, or begin later, or wait for their next try
    deferred: int = 0
    # counted resources, and those of which no unit is free
    resources: int = 0
    resources_full: int = 0
    # events that somebody is still to be told of
    untold: int = 0


@attrs.frozen
class StoreNow(Lenient):
    """The queue's disk and copies at this moment."""

    # bytes of its file system: free for the daemons' user, and in all
    free_bytes: int = 0
    size_bytes: int = 0
    # number of candidates that lack files, and the most files and seconds that one of them lacks
    nodes_behind: int = 0
    lag_files: int = 0
    lag_s: float = 0.0
    # epoch of the master; 0: it was never moved
    epoch: int = 0
    # files in etcd that some candidate may lack, and commits that wait
    entries: int = 0
    commits_waiting: int = 0
    # seconds since etcd has not replied to a commit; 0: it has
    etcd_silent_s: float = 0.0
    # whether etcd takes no changes for want of space
    etcd_is_full: bool = False


@attrs.frozen
class JobsSoFar(Lenient):
    """The jobs since the start of luxid."""

    submitted: int = 0
    # submitted in vain
    refused: int = 0
    # processes started for jobs
    started: int = 0
    # by final status
    ended: Mapping[str, int] = attrs.field(factory=dict)
    # jobs that ended because their process died
    died: int = 0
    # deaths that no event reported: each is a defect
    backstop_wakeups: int = 0
    # runs of schedules, by what became of them: submitted, skipped or refused
    schedule_runs: Mapping[str, int] = attrs.field(factory=dict)
    # deliveries of events that were given up
    given_up: int = 0
    # archived jobs that were removed, as they had been kept long enough
    removed: int = 0


@attrs.frozen
class Durations(Lenient):
    """Seconds, each histogram since the start of luxid."""

    # one call that submits jobs, the disk included
    submission: Distribution = attrs.field(factory=Distribution)
    # from the arrival of a job to its process
    queue_delay: Distribution = attrs.field(factory=Distribution)
    # of opcodes that were executed: the wait for their locks
    lock_wait: Distribution = attrs.field(factory=Distribution)
    # of those: the execution, by the id of the opcode; "other" for unknown ones
    run: Mapping[str, Distribution] = attrs.field(factory=dict)
    # one choice of the jobs to start next
    scheduling: Distribution = attrs.field(factory=Distribution)
    # one write of a group of files, fsyncs included
    store_write: Distribution = attrs.field(factory=Distribution)
    # one transaction in etcd with changes of the queue, repeated tries included
    commit: Distribution = attrs.field(factory=Distribution)


@attrs.frozen
class LuxidMetrics(Lenient):
    process: ProcessUse = attrs.field(factory=ProcessUse)
    calls: CallCounts = attrs.field(factory=CallCounts)
    queue: QueueNow = attrs.field(factory=QueueNow)
    store: StoreNow = attrs.field(factory=StoreNow)
    jobs: JobsSoFar = attrs.field(factory=JobsSoFar)
    durations: Durations = attrs.field(factory=Durations)


@attrs.frozen
class ReadMetrics(Request[LuxidMetrics]):
    METHOD = "ReadMetrics"
