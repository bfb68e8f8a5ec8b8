"""Facts that tell whether luxid is well; the method is ours.

Source: DESIGN section 16.
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import attrs
import trio

from common.health import Room
from common.metrics import Metrics, gauge, read
from common.nodes.mastership import read_seen
from common.paths import Paths
from common.queue.jobs import JobState, to_seconds
from common.system.inthread import in_thread
from common.system.processuse import ProcessUse, own_use
from common.system.program import release
from common.system.watch import unwatched
from daemons.luxid.core.copies.etcdroom import CommitsNow
from daemons.luxid.files.store import Store
from daemons.luxid.history.upkeep import PastHistory
from daemons.luxid.jobs import JobViews, LiveJobs
from daemons.luxid.removals import set_aside_here
from protocol.luxi.daemon import LuxidHealth, ReadHealth, ReadMetrics
from protocol.luxi.queries import QueueLag
from protocol.metrics import DaemonMetrics
from protocol.peer import Peer

# seconds after which a disk that does not tell its room is taken to hang
_PATIENCE_S: Final = 5.0


class LuxidHealthHandlers:
    """The method that reads the facts; it waits for no disk.

    Args: lost: tells how many files of the queue candidates have set aside, because they are lost here.
    """

    def __init__(self, paths: Paths, jobs: LiveJobs, past: PastHistory, lost: Callable[[], int] = lambda: 0) -> None:
        self._lost = lost
        self._paths = paths
        self._jobs = jobs
        self._past = past

    async def read_health(self, _: ReadHealth, __: Peer) -> LuxidHealth:
        """Raises: OSError: a folder cannot be listed. DamagedFile: the record of removals."""
        rooms: list[Room] = []
        process: list[ProcessUse] = []
        async with trio.open_nursery() as nursery:
            for folder in dict.fromkeys((self._paths.data, self._paths.queue, self._paths.run, self._paths.log)):
                nursery.start_soon(_measure, folder, rooms)
            process.append(await in_thread(own_use, release(), unwatched()))
        notices = self._jobs.notices
        return LuxidHealth(
            rooms=tuple(sorted(rooms, key=lambda room: room.path)),
            process=process[0],
            lost_files=max(self._lost(), await in_thread(_count_set_aside, self._paths)),
            damaged_files=await in_thread(_count_files, self._paths.damaged),
            lost_outputs=self._jobs.counts.lost_outputs,
            unread_jobs=len(self._jobs.unread),
            history_behind=self._past.lacking,
            notices=len(notices),
            given_up=notices.given_up,
            rules_off=notices.rules_off,
        )


def _count_set_aside(paths: Paths) -> int:
    """Of this node itself, when another one was the master."""
    return len(set_aside_here(paths))


async def _measure(folder: Path, rooms: list[Room]) -> None:
    room = Room(str(folder), failure=f"no reply within {_PATIENCE_S:g} s")
    with trio.move_on_after(_PATIENCE_S):
        # a disk may hold the thread for any time
        room = await in_thread(_room, folder, abandon_on_cancel=True)
    rooms.append(room)


def _room(folder: Path) -> Room:
    try:
        found = os.statvfs(folder)
    except OSError as error:
        is_gone = isinstance(error, FileNotFoundError)
        return Room(str(folder), failure=(error.strerror or str(error)).lower(), is_gone=is_gone)
    size, free = found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize
    return Room(str(folder), free, size, found.f_favail, found.f_files)


def _count_files(folder: Path) -> int:
    """How many; none if the folder is gone, which the room of the data folder tells."""
    try:
        return len(os.listdir(folder))
    except FileNotFoundError:
        return 0


# Numbers of luxid for graphs and alerts; the method is ours.
#
# Theory. Nothing is counted here: the parts count, and this reads them. What is "now" costs no more than the jobs that
# run; no question touches all jobs.
#
# Source: DESIGN section 15.


@attrs.frozen(kw_only=True)
class QueueNow(Metrics):
    """The queue at this moment."""

    # as lists show it
    jobs: Counter[JobState] = gauge("jobs", "Jobs that are not archived, by status.", "status")
    slots: int = gauge("job_slots", "Jobs that may have a process at once.")
    slots_taken: int = gauge("job_slots_taken", "Jobs that have a process.")
    oldest_wait_s: float = gauge(
        "oldest_wait_seconds",
        "Time since the arrival of the job that has waited longest for its process, whatever it waits for.",
    )
    delayed: int = gauge(
        "jobs_delayed",
        "Jobs that could begin and have waited for a place, or for units of resources, longer than `start_goal_s`.",
    )
    limits: int = gauge("limits_in_use", "Rate limits, of reasons and filter rules, with running jobs.")
    limits_full: int = gauge("limits_full", "Rate limits that let no further job start.")
    deferred: int = gauge("jobs_deferred", "Queued jobs on hold, or that begin or are tried again later.")
    resources: int = gauge("resources", "Counted resources.")
    resources_full: int = gauge("resources_full", "Counted resources of which no unit is free.")
    notices: int = gauge("notices_pending", "Events that somebody is still to be told of.")
    is_drained: bool = gauge("queue_drained", "1 if the queue takes no new jobs.", begin=bool)


@attrs.frozen(kw_only=True)
class StoreNow(Metrics):
    """The queue's disk and copies at this moment."""

    # for the daemons' user
    free_bytes: int = gauge("queue_disk_free_bytes", "Free room of the queue's file system.")
    size_bytes: int = gauge("queue_disk_size_bytes", "Size of the queue's file system.")
    nodes_behind: int = gauge("candidates_behind", "Master candidates that lack files of the queue.")
    lag_files: int = gauge("candidate_lag_files", "Files that the candidate furthest behind lacks.")
    lag_s: float = gauge("candidate_lag_seconds", "Time for which a candidate has lacked files, at most.")
    # 0: it was never moved
    epoch: int = gauge("master_epoch", "Number of times that the master has moved.")


