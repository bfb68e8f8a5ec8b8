"""Which jobs wait, which may start, which can never start: the queue without its disk.

Theory. Every job that has not ended has an entry, and the entry a phase:

    ready     its next opcode waits for nothing but the word of the filters, room in its limits, and a slot
    blocked   its next opcode waits for other jobs to end; it has no process and no slot
    held      luxid is rewriting its file; nobody may start it meanwhile
    starting  a process is being made for it; takes a slot
    running   it has a process; takes a slot

The shell reports events, each by one method, and then asks `decide` what follows. An event touches
the jobs it is about, those that depend on them, and the scheduling classes that name their locks or limits,
never all: `pick` tells how. `touched` counts.

A job takes its places in limits, and its locks count against others, from when it begins to start until its process
is gone: both are left and entered where the phase changes, and nowhere else.

A dependency that can no longer be met dooms its job, a rule may reject it: `decide` hands it out, held, and the
shell ends it on disk and reports that end, which may doom others. So verdicts spread by events, and
nothing is believed that is not durable.

A new chain of rules is the one event that concerns all jobs. They are judged by it a slice at a time, as long as
`decide` says that it is unfinished; until then nobody starts, as the best may not have been judged.

Source: DESIGN section 6; chained-jobs, filters and predictive-queue designs; luxid.md 5, 6.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from common.dependencies import Dependency
from common.filters import ActionKind
from common.jobs import Job, JobState
from common.locks import JobId, Lock, LockMode
from common.objects.filter import FilterRule
from daemons.luxid.core.contest import Contest, Entry
from daemons.luxid.core.decisions import Decisions, Doomed, Phase, QueueCounts, Rejected
from daemons.luxid.core.filtering import Filtering, bucket_limits
from daemons.luxid.core.needs import next_needs
from daemons.luxid.core.waits import Waits
from daemons.luxid.core.weights import WeightRules

# jobs judged by a new chain for each `decide`
SLICE: Final = 50
_WITH_PROCESS: Final = (Phase.STARTING, Phase.RUNNING)


class JobQueue:
    """All jobs that have not ended, and the final states of those that others may depend on.

    Args:
        slots: jobs that may have a process at once.
        start_limit: jobs that may be `starting` at once.
        archived_state: the final state of a job that is no longer in the queue; None: there is none.
    """

    def __init__(
        self,
        slots: int,
        start_limit: int,
        archived_state: Callable[[JobId], JobState | None],
        weights: WeightRules | None = None,
    ) -> None:
        self.slots = slots
        self._start_limit = start_limit
        self._archived_state = archived_state
        self._entries: dict[JobId, Entry] = {}
        self._filtering = Filtering()
        self._waits = Waits(self._state_of)
        self.contest = Contest(weights or WeightRules())
        self._doomed: list[Doomed] = []
        self._rejected: list[Rejected] = []
        self._unblocked: list[JobId] = []
        # to be judged by the chain in force, last one first
        self._unjudged: list[JobId] = []
        # running jobs that are to stop before their next opcode; and since `decide` was last asked
        self._pausing: set[JobId] = set()
        self._pause_changes: dict[JobId, None] = {}
        # ended, not archived
        self._ended: dict[JobId, JobState] = {}
        self._count = dict.fromkeys(Phase, 0)
        self._running: set[JobId] = set()
        # starting or running
        self._with_process: set[JobId] = set()
        self._touched = 0

    # what happened

    def add(self, job: Job) -> None:
        """A job without a process: new, or found at start, or left by its process between two opcodes."""
        self._place(job, self._entry(job))

    def add_all(self, jobs: Iterable[Job]) -> None:
        """`add` for jobs that may depend on each other, in any order."""
        entries = [(job, self._entry(job)) for job in jobs]
        for job, entry in entries:
            self._place(job, entry)

    def adopt(self, job: Job) -> None:
        """A job found with a living process."""
        self._move(self._entry(job), Phase.RUNNING)

    def started(self, job_id: JobId) -> None:
        """The start of this job, which is `starting`, came to a process."""
        self._move(self._entries[job_id], Phase.RUNNING)

    def advanced(self, job: Job) -> None:
        """The file of a job has changed; if it has a process, perhaps another opcode is under way."""
        if job.job_id not in self._with_process:
            return
        entry = self._entries[job.job_id]
        entry.job = job
        needs = next_needs(job)
        if needs != entry.needs:
            entry.needs = needs
            self.contest.declare(job.job_id, needs)

    def locks_changed(self, job_id: JobId, held: Mapping[Lock, LockMode]) -> None:
        """The job with this process holds exactly these locks; nothing follows for one that has none."""
        self.contest.hold(job_id, held)

    def filters_changed(self, rules: Iterable[FilterRule]) -> None:
        """These are the rules.

        Raises: InvalidRequest: one of them is wrong; those in force stay.
        """
        if not self._filtering.replace(rules):
            return
        self._unjudged = [job_id for job_id in self._entries if job_id not in self._with_process]
        self._unjudged.reverse()
        for job_id in self._with_process:
            self._judge_running(self._entries[job_id])

    def hold(self, job_id: JobId) -> None:
        """Let nobody start the job until it is added again or ends; any phase allows it."""
        self._waits.forget(job_id)
        self._move(self._entries[job_id], Phase.HELD)

    def end(self, job_id: JobId, state: JobState) -> None:
        """The job is final, durably; those that depend on it are judged."""
        if job_id in self._entries:
            self.hold(job_id)
            del self._entries[job_id]
            self._count[Phase.HELD] -= 1
        self._ended[job_id] = state
        for dependent, doomed in self._waits.end(job_id, state).items():
            self._touched += 1
            if doomed is not None:
                self._doomed.append(doomed)
                self.hold(dependent)
            elif dependent not in self._waits:
                self._unblocked.append(dependent)
                self._move(self._entries[dependent], Phase.READY)

    def forget(self, job_id: JobId) -> None:
        """The job, which has ended, is archived."""
        self._ended.pop(job_id, None)

    # what follows

    def decide(self, now_s: float, *, may_start: bool = True) -> Decisions:
        """What is to be done now; asking again right away gives nothing, unless it was unfinished.

        Order of starts: priority, aged weight, age, job id.

        Args:
            now_s: seconds since the epoch.
        Cost: O(log n) for each job in the answer, and as `Picker.best`.
        """
        self._judge_slice()
        doomed, self._doomed = tuple(self._doomed), []
        rejected, self._rejected = tuple(self._rejected), []
        unblocked, self._unblocked = tuple(self._unblocked), []
        changed, self._pause_changes = self._pause_changes, {}
        return Decisions(
            start=tuple(self._picked(now_s)) if may_start and not self._unjudged else (),
            doomed=doomed,
            rejected=rejected,
            unblocked=unblocked,
            pause=tuple(job_id for job_id in changed if job_id in self._pausing),
            resume=tuple(job_id for job_id in changed if job_id not in self._pausing),
            is_unfinished=bool(self._unjudged),
        )

    def rejecting_rule(self, job: Job) -> FilterRule | None:
        """The rule by which this job, not yet in the queue, is to be refused."""
        ruling = self._filtering.judge(job)
        return ruling.rule if ruling.kind is ActionKind.REJECT else None

    # what is so

    @property
    def touched(self) -> int:
        """Entries and groups looked at so far; its growth is what an event costs."""
        return self._touched + self.contest.touched

    @property
    def judged(self) -> int:
        """How often a job was held against a chain of rules so far."""
        return self._filtering.judged

    def entry(self, job_id: JobId) -> Entry | None:
        return self._entries.get(job_id)

    def phase(self, job_id: JobId) -> Phase | None:
        """None: the job has ended, or there never was one."""
        entry = self._entries.get(job_id)
        return entry.phase if entry else None

    def is_blocked(self, job_id: JobId) -> bool:
        return self.phase(job_id) is Phase.BLOCKED

    def should_pause(self, job_id: JobId) -> bool:
        """Whether the running job is to stop before its next opcode."""
        return job_id in self._pausing

    def waits_for(self, job_id: JobId) -> tuple[JobId, ...]:
        """The jobs that a blocked one waits for."""
        return tuple(sorted(self._waits.of(job_id)))

    def dependencies(self, job_id: JobId) -> list[Dependency]:
        """What a blocked job waits for, and in which state."""
        return [dependency for _, unmet in sorted(self._waits.of(job_id).items()) for dependency in unmet]

    def awaited(self) -> dict[JobId, frozenset[JobId]]:
        """The jobs that blocked ones wait for, each with those that wait."""
        return self._waits.awaited()

    def running(self) -> frozenset[JobId]:
        return frozenset(self._running)

    def free_slots(self) -> int:
        return self.slots - len(self._with_process)

    def counts(self) -> QueueCounts:
        return QueueCounts(*(self._count[phase] for phase in Phase))

    # one job

    def _entry(self, job: Job) -> Entry:
        entry = self._entries.get(job.job_id)
        if entry is None:
            ruling = self._filtering.judge(job)
            version = self._filtering.version
            entry = Entry(job, Phase.HELD, ruling, version, bucket_limits(job), next_needs(job))
            self._entries[job.job_id] = entry
            self._count[Phase.HELD] += 1
        return entry

    def _place(self, job: Job, entry: Entry) -> None:
        self._touched += 1
        self.hold(job.job_id)
        self._renew(job, entry)
        if (doomed := self._waits.begin(job)) is not None:
            self._doomed.append(doomed)
        elif not self._is_rejected(entry):
            self._move(entry, Phase.BLOCKED if job.job_id in self._waits else Phase.READY)

    def _renew(self, job: Job, entry: Entry) -> None:
        """Take note of the job as it is now; what follows from its opcodes is worked out again if they changed."""
        if job is entry.job and entry.version == self._filtering.version:
            return
        before, entry.job = entry.job, job
        entry.needs = next_needs(job)
        if entry.version != self._filtering.version or _inputs(job) != _inputs(before):
            entry.buckets = bucket_limits(job)
            entry.ruling, entry.version = self._filtering.judge(job), self._filtering.version

    def _is_rejected(self, entry: Entry) -> bool:
        rule = entry.ruling.rule
        if rule is None or entry.ruling.kind is not ActionKind.REJECT:
            return False
        self._rejected.append(Rejected(entry.job.job_id, rule))
        return True

    def _move(self, entry: Entry, phase: Phase) -> None:
        """The one place where a phase changes; what a phase brings with it is left and entered here."""
        before, job_id = entry.phase, entry.job.job_id
        if before is Phase.READY:
            self.contest.withdraw(job_id)
        if before in _WITH_PROCESS and phase not in _WITH_PROCESS:
            self.contest.leave(entry)
            self._with_process.discard(job_id)
        self._count[before] -= 1
        entry.phase = phase
        self._count[phase] += 1
        if phase is Phase.READY:
            self.contest.offer(entry)
        if phase in _WITH_PROCESS and before not in _WITH_PROCESS:
            self.contest.enter(entry)
            self._with_process.add(job_id)
        self._note_running(entry)

    # jobs with a process

    def _note_running(self, entry: Entry) -> None:
        job_id, is_running = entry.job.job_id, entry.phase is Phase.RUNNING
        (self._running.add if is_running else self._running.discard)(job_id)
        should_pause = is_running and entry.ruling.is_pause
        if should_pause != (job_id in self._pausing):
            (self._pausing.add if should_pause else self._pausing.discard)(job_id)
            self._pause_changes[job_id] = None

    def _judge_running(self, entry: Entry) -> None:
        entry.version = self._filtering.version
        self.contest.rule(entry, self._filtering.judge(entry.job))
        self._note_running(entry)

    # choices

    def _picked(self, now_s: float) -> Iterator[JobId]:
        while self._free_places() > 0 and (job_id := self.contest.best(now_s)) is not None:
            self._move(self._entries[job_id], Phase.STARTING)
            yield job_id

    def _free_places(self) -> int:
        return min(self._start_limit - self._count[Phase.STARTING], self.free_slots())

    def _judge_slice(self) -> None:
        for _ in range(min(SLICE, len(self._unjudged))):
            entry = self._entries.get(self._unjudged.pop())
            if entry is not None and entry.version != self._filtering.version:
                self._rejudge(entry)

    def _rejudge(self, entry: Entry) -> None:
        self._touched += 1
        before, entry.ruling, entry.version = entry.ruling, self._filtering.judge(entry.job), self._filtering.version
        if entry.phase not in (Phase.READY, Phase.BLOCKED):
            return
        if self._is_rejected(entry):
            self.hold(entry.job.job_id)
        elif entry.phase is Phase.READY and (before.kind, before.limits) != (entry.ruling.kind, entry.ruling.limits):
            self.contest.withdraw(entry.job.job_id)
            self.contest.offer(entry)

    def _state_of(self, job_id: JobId) -> JobState | None:
        if job_id in self._entries:
            return JobState.QUEUED
        return self._ended.get(job_id) or self._archived_state(job_id)


def _inputs(job: Job) -> list[Mapping[str, object]]:
    return [op.input for op in job.ops]
