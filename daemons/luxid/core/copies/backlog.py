"""What one node lacks of the queue.

Theory. The backlog names files, never contents: what is sent is what the file holds when its turn comes. So the last
change wins, changes of one file that are not sent yet are one entry, and a long absence costs one small entry a job.
A job is one entry, wherever its file lies: sent is its content under the name of a live job, and, if the master has
it in the archive, then its move there. That works whatever the node has, and again after a lost reply; a move
alone is sent to a node that has the content.

Changes are numbered in the order in which they happened. A batch bears the number of the last change that it can hold;
what changes while it is under way has a higher number, and stays in the backlog when the batch has arrived.

Files of ours beside the jobs (`StateName`) are entries too, and a removed file is an entry that is found missing when
its turn comes. A removal goes to the end: the note of a batch arrives before the batch's jobs and leaves after them.

A node of which nothing is known is compared file by file: it gets what differs, and loses what the master has not.
Ganeti's node daemon cannot remove a single job, and takes no file of ours. There, a node that may have a job that the
master has no longer is purged, and gets everything anew; one that joins or returns is purged first, since it may have
jobs that nobody remembers.

Source: noded.md 6, 8 and trap 5; DESIGN sections 12 and 13.
"""

import enum
from collections.abc import Iterable, Mapping
from typing import Final, NewType, Self

import attrs

from common.ids import JobId

# name of a file of ours below the folder of data, as in `protocol.noded.statefiles`
StateName = NewType("StateName", str)


class QueueFact(enum.Enum):
    """What a queue has beside its jobs, and beside its version, which each node makes by itself."""

    SERIAL = "serial"
    DRAIN = "drain"
    WATCHER_PAUSE = "watcher.pause"


# what may be lacking, each a file or two of which one is there
Key = JobId | QueueFact | StateName


@attrs.frozen
class _Lack:
    # numbers of the first and the last change that the node lacks
    first: int
    last: int
    # whether its content is lacking; false: only the move to the archive is
    needs_content: bool


