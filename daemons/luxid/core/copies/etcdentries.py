"""The queue in etcd: which candidates are fresh by its entries, what one change takes, and which jobs it gives away."""

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Final

import attrs

from common.ids import JobId
from common.lease.changes import Fate, RemovedFile
from common.queue.jobs import Job
from daemons.luxid.core.copies.backlog import Key
from daemons.luxid.core.copies.restoring import has_process

# Which candidates are fresh: what they lack is in etcd, so each of them may become the master.
#
# Theory. A candidate is fresh from the moment when it has all files but those that have an entry in etcd, and entries
# are kept for it from then on. One that is away for long would keep them for ever; it is marked as stale, and only then
# are entries no longer kept for it. A node that is no candidate any more is marked, too, and so is a new one: nothing
# was kept for it. Marks are in etcd; one is put there before less is kept, and taken away after more is.
#
# Each master compares the files of all candidates once, and notes its epoch with each: a former master has files that
# nobody knows until then.
#
# Source: DESIGN section 14.


@attrs.frozen
class CandidateStatus:
    """A candidate, as its sender knows it."""

    name: str
    # whether all that it lacks has an entry in etcd
    is_complete: bool
    # seconds since it was last heard, if it does not reply; 0: it does
    away_s: float


@attrs.frozen
class Marks:
    """What etcd says of nodes."""

    # fresh nodes -> epoch of the last master that has compared their files
    synced: Mapping[str, int]
    stale: Set[str]

    @property
    def fresh(self) -> frozenset[str]:
        return frozenset(self.synced) - self.stale


@attrs.frozen
class MarkChanges:
    # nodes for which no entries are kept any more
    stale: frozenset[str]
    # nodes that were compared, and are fresh
    synced: frozenset[str]

    @property
    def is_empty(self) -> bool:
        return not self.stale and not self.synced


def changes_of(standings: Iterable[CandidateStatus], marks: Marks, epoch: int, stale_s: float) -> MarkChanges:
    """Decide what is to be changed in etcd.

    Args:
        standings: of all candidates but the master.
        epoch: of this mastership.
        stale_s: time after which a candidate that is away holds nothing back.
    """
    candidates = {each.name: each for each in standings}
    synced = {
        name
        for name, each in candidates.items()
        if each.is_complete and (name not in marks.fresh or marks.synced[name] < epoch)
    }
    away = {name for name, each in candidates.items() if each.away_s >= stale_s}
    wanted = (marks.synced.keys() - candidates.keys()) | away | (candidates.keys() - marks.synced.keys())
    return MarkChanges(frozenset(wanted - marks.stale - synced), frozenset(synced))


def changed(marks: Marks, changes: MarkChanges, epoch: int) -> Marks:
    """The marks when etcd has the changes."""
    synced = {name: number for name, number in marks.synced.items() if name not in changes.stale}
    stale = (marks.stale | changes.stale) - changes.synced
    return Marks(synced | dict.fromkeys(changes.synced, epoch), stale)


# What many files are to be, in parts of which each is one change in etcd. Pure.
#
# Source: DESIGN section 14; `common.lease.changes`.


# files of one change; with the notes of their jobs they are less than etcd's bound
MOST_FILES: Final = 200
# bytes of one change of several files, half of what etcd takes
PART_BYTES: Final = 32 * 2**20


def in_parts(fates: Mapping[Key, Fate]) -> Iterator[dict[Key, Fate]]:
    """The parts, in order; one of a single file may have more bytes."""
    part: dict[Key, Fate] = {}
    size = 0
    for key, fate in fates.items():
        its_size = _size(fate)
        if part and (len(part) == MOST_FILES or size + its_size > PART_BYTES):
            yield part
            part, size = {}, 0
        part[key] = fate
        size += its_size
    if part:
        yield part


def _size(fate: Fate) -> int:
    return 0 if isinstance(fate, RemovedFile) else len(fate.content or b"")


# Which jobs gain or lose a process by a write of their files.
#
# Theory. A file that luxid writes with another livelock than the job's last gives it to a process; the file of an ended
# job takes it away. A job that goes back to the queue keeps the livelock of its last process in its file, so the
# livelock alone does not tell.
#
# Source: DESIGN section 14.


@attrs.frozen
class Passing:
    """What a change of files does to jobs."""

    begun: frozenset[JobId] = frozenset()
    over: frozenset[JobId] = frozenset()


class JobLivelocks:
    """The last livelocks of unended jobs."""

    def __init__(self) -> None:
        self._livelocks: dict[JobId, str] = {}
        self._running: set[JobId] = set()

    @property
    def running(self) -> frozenset[JobId]:
        """The jobs in the hands of processes."""
        return frozenset(self._running)

    def begun(self, job_id: JobId) -> None:
        """A process has this job, or may have, as etcd says."""
        self._running.add(job_id)

    def found(self, job: Job) -> None:
        """A job as it was when this luxid began."""
        self._note(job)

    def will_write(self, jobs: list[Job]) -> Passing:
        """Judge files that luxid is about to write."""
        begun = {job.job_id for job in jobs if has_process(job) and self._livelocks.get(job.job_id) != job.livelock}
        over = {job.job_id for job in jobs if job.next_index is None}
        return Passing(frozenset(begun), frozenset(over & self._running))

    def was_written(self, jobs: list[Job], *, are_dead: bool) -> Passing:
        """Judge files that processes have written. Args: are_dead: whether these processes have ended."""
        over = {job.job_id for job in jobs if are_dead or job.next_index is None}
        return Passing(over=frozenset(over & self._running))

    def not_written(self, jobs: list[Job]) -> Passing:
        """Judge files as they are, after another content was committed and could not be written."""
        other = {job.job_id for job in jobs if self._livelocks.get(job.job_id) != job.livelock}
        return Passing(over=frozenset(other & self._running))

    def gone(self, job_ids: frozenset[JobId]) -> Passing:
        """These jobs are no longer live."""
        return Passing(over=job_ids & self._running)

    def done(self, passing: Passing, jobs: Iterable[Job]) -> None:
        """The change is committed. Args: jobs: as they were judged."""
        self._running = (self._running | passing.begun) - passing.over
        for job in jobs:
            self._note(job)

    def forget(self, job_ids: frozenset[JobId]) -> None:
        """These jobs are no longer live, and that is committed."""
        self._running -= job_ids
        for job_id in job_ids:
            self._livelocks.pop(job_id, None)

    def _note(self, job: Job) -> None:
        if has_process(job) and job.livelock is not None:
            self._livelocks[job.job_id] = job.livelock
        else:
            self._livelocks.pop(job.job_id, None)
