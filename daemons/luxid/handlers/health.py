"""Facts that tell whether luxid is well; the method is ours.

Source: DESIGN section 16.
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

import trio

from common.metrics import CallTally
from common.nodes.mastership import read_seen
from common.paths import Paths
from common.queue.jobs import JobState, to_seconds
from common.system.inthread import in_thread
from common.system.processes import ProcessUse, own_use
from common.system.program import release
from common.system.watch import unwatched
from daemons.luxid.core.copies.etcdroom import CommitsNow
from daemons.luxid.files.store import Store
from daemons.luxid.history.upkeep import PastHistory
from daemons.luxid.jobs import JobViews, LiveJobs
from daemons.luxid.removals import set_aside_here
from protocol.luxi.daemon import (
    Durations,
    JobsSoFar,
    LuxidHealth,
    LuxidMetrics,
    QueueNow,
    ReadHealth,
    ReadMetrics,
    Room,
    StoreNow,
)
from protocol.luxi.queries import QueueLag
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
        untold = self._jobs.untold
        return LuxidHealth(
            rooms=tuple(sorted(rooms, key=lambda room: room.path)),
            process=process[0],
            lost_files=max(self._lost(), await in_thread(_count_set_aside, self._paths)),
            damaged_files=await in_thread(_count_files, self._paths.damaged),
            lost_outputs=self._jobs.counts.lost_outputs,
            unread_jobs=len(self._jobs.unread),
            history_behind=self._past.lacking,
            untold=len(untold),
            given_up=untold.given_up,
            rules_off=untold.rules_off,
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
# Theory. Nothing is counted here: the parts keep plain numbers, and this reads them. What is "now" costs no more than
# the jobs that run; no question touches all jobs.
#
# Source: DESIGN section 15.


NO_RUNS: Final[Mapping[str, int]] = MappingProxyType({})


class Metrics:
    """The method that reads the numbers.

    Args:
        lags: what the candidates lack of the queue; None: it is not copied.
        commits: how commits are doing; None: there is no lease.
        runs: number of runs of schedules, by what became of them.
        removed: number of jobs that retention has removed.
    """

    def __init__(
        self,
        jobs: LiveJobs,
        views: JobViews,
        store: Store,
        tally: CallTally,
        lags: Callable[[], Sequence[QueueLag]] | None = None,
        commits: Callable[[], CommitsNow] | None = None,
        runs: Mapping[str, int] = NO_RUNS,
        removed: Callable[[], int] = lambda: 0,
    ) -> None:
        self._jobs = jobs
        self._views = views
        self._store = store
        self._tally = tally
        self._lags = lags or (lambda: ())
        self._commits = commits or CommitsNow
        self._runs = runs
        self._removed = removed

    async def read_metrics(self, _: ReadMetrics, __: Peer) -> LuxidMetrics:
        """Raises: OSError: the disk does not tell its room. DamagedFile: the epoch cannot be read."""
        paths = self._store.paths
        # in a thread, as a disk may hang
        process, room, epoch = await in_thread(_read_files, paths.queue, paths.epoch_file)
        return LuxidMetrics(
            process=process,
            calls=self._tally.read(),
            queue=self._queue_now(),
            store=self._store_now(room, epoch),
            jobs=self._jobs_so_far(),
            durations=self._durations(),
        )

    def _queue_now(self) -> QueueNow:
        queue = self._jobs.queue
        limits, full = queue.limit_usage.counts()
        oldest = queue.oldest_waiting()
        stock = queue.units.stock
        resources = stock.resources()
        received_at = oldest.received_at if oldest is not None else None
        return QueueNow(
            jobs={state.value: count for state, count in self._by_status().items()},
            slots=queue.slots,
            slots_taken=queue.slots - queue.free_slots(),
            oldest_wait_s=max(0.0, time.time() - to_seconds(received_at)) if received_at is not None else 0.0,
            limits=limits,
            limits_full=full,
            is_drained=self._store.is_drained,
            deferred=queue.counts().deferred,
            resources=len(resources),
            resources_full=sum(stock.used(each.key) >= each.total for each in resources),
            untold=len(self._jobs.untold),
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
        lags, commits = self._lags(), self._commits()
        return StoreNow(
            free_bytes=room.f_bavail * room.f_frsize,
            size_bytes=room.f_blocks * room.f_frsize,
            nodes_behind=len(lags),
            lag_files=max((lag.files for lag in lags), default=0),
            lag_s=max((lag.seconds for lag in lags), default=0.0),
            epoch=epoch,
            entries=commits.dirty,
            commits_waiting=commits.waiting,
            etcd_silent_s=commits.silent_s,
            etcd_is_full=commits.is_full,
        )

    def _jobs_so_far(self) -> JobsSoFar:
        counts = self._jobs.counts
        return JobsSoFar(
            submitted=counts.submitted,
            refused=counts.refused,
            started=counts.started,
            ended={state.value: count for state, count in counts.ended.items()},
            died=counts.died,
            backstop_wakeups=counts.swept,
            schedule_runs=dict(self._runs),
            given_up=self._jobs.untold.given_up,
            removed=self._removed(),
        )

    def _durations(self) -> Durations:
        counts = self._jobs.counts
        return Durations(
            submission=counts.submission.read(),
            queue_delay=counts.queue_delay.read(),
            lock_wait=counts.lock_wait.read(),
            run={op_id: histogram.read() for op_id, histogram in counts.run.items()},
            scheduling=counts.scheduling.read(),
            store_write=self._store.files.write_times.read(),
            commit=self._commits().durations,
        )


def _read_files(folder: Path, epoch_file: Path) -> tuple[ProcessUse, os.statvfs_result, int]:
    return own_use(release(), unwatched()), os.statvfs(folder), read_seen(epoch_file).number
