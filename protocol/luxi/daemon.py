"""luxid itself: its health, its metrics, the copies of its files, and its move to another node."""

from collections.abc import Mapping
from typing import Final

import attrs

from common.metrics import CallCounts, Distribution
from common.shapes import Lenient
from common.system.processes import ProcessUse
from protocol.messages import Request

# Whether the master candidates have the queue of the master: calls of ours.
#
# Source: DESIGN section 12.


# a name of ours for QueryConfigValues: what was found when the queue was compared last, null if it is not copied
QUEUE_VERDICTS: Final = "queue_verdicts"


@attrs.frozen
class QueueVerdict(Lenient):
    """One candidate; a list of these is the value of `QUEUE_VERDICTS`."""

    node: str
    # seconds since 1970 of the comparison; null: it is not over, or failed
    at: float | None = None
    # number of files that differed, and the names of the first ones; they were sent since, if that was possible
    differ: int = 0
    files: tuple[str, ...] = ()
    # why the node could not be asked; null: it was
    failure: str | None = None
    # whether the node takes files of ours beside the jobs: keys of submissions, histories of waits
    takes_ours: bool = True
    # number of files that it has set aside, because the master has lost them, and the first ones as they were called
    lost: int = 0
    lost_files: tuple[str, ...] = ()


@attrs.frozen
class CheckQueueCopies(Request[tuple[QueueVerdict, ...] | None]):
    """Compare the queue with all candidates now; null: it is not copied.

    Cost: each file is read here and there.
    """

    METHOD = "CheckQueueCopies"


# Facts of luxid that tell whether all is well. Ours.
#
# The daemon measures them itself: another user may have other room on a disk, or may not see it.


@attrs.frozen
class Room(Lenient):
    """The room on the disk of a folder, for the daemons' user."""

    path: str
    free_bytes: int = 0
    size_bytes: int = 0
    # files that may still be made, and all; 0: the disk counts none
    free_files: int = 0
    files: int = 0
    # why it is not known; "": it is
    failure: str = ""
    # whether there is no such folder: somebody has moved or removed it while the daemons run
    is_gone: bool = False


@attrs.frozen
class LuxidHealth(Lenient):
    # the folders of data, of sockets and of logs
    rooms: tuple[Room, ...] = ()
    process: ProcessUse = attrs.field(factory=ProcessUse)
    # files of the queue that are lost here, and that candidates have set aside
    lost_files: int = 0
    # job files that were damaged, and moved away
    damaged_files: int = 0
    # jobs whose files cannot be read at the moment
    unread_jobs: int = 0
    # jobs since the start of luxid of which a command's output was lost, as the disk took none
    lost_outputs: int = 0
    # ended jobs that the history does not have yet
    history_behind: int = 0
    # events that somebody is still to be told of
    untold: int = 0
    # deliveries of events that were given up
    given_up: int = 0
    # rules of `[notify]` whose receivers want no more
    rules_off: tuple[str, ...] = ()


@attrs.frozen
class ReadHealth(Request[LuxidHealth]):
    METHOD = "ReadHealth"


# Numbers of luxid for graphs and alerts. Ours.
#
# Counters and histograms begin anew with each luxid.


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
    # refused at submission
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


# The call of luxid by keeperd that prepares the move of the mastership to another node; ours.
#
# Source: DESIGN section 14; lease.md 7.


@attrs.frozen
class PrepareMove(Request[None]):
    """Take and start nothing more, and return when nothing of a job runs here but what goes on elsewhere.

    Submissions wait, or are refused as at a busy time: "the mastership is being moved". Commands on nodes go on, and
    are taken up by the next master. It holds as long as the caller's connection: when that ends, also after the reply,
    luxid takes and starts work again.
    """

    METHOD = "gantry_prepare_move"
    # whether jobs that run on this node are killed; false: they are waited for
    kill: bool


# What the queue of the master has lost, and where it can be had: a call of ours.
#
# Source: DESIGN section 11, "a job that is missing on the master".


@attrs.frozen
class LostFile(Lenient):
    """A job, a submission key or a history of waits that the master lacks, though it has not removed it."""

    # name below the folder of data
    file: str
    # null: it is no job
    job: int | None = None
    # candidates that have a copy; the master itself, if it had set it aside before it was the master
    nodes: tuple[str, ...] = ()
    # what the master itself knows of the job, such as 'history' or 'output'
    known_by: tuple[str, ...] = ()
    # what it becomes here: 'held', the status of a job that has ended or that luxid has, or 'kept'; "": nobody has it
    becomes: str = ""
    # why it becomes that; may be empty
    why: str = ""
    # whether it is here again
    is_done: bool = False
    # why it could not be fetched; null: nothing went wrong
    failure: str | None = None


@attrs.frozen
class Repaired(Lenient):
    # the jobs first, by id
    lost: tuple[LostFile, ...] = ()
    # candidates that could not be asked -> why
    unasked: Mapping[str, str] = attrs.field(factory=dict)
    # number of lost files behind the last of these
    left: int = 0


@attrs.frozen
class Repair(Request[Repaired]):
    """Tell what is lost.

    `is_dry`: change nothing; otherwise fetch it from the candidates. `forget`: jobs that are lost, and count as removed
    from now on; candidates lose their copies. `after`: the last file of the reply before, which had more `left`.
    """

    METHOD = "Repair"
    is_dry: bool = True
    forget: tuple[int, ...] = ()
    after: str = ""
