"""A cluster that lives by events alone, and is looked over when a test is done with it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from common.queue.jobfile import decode_job
from common.queue.jobs import Job
from protocol.wconfd.locks import ListLocksWaitingStatus, LocksStatus
from tests.support.cluster import ALL, Cluster
from tests.support.fakes.durable import durable_locks
from tests.support.leftovers import processes_under
from tests.support.wait import wait_until

# the backstops never strike: what a test sees happen was told by an event
EVENTS_ONLY = "[luxid]\nsweep_s = 3600\nkill_grace_s = 0.5\n[wconfd]\nsweep_s = 3600\n"
# what a daemon logs only if it has a defect
DEFECTS = ("Traceback", "connection.crashed", "sweep.found_dead")
NO_LOCKS = b"[[],[]]"


@contextmanager
def checked_cluster(root: Path, *, settings: str = EVENTS_ONLY, judged: tuple[str, ...] = ALL) -> Iterator[Cluster]:
    """A cluster whose daemons are not started; at the end no process may be left.

    Args:
        judged: the daemons that may have logged no defect; job processes log with the fork server.
    """
    with Cluster(root, settings=settings) as cluster:
        yield cluster
    assert_nothing_left(root)
    assert_no_defects(cluster, judged)


def assert_nothing_left(root: Path) -> None:
    """Wait until no process of the installation lives."""
    wait_until(lambda: not processes_under(root), what="no process is left", state=lambda: processes_under(root))


def assert_no_defects(cluster: Cluster, daemons: tuple[str, ...]) -> None:
    """None of these daemons has logged a traceback, or a death that no event told of."""
    for name in daemons:
        log = cluster.log(name)
        found = [word for word in DEFECTS if word in log]
        assert not found, f"{name} logged {found}:\n{log[-4000:]}"


def assert_all_is_free(cluster: Cluster) -> None:
    """Wait until nobody holds or wants a lock, in memory and on disk, and no job has a livelock."""

    def state() -> Any:
        status = cluster.wconf(ListLocksWaitingStatus())
        return status, durable_locks(cluster.paths.locks_data), job_livelocks(cluster)

    def is_free() -> bool:
        status, on_disk, livelocks = state()
        return status == LocksStatus((), ()) and on_disk == NO_LOCKS and not livelocks

    wait_until(is_free, what="all locks are free and no livelock of a job is left", state=state)


def job_livelocks(cluster: Cluster) -> list[str]:
    """The names of the job processes' livelocks, those in the making included."""
    return [path.name for path in cluster.paths.livelocks.iterdir() if "job_" in path.name]


def job_on_disk(cluster: Cluster, job_id: int) -> Job:
    """A job as its file says, whether luxid runs or not."""
    path = cluster.paths.job_file(job_id)
    return decode_job(path.read_bytes(), path.name)