@attrs.frozen
class SendBatch:
    """What is sent next: files of ours, then facts, the serial before all jobs."""

    # the last change that it can hold
    number: int
    facts: tuple[QueueFact, ...] = ()
    # job -> whether its content is sent
    jobs: Mapping[JobId, bool] = attrs.field(factory=dict)
    # each is written, or removed if the master has it no longer; removals come last
    states: tuple[StateName, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.facts and not self.jobs and not self.states


class Backlog:
    """The backlog of one node.

    Args: is_new: the node joins or returns: it may have jobs that nobody remembers.
    """

    def __init__(self, *, is_new: bool) -> None:
        self._lacks: dict[Key, _Lack] = {}
        # whether the node takes files of ours and can remove single files; Ganeti's does not
        self._takes_ours = True
        # whether the node may have jobs that nobody remembers
        self._has_strangers = is_new
        # whether the node must lose all it has
        self.needs_purge = False
        # whether it must be found out which files differ
        self.needs_comparison = True
        # whether every job that the node has is known
        self._is_known = False
        # the node has no job with a higher id, if it is known
        self._highest = 0
        self._number = 0

    def __len__(self) -> int:
        return len(self._lacks)

    @property
    def is_empty(self) -> bool:
        """Whether the node has everything."""
        return not self._lacks and not self.needs_purge and not self.needs_comparison

    @property
    def keys(self) -> Iterable[Key]:
        """What the node lacks, as far as that is known."""
        return self._lacks.keys()

    @property
    def is_compared(self) -> bool:
        """Whether all that the node lacks is known."""
        return not self.needs_purge and not self.needs_comparison

    def lacks(self, keys: Iterable[Key], number: int) -> bool:
        """Whether the node lacks a change of one of these up to this number."""
        return any((lack := self._lacks.get(key)) is not None and lack.first <= number for key in keys)

    @property
    def takes_ours(self) -> bool:
        """Whether calls of ours are sent to the node."""
        return self._takes_ours

    def is_of_ganeti(self) -> None:
        """The node does not know calls of ours."""
        self._takes_ours = False
        self._lacks = {key: lack for key, lack in self._lacks.items() if not isinstance(key, str)}
        self.needs_purge = self.needs_purge or self._has_strangers

    def is_of_ours(self) -> None:
        """The node knows calls of ours."""
        if not self._takes_ours:
            self._takes_ours = self.needs_comparison = True
            # the comparison finds what there is to lose
            self.needs_purge = False

    def changed(self, key: Key, number: int) -> None:
        """A file has another content; one of ours may also be gone."""
        self._note(key, number, needs_content=True)

    def archived(self, job_id: JobId, number: int) -> None:
        """The file of a job lies in the archive now."""
        self._note(job_id, number, needs_content=False)

    def removed(self, job_id: JobId, number: int) -> None:
        """A job is gone from the master."""
        if self._takes_ours:
            self._note_removal(job_id, number)
            return
        self._number = max(self._number, number)
        self._lacks.pop(job_id, None)
        if not self._is_known or job_id <= self._highest:
            self.needs_purge = True

    def pruned(self, job_id: JobId, number: int) -> None:
        """An archived job is gone from the master. A node of Ganeti keeps it: all else it has is worth more."""
        if self._takes_ours:
            self._note_removal(job_id, number)
        else:
            self._number = max(self._number, number)
            self._lacks.pop(job_id, None)

    def discarded(self, name: StateName, number: int) -> None:
        """A file of ours is gone from the master."""
        self._note_removal(name, number)

    def differs(self, key: Key, *, needs_content: bool = True) -> None:
        """A comparison has found that the node has something else."""
        self._note(key, self._number, needs_content=needs_content)

    def begin_comparison(self) -> None:
        """The files of master and node are about to be listed."""
        for fact in QueueFact:
            self.changed(fact, self._number)

    def seen(self, job_ids: Iterable[JobId]) -> None:
        """The node has these jobs, or will have them."""
        self._highest = max([self._highest, *job_ids])

    def compared(self) -> None:
        """All files of the master were compared with the node's."""
        self.needs_comparison = False
        self._is_known = True
        if self._takes_ours:
            self._has_strangers = False

    def purged(self) -> None:
        """The node has lost everything."""
        self.needs_purge = False
        self.needs_comparison = True
        self._is_known = True
        self._has_strangers = False
        self._highest = 0
        for key, lack in self._lacks.items():
            self._lacks[key] = attrs.evolve(lack, needs_content=True)

    def take(self, most: int) -> SendBatch:
        """The batch to send next; it stays in the backlog until its parts have arrived. Args: most: files."""
        facts = [fact for fact in QueueFact if fact in self._lacks]
        jobs: dict[JobId, bool] = {}
        states: list[StateName] = []
        for key, lack in self._lacks.items():
            if len(jobs) + len(states) >= most:
                break
            if isinstance(key, str):
                states.append(key)
            elif not isinstance(key, QueueFact):
                jobs[key] = lack.needs_content
        return SendBatch(self._number, tuple(facts), jobs, tuple(states))

    def arrived(self, batch: SendBatch, key: Key) -> None:
        """The node has what the batch sent of this."""
        lack = self._lacks.get(key)
        if lack is None:
            return
        if lack.last <= batch.number:
            del self._lacks[key]
        else:
            self._lacks[key] = attrs.evolve(lack, first=max(lack.first, batch.number + 1))

    def gone(self, batch: SendBatch, job_id: JobId) -> None:
        """The master has no file of a job that was to be sent to a node of Ganeti."""
        lack = self._lacks.get(job_id)
        if lack is not None and lack.last <= batch.number:
            self.removed(job_id, batch.number)

    def not_moved(self, job_ids: Iterable[JobId]) -> None:
        """The node could not move these to the archive: it may lack their contents."""
        for job_id in job_ids:
            if (lack := self._lacks.get(job_id)) is not None:
                self._lacks[job_id] = attrs.evolve(lack, needs_content=True)

    def postpone(self, keys: Iterable[Key]) -> None:
        """Send others first: these cannot be sent now."""
        for key in keys:
            if (lack := self._lacks.pop(key, None)) is not None:
                self._lacks[key] = lack

    def doubt(self) -> None:
        """A reply was lost: the node may carry out a call late, even after later ones."""
        self.needs_comparison = True

    def forget(self) -> None:
        """Keep nothing of a node that is away for long; it is compared when it is back."""
        self._lacks.clear()
        self.needs_comparison = True

    def _note_removal(self, key: Key, number: int) -> None:
        had = self._lacks.pop(key, None)
        self._note(key, number, needs_content=True)
        if had is not None and key in self._lacks:
            self._lacks[key] = _Lack(had.first, number, needs_content=True)

    def _note(self, key: Key, number: int, *, needs_content: bool) -> None:
        self._number = max(self._number, number)
        if isinstance(key, str) and not self._takes_ours:
            return
        had = self._lacks.get(key)
        first = number if had is None else had.first
        self._lacks[key] = _Lack(first, number, needs_content or (had is not None and had.needs_content))


# What a comparison of the master's queue with a node's has shown.


# names of files that are kept
MOST_NAMES: Final = 5


@attrs.frozen
class CopyLag:
    # seconds since 1970
    at: float
    # number of files that differ
    count: int = 0
    # the first of them
    names: tuple[str, ...] = ()

    def with_more(self, keys: Iterable[Key]) -> Self:
        """These differ as well."""
        names = [name_of(key) for key in keys]
        return attrs.evolve(
            self, count=self.count + len(names), names=(*self.names, *names[: MOST_NAMES - len(self.names)])
        )

    @property
    def facts(self) -> Mapping[str, object]:
        """For a line of the log."""
        return {"differ": self.count} | ({"files": ",".join(self.names)} if self.names else {})


def name_of(key: Key) -> str:
    """The name of a file for users."""
    if isinstance(key, QueueFact):
        return key.value
    return key if isinstance(key, str) else f"job-{key}"


# Which jobs a node has otherwise than the master.


@attrs.frozen
class JobDigest:
    """The file of a job on the master."""

    digest: str
    is_archived: bool


def differing(
    masters: Mapping[JobId, JobDigest], live: Mapping[JobId, str], archived: Mapping[JobId, str]
) -> Mapping[JobId, bool]:
    """The jobs that the node must be sent, each with whether it lacks the content too, or only the move to the archive.

    Args:
        live, archived: the digests of the node's files of these jobs.
    """
    found: dict[JobId, bool] = {}
    for job_id, ours in masters.items():
        if not ours.is_archived:
            if live.get(job_id) != ours.digest:
                found[job_id] = True
        elif job_id in live:
            # a move over an archived file replaces it
            found[job_id] = live[job_id] != ours.digest
        elif archived.get(job_id) != ours.digest:
            found[job_id] = True
    return found
