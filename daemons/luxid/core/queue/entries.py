"""The jobs that have not ended, each in its phase, and what a phase brings with it.

Theory. Every job that has not ended has an entry, and the entry a phase:

    ready     its next opcode waits for nothing but the filters, room in its limits, and a slot
    blocked   its next opcode waits for other jobs to end; it has no process and no slot
    deferred  it is to begin later, at an instant or at a word; whether it waits for other jobs is followed meanwhile
    held      luxid is rewriting its file; it may not start meanwhile
    starting  a process is being made for it; takes a slot
    running   it has a process; takes a slot
    orphaned  its process is gone, but perhaps not its command on a node, which another process is to take up; takes a
              slot, and starts whatever filters, limits and slots say: it runs already

`STEPS` says which phase may follow on which; a job comes and goes as held. A ready job is one of `ReadyJobs`. A job
counts against its limits, and its locks against others, from when it begins to start until its process is gone;
against the limit of its batch, and with its units, until it ends, or becomes ready, blocked or deferred; for its user
as long as it has an entry, as running while it takes a slot, and as queued otherwise. All this is
entered and left where the phase changes, and nowhere else; only of units that an ended job keeps, as processes of it
live, the shell tells the end (`Units.give`).

Source: DESIGN section 6.
"""

import heapq
from collections.abc import Iterator, Mapping
from typing import Final

import attrs

from common.ids import JobId
from common.queue.jobs import Job
from daemons.luxid.core.choice.limits import UserJobs
from daemons.luxid.core.choice.readyjobs import ReadyJobs, RunningJobs
from daemons.luxid.core.queue.entry import AT_REST, Entry, Phase, QueueCounts
from daemons.luxid.core.why.history import WaitHistory

# The deferred jobs, and which of them begins next.
#
# Theory. A heap has the instants at which jobs begin. A job that is deferred no longer, or to another instant, leaves
# its old place in the heap, which is passed over when it comes up; when most places are such, the heap is made anew. So
# each change costs O(log n), however many jobs are deferred. Instants are those of the wall clock, as users name them:
# a job begins as soon as the clock shows its instant, also if the clock was set, and does not come back if it is set
# back.
#
# Source: DESIGN section 16.


# places passed over that are kept in any case
_STALE_KEPT: Final = 64