class LuxidMetricHandlers:
    """The method that reads the numbers.

    Args:
        parts: those that count, besides jobs and store.
        lags: what the candidates lack of the queue; None: it is not copied.
        commits: how commits are doing; None: there is no lease.
        start_goal_s: seconds that a job that could begin may wait.
    """

    def __init__(
        self,
        jobs: LiveJobs,
        views: JobViews,
        store: Store,
        parts: Sequence[Metrics],
        lags: Callable[[], Sequence[QueueLag]] | None = None,
        commits: Callable[[], CommitsNow] | None = None,
        start_goal_s: float = 30.0,
    ) -> None:
        self._jobs = jobs
        self._start_goal_s = start_goal_s
        self._views = views
        self._store = store
        self._parts = parts
        self._lags = lags or (lambda: ())
        self._commits = commits or CommitsNow

    async def read_metrics(self, _: ReadMetrics, __: Peer) -> DaemonMetrics:
        """Raises: OSError: the disk does not tell its room. DamagedFile: the epoch cannot be read."""
        paths = self._store.paths
        # in a thread, as a disk may hang
        process, room, epoch = await in_thread(_read_files, paths.queue, paths.epoch_file)
        now = (self._queue_now(), self._store_now(room, epoch), self._commits())
        counted = (*self._parts, self._jobs.counts, self._jobs.notices, self._store.files.counts)
        return DaemonMetrics(process, tuple(read(*now, *counted, daemon="luxid", store="queue")))

    def _queue_now(self) -> QueueNow:
        queue = self._jobs.queue
        limits, full = queue.limit_usage.counts()
        oldest = queue.oldest_waiting()
        stock = queue.units.stock
        resources = stock.resources()
        received_at = oldest.received_at if oldest is not None else None
        return QueueNow(
            jobs=self._by_status(),
            slots=queue.slots,
            slots_taken=queue.slots - queue.free_slots(),
            oldest_wait_s=max(0.0, time.time() - to_seconds(received_at)) if received_at is not None else 0.0,
            delayed=queue.delayed(time.time(), self._start_goal_s),
            limits=limits,
            limits_full=full,
            is_drained=self._store.is_drained,
            deferred=queue.counts().deferred,
            resources=len(resources),
            resources_full=sum(stock.used(each.key) >= each.total for each in resources),
            notices=len(self._jobs.notices),
        )

    def _by_status(self) -> Counter[JobState]:
        """Cost: linear in the jobs that run."""
        queue = self._jobs.queue
        counts = queue.counts()
        found = Counter(dict.fromkeys(JobState, 0))
        found.update(queue.ended.counts())
        found[JobState.WAITING] += counts.blocked
        found[JobState.QUEUED] += counts.ready + counts.deferred + counts.held + counts.starting
        found[JobState.RUNNING] += counts.orphaned
        found.update(self._views.of(self._jobs.unended(job_id)).state for job_id in queue.running())
        return found

    def _store_now(self, room: os.statvfs_result, epoch: int) -> StoreNow:
        lags = self._lags()
        return StoreNow(
            free_bytes=room.f_bavail * room.f_frsize,
            size_bytes=room.f_blocks * room.f_frsize,
            nodes_behind=len(lags),
            lag_files=max((lag.files for lag in lags), default=0),
            lag_s=max((lag.seconds for lag in lags), default=0.0),
            epoch=epoch,
        )


def _read_files(folder: Path, epoch_file: Path) -> tuple[ProcessUse, os.statvfs_result, int]:
    return own_use(release(), unwatched()), os.statvfs(folder), read_seen(epoch_file).number