class Deferrals:
    """The deferred jobs."""

    def __init__(self) -> None:
        # None: it begins at a word
        self._until: dict[JobId, float | None] = {}
        self._heap: list[tuple[float, JobId]] = []
        # jobs with an instant
        self._timed = 0

    def __len__(self) -> int:
        return len(self._until)

    def enter(self, job_id: JobId, until: float | None) -> None:
        """Defer a job, which is not here. Args: until: seconds since the epoch; None: nobody knows."""
        self._until[job_id] = until
        if until is not None:
            self._timed += 1
            heapq.heappush(self._heap, (until, job_id))

    def leave(self, job_id: JobId) -> None:
        """Let go of a job that is deferred no longer."""
        if self._until.pop(job_id) is not None:
            self._timed -= 1
        if len(self._heap) > 2 * self._timed + _STALE_KEPT:
            self._heap = [(until, job_id) for job_id, until in self._until.items() if until is not None]
            heapq.heapify(self._heap)

    def first_at(self) -> float | None:
        """The first instant; None: all wait for a word."""
        while self._heap and not self._is_valid(self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def due(self, now_s: float) -> tuple[JobId, ...]:
        """The jobs whose instants have come, in their order; they are to leave."""
        found: dict[JobId, None] = {}
        while (first_at := self.first_at()) is not None and first_at <= now_s:
            found[heapq.heappop(self._heap)[1]] = None
        return tuple(found)

    def _is_valid(self, place: tuple[float, JobId]) -> bool:
        return self._until.get(place[1]) == place[0]


# Which running jobs are to stop before their next opcode.
#
# A job is paused by the ruling of the filters, or because its batch has stopped before it began; and only while it
# runs: one that stops or ends is asked for nothing any more. Changes are kept until the shell takes them to the jobs;
# of a change that was undone meanwhile only the result is told.
#
# Source: filters design; DESIGN section 11, "PAUSE".


@attrs.frozen
class PauseChanges:
    """Running jobs that are to stop before their next opcode, and those that need not any more."""

    pause: tuple[JobId, ...] = ()
    resume: tuple[JobId, ...] = ()


class Pausing:
    """The running jobs under a rule with PAUSE, or of a batch that has stopped."""

    def __init__(self) -> None:
        self._pausing: set[JobId] = set()
        # jobs that changed since changes were last taken, in order
        self._changed: dict[JobId, None] = {}

    def __contains__(self, job_id: JobId) -> bool:
        return job_id in self._pausing

    def stop(self, entry: Entry) -> None:
        """Pause the job whenever it runs, as its batch has stopped before it began."""
        entry.is_stopped = True
        self.note(entry)

    def let_go(self, entry: Entry) -> None:
        """Take note that the job, which is held, is back in the queue."""
        entry.is_stopped = False

    def note(self, entry: Entry) -> None:
        """Take note that the phase of the job, or the ruling on it, may have changed."""
        job_id = entry.job.job_id
        should_pause = entry.phase is Phase.RUNNING and (entry.ruling.is_pause or entry.is_stopped)
        if should_pause != (job_id in self._pausing):
            (self._pausing.add if should_pause else self._pausing.discard)(job_id)
            self._changed[job_id] = None

    def take_changes(self) -> PauseChanges:
        """Return what has changed since the last call."""
        if not self._changed:
            return PauseChanges()
        changed, self._changed = self._changed, {}
        pause = tuple(job_id for job_id in changed if job_id in self._pausing)
        return PauseChanges(pause, tuple(job_id for job_id in changed if job_id not in self._pausing))


# phase -> those that may follow, and by what
STEPS: Final[Mapping[Phase, Mapping[Phase, str]]] = {
    Phase.READY: {
        Phase.STARTING: "it is its turn",
        Phase.HELD: "its file is rewritten, or a rule rejects it",
    },
    Phase.BLOCKED: {
        Phase.READY: "the last job it waited for has ended",
        Phase.HELD: "its file is rewritten, it is doomed, or a rule rejects it",
    },
    Phase.DEFERRED: {
        Phase.READY: "its instant has come, it waits for no job",
        Phase.BLOCKED: "its instant has come, it waits for other jobs",
        Phase.HELD: "its file is rewritten, it is doomed, or a rule rejects it",
    },
    Phase.HELD: {
        Phase.READY: "its file is written, it waits for no job",
        Phase.BLOCKED: "its file is written, it waits for other jobs",
        Phase.DEFERRED: "its file is written, it is to begin later",
        Phase.RUNNING: "a process of an earlier luxid lives",
        Phase.ORPHANED: "its file tells of a command on a node",
    },
    Phase.STARTING: {
        Phase.RUNNING: "its file names the process",
        Phase.HELD: "the start came to nothing",
        Phase.ORPHANED: "the start came to nothing, its command is there",
    },
    Phase.RUNNING: {
        Phase.HELD: "its process is gone",
        Phase.ORPHANED: "its process is gone, its command is not",
    },
    Phase.ORPHANED: {
        Phase.STARTING: "its pause is over",
        Phase.HELD: "it is ended, or its file tells of no command",
    },
}
_WITH_PROCESS: Final = (Phase.STARTING, Phase.RUNNING, Phase.ORPHANED)
# a held job keeps its place in its batch, if it had one
_WITHOUT_PLACE: Final = AT_REST


class Entries:
    """The entries by job; keeps ready, running and pausing jobs and the history in step with their phases."""

    def __init__(self, ready: ReadyJobs, running_jobs: RunningJobs, history: WaitHistory, users: UserJobs) -> None:
        self._ready = ready
        self._users = users
        self._running_jobs = running_jobs
        self.history = history
        self.pausing = Pausing()
        self.deferrals = Deferrals()
        self._entries: dict[JobId, Entry] = {}
        self._count = dict.fromkeys(Phase, 0)
        # those without a process that are not shown as queued; all others without one are many, and are
        self._held: set[JobId] = set()
        self._blocked: set[JobId] = set()
        self._sets: Final = {Phase.HELD: self._held, Phase.BLOCKED: self._blocked}
        self._running: set[JobId] = set()
        # starting, running, or orphaned
        self._with_process: set[JobId] = set()

    def __contains__(self, job_id: JobId) -> bool:
        return job_id in self._entries

    def __getitem__(self, job_id: JobId) -> Entry:
        return self._entries[job_id]

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def get(self, job_id: JobId) -> Entry | None:
        return self._entries.get(job_id)

    def add(self, entry: Entry) -> None:
        """A job that has no entry; it is held."""
        self._entries[entry.job.job_id] = entry
        self._users.queue(entry.user, 1)
        self._held.add(entry.job.job_id)
        self._count[Phase.HELD] += 1

    def drop(self, job_id: JobId, *, lives_on: bool = False) -> None:
        """The job, which is held, has ended.

        Args: lives_on: processes that it started may live under its locks: it keeps its units.
        Raises: ValueError: it is not held; nothing has changed.
        """
        entry = self._entries[job_id]
        if entry.phase is not Phase.HELD:
            raise ValueError(f"job {job_id} is {entry.phase.value} and cannot end before it is held")
        self.history.leave(self._entries.pop(job_id))
        self._users.queue(entry.user, -1)
        if job_id in self._running_jobs.kept:
            self._running_jobs.release(job_id, lives_on=lives_on)
        _leave(self._held, job_id)
        self._count[Phase.HELD] -= 1

    def move(self, entry: Entry, phase: Phase) -> None:
        """The one place where a phase changes; what a phase brings with it is left and entered here.

        Raises: ValueError: no such step; nothing has changed.
        """
        before, job_id = entry.phase, entry.job.job_id
        if phase not in STEPS[before]:
            raise ValueError(f"job {job_id} is {before.value} and cannot become {phase.value}")
        self.history.note(entry)
        if before is Phase.READY:
            self._ready.remove(job_id)
            entry.filter_class.ready -= 1
        if before is Phase.DEFERRED:
            self.deferrals.leave(job_id)
        if before in _WITH_PROCESS and phase not in _WITH_PROCESS:
            self._running_jobs.remove(entry)
            self._with_process.discard(job_id)
            self._users.run(entry.user, -1)
            self._users.queue(entry.user, 1)
        self._count[before] -= 1
        entry.phase = phase
        self._count[phase] += 1
        if job_id in self._running_jobs.kept and phase in _WITHOUT_PLACE:
            self._running_jobs.release(job_id)
        if phase is Phase.READY:
            self._ready.add(entry)
            entry.filter_class.ready += 1
        if phase is Phase.DEFERRED:
            self.deferrals.enter(job_id, entry.deferral.until if entry.deferral is not None else None)
        if phase in _WITH_PROCESS and before not in _WITH_PROCESS:
            self._running_jobs.add(entry, is_chosen=before is Phase.READY)
            self._with_process.add(job_id)
            self._users.queue(entry.user, -1)
            self._users.run(entry.user, 1)
        if (left := self._sets.get(before)) is not None:
            _leave(left, job_id)
        if (entered := self._sets.get(phase)) is not None:
            entered.add(job_id)
        if Phase.RUNNING in (before, phase):
            (self._running.add if phase is Phase.RUNNING else self._running.discard)(job_id)
            self.pausing.note(entry)

    def has_process(self, job_id: JobId) -> bool:
        """Whether the job takes a slot: it has a process, or is to get one without waiting for its turn."""
        return job_id in self._with_process

    def with_process(self) -> list[Entry]:
        """The jobs that take a slot."""
        return [self._entries[job_id] for job_id in self._with_process]

    def running(self) -> frozenset[JobId]:
        return frozenset(self._running)

    def busy(self) -> frozenset[JobId]:
        """The jobs that have a process, or are being started."""
        phases = (Phase.STARTING, Phase.RUNNING)
        return frozenset(job_id for job_id in self._with_process if self._entries[job_id].phase in phases)

    def perhaps_not_queued(self, *, waiting: bool) -> set[JobId]:
        """All jobs that may be shown in a state other than *queued*; a ready or deferred job is never.

        Args: waiting: whether those are among them that wait for other jobs, and are shown as *waiting*.
        Cost: linear in the returned jobs.
        """
        return self._with_process | self._held | (self._blocked if waiting else set())

    def oldest_waiting(self) -> Job | None:
        """The first job that has no process and is not to begin later, in the order in which they came.

        Cost: linear in jobs with a process, and in deferred ones.
        """
        return next((entry.job for entry in self.without_process()), None)

    def without_process(self) -> Iterator[Entry]:
        """Yield the jobs that have no process and are not to begin later, in the order in which they came."""
        passed = (*_WITH_PROCESS, Phase.DEFERRED)
        return (entry for entry in self if entry.phase not in passed)

    def taken_slots(self) -> int:
        return len(self._with_process)

    def count(self, phase: Phase) -> int:
        return self._count[phase]

    def counts(self) -> QueueCounts:
        return QueueCounts(*(self._count[phase] for phase in Phase))


def _leave(members: set[JobId], job_id: JobId) -> None:
    members.discard(job_id)
    if not members:
        # an empty set keeps the room of all that were ever in it: of a long queue at luxid's start
        members.clear()
