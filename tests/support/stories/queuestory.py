"""A queue without disk and processes, driven by commands: what `tests/transcripts/queue*.txt` are made of.

A story does what luxid's shell does: it keeps the jobs as their files say, reports each event to the core, and asks at
once what follows. What the core decides to end is ended when the story says that it is written.

    submit ID [priority=N] [age=S] [begin=S] [after=ID[:STATE,...]] [reason=TEXT] [LOCK=MODE ...] [OP_ID]
           [instance=NAME] [/ the next opcode]
    started ID              its process is there, and its first opcode begins
    next ID                 the opcode under way succeeds, and the next one begins
    pauses ID               the opcode under way succeeds, and the process ends as it was asked to
    ends ID STATE           the job ends
    dies ID [cancel|kill]   its process is gone, perhaps after that was asked of it
    cancel ID               a user cancels a job that has no process
    priority ID N           a user changes the priority of a job that has no process
    hold ID   release ID    a user holds a job that has no process, and lets it go
    again ID S              the command under way fails, and is to run again in S seconds
    locks ID [LOCK=MODE ...]    what a running job holds now
    rules [NAME PRIORITY ACTION [opcode=OP_ID] [reason=TEXT] [newer=ID]; ...]
    written                 what was decided to end has ended in the files
    found ID STATE|none     what is known now of a job that is not in the queue
    wait S   suspend   resume   restart   why ID
"""

from collections.abc import Callable, Iterator
from typing import Final

import attrs

from common.errors import Unavailable
from common.ids import JobId
from common.locks import LockMode, parse_lock
from common.objects.filter import FilterRule
from common.queue.explanation import HeldByRule, InLine, LimitFull
from common.queue.jobs import Job, JobOp, JobState, OpEvent, end_job, set_priority
from common.queue.terms import Hold, JobTerms, deferral_of, terms_of, with_terms
from daemons.luxid.core.choice.weights import WeightRules
from daemons.luxid.core.queue.entry import Decisions, Phase
from daemons.luxid.core.queue.jobqueue import JobQueue
from daemons.luxid.core.queue.recovery import (
    Fate,
    RecoveryRequest,
    after_death,
    cancel_dependent,
    cancel_queued,
    cancel_rejected,
    fail_dependent,
    judge_fate,
)
from daemons.luxid.core.why.explain import explain
from tests.support.stories.queuewords import begun, listed, opcode, pairs, reason_text, rule, succeeded, tried

_WEIGHTS: Final = WeightRules(base=1.0, tick_s=10.0, ticks=10)
_ENDS: Final = {"success": OpEvent.SUCCEEDED, "error": OpEvent.FAILED, "canceled": OpEvent.CANCELED}


@attrs.define
class QueueStory:
    slots: int = 3
    now_s: int = 1_800_000_000
    may_start: bool = True
    # the jobs as their files say, with those that have ended
    jobs: dict[JobId, Job] = attrs.field(factory=dict)
    rules: list[FilterRule] = attrs.field(factory=list)
    alive: set[JobId] = attrs.field(factory=set)
    # ended jobs that are not written yet
    unwritten: list[Job] = attrs.field(factory=list)
    queue: JobQueue = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.queue = self._new_queue()

    def tell(self, command: str) -> str:
        """Carry out one command; what a transcript says under it."""
        verb, *words = command.split()
        if verb == "why":
            return "\n".join(self._why(JobId(int(words[0]))))
        if verb in _OF_THE_QUEUE:
            said = _OF_THE_QUEUE[verb](self, words)
        else:
            said = _OF_A_JOB[verb](self, JobId(int(words[0])), words[1:])
        decided = self._decided(self.queue.decide(self.now_s, may_start=self.may_start))
        return "\n".join([*filter(None, [said]), *decided, *self._state()]) or "(nothing)"

    # what happens to one job

    def submit(self, job_id: JobId, words: list[str]) -> str | None:
        settings = dict(word.split("=", 1) for word in words if "=" in word and "/" not in word)
        ops = [opcode(text.split()) for text in " ".join(["", *words]).split(" / ")]
        priority, age_s = int(settings.get("priority", "0")), int(settings.get("age", "0"))
        job = Job(job_id, tuple(JobOp(op, priority=priority) for op in ops), received_at=(self.now_s - age_s, 0))
        if "begin" in settings:
            job = with_terms(job, JobTerms(begin_at=self.now_s + int(settings["begin"])), 1)
        if (refusing := self.queue.rejecting_rule(job)) is not None:
            return f"refused by rule {refusing.uuid}"
        self._add(job)
        return None

    def started(self, job_id: JobId, _: list[str]) -> None:
        self.alive.add(job_id)
        self.queue.started(job_id)
        self._advance(begun(self.jobs[job_id]))

    def next(self, job_id: JobId, _: list[str]) -> None:
        self._advance(begun(succeeded(self.jobs[job_id])))

    def pauses(self, job_id: JobId, _: list[str]) -> None:
        self._advance(succeeded(self.jobs[job_id]))
        self.dies(job_id, [])

    def ends(self, job_id: JobId, words: list[str]) -> None:
        self._end(end_job(self.jobs[job_id], _ENDS[words[0]], self._now, [None]))

    def dies(self, job_id: JobId, words: list[str]) -> None:
        self.alive.discard(job_id)
        ended = after_death(self.jobs[job_id], RecoveryRequest(words[0]) if words else None, self._now, 1)
        if ended is not None:
            self._end(ended)
        else:
            self._add(self.jobs[job_id])

    def cancel(self, job_id: JobId, _: list[str]) -> None:
        self._end(cancel_queued(self.jobs[job_id], self._now))

    def priority(self, job_id: JobId, words: list[str]) -> None:
        self._add(set_priority(self.jobs[job_id], int(words[0])))

    def hold(self, job_id: JobId, _: list[str]) -> None:
        job = self.jobs[job_id]
        self._add(with_terms(job, attrs.evolve(terms_of(job), hold=Hold("alice", self.now_s, "")), 1))

    def release(self, job_id: JobId, _: list[str]) -> None:
        job = self.jobs[job_id]
        self._add(with_terms(job, attrs.evolve(terms_of(job), hold=None), 1))

    def again(self, job_id: JobId, words: list[str]) -> None:
        self.alive.discard(job_id)
        self._add(tried(self.jobs[job_id], self.now_s, self.now_s + int(words[0])))

    def locks(self, job_id: JobId, words: list[str]) -> None:
        self.queue.set_locks(job_id, {parse_lock(lock): LockMode(mode) for lock, mode in pairs(words)})

    def found(self, job_id: JobId, words: list[str]) -> None:
        self.queue.found(job_id, None if words[0] == "none" else JobState(words[0]))

    # what happens to the queue

    def change_rules(self, words: list[str]) -> None:
        self.rules = [rule(text.split()) for text in " ".join(words).split("; ") if text]
        self.queue.install_rules(self.rules)

    def written(self, _: list[str]) -> None:
        unwritten, self.unwritten = self.unwritten, []
        for job in unwritten:
            self._end(job)

    def wait(self, words: list[str]) -> None:
        self.now_s += int(words[0])

    def suspend(self, _: list[str]) -> None:
        self.may_start = False

    def resume(self, _: list[str]) -> None:
        self.may_start = True

    def restart(self, _: list[str]) -> None:
        """All that is left is what the files say and which processes live."""
        self.queue, self.unwritten = self._new_queue(), []
        queued = []
        for job in self.jobs.values():
            fate = judge_fate(job, is_alive=job.job_id in self.alive)
            if fate is Fate.ENDED:
                self.queue.end(job.job_id, job.state)
            elif fate is Fate.ALIVE:
                self.queue.adopt(job)
            else:
                assert fate is Fate.CONTINUE, "a death is told before"
                queued.append(job)
        self.queue.install_rules(self.rules)
        self.queue.add_all(queued)

    # what is shown

    def _decided(self, decisions: Decisions) -> Iterator[str]:
        for doomed in decisions.doomed:
            job, reason = self.jobs[doomed.job_id], doomed.reason
            yield f"{'cancels' if doomed.is_canceled else 'fails'} {job.job_id}: {reason}"
            canceled = doomed.is_canceled
            self.unwritten.append(
                cancel_dependent(job, reason, self._now, 1) if canceled else fail_dependent(job, reason, self._now)
            )
        for rejected in decisions.rejected:
            yield f"cancels {rejected.job_id}: rejected by rule {rejected.rule.uuid}"
            self.unwritten.append(cancel_rejected(self.jobs[rejected.job_id], rejected.rule.uuid, self._now, 1))
        for name, job_ids in (
            ("unblocks", decisions.unblocked),
            ("begins", decisions.begun),
            ("asks for the state of", decisions.unknown),
            ("pauses", decisions.pause),
            ("resumes", decisions.resume),
            ("starts", decisions.start),
        ):
            if job_ids:
                yield f"{name} {listed(job_ids)}"

    def _state(self) -> Iterator[str]:
        """By phase; the ready ones in the order of starts, and in brackets those that may not start."""
        of_phase = {
            phase: [job_id for job_id in sorted(self.jobs) if self.queue.phase(job_id) is phase] for phase in Phase
        }
        for phase in (Phase.RUNNING, Phase.STARTING, Phase.HELD):
            if of_phase[phase]:
                yield f"{phase.value} {listed(of_phase[phase])}"
        if of_phase[Phase.READY]:
            standings = sorted(map(self._standing, of_phase[Phase.READY]))
            yield "ready " + " ".join(f"({job_id})" if is_barred else str(job_id) for is_barred, _, job_id in standings)
        for job_id in of_phase[Phase.DEFERRED]:
            yield f"deferred {job_id} {self._deferral(job_id)}"
        for job_id in of_phase[Phase.BLOCKED]:
            yield f"blocked {job_id} by {listed(self.queue.waits_for(job_id))}"
        for state in (JobState.SUCCESS, JobState.ERROR, JobState.CANCELED):
            if ended := [job_id for job_id, job in sorted(self.jobs.items()) if job.state is state]:
                yield f"{state.value} {listed(ended)}"

    def _deferral(self, job_id: JobId) -> str:
        deferral = deferral_of(self.jobs[job_id])
        assert deferral is not None
        until = "" if deferral.until is None else f" for {deferral.until - self.now_s:.0f} s"
        blockers = self.queue.waits_for(job_id)
        return f"{deferral.cause.value}{until}{f', behind {listed(blockers)}' if blockers else ''}"

    def _standing(self, job_id: JobId) -> tuple[bool, int, JobId]:
        reasons = explain(self.queue, job_id, self.now_s, lambda _: None)
        positions = [reason.position for reason in reasons if isinstance(reason, InLine)]
        return any(isinstance(reason, HeldByRule | LimitFull) for reason in reasons), sum(positions), job_id

    def _why(self, job_id: JobId) -> Iterator[str]:
        yield from map(reason_text, explain(self.queue, job_id, self.now_s, lambda _: None))

    # what the shell does

    @property
    def _now(self) -> tuple[int, int]:
        return self.now_s, 0

    def _new_queue(self) -> JobQueue:
        return JobQueue(self.slots, self.slots, _not_to_be_told, _WEIGHTS)

    def _add(self, job: Job) -> None:
        self.jobs[job.job_id] = job
        self.queue.add(job)

    def _advance(self, job: Job) -> None:
        self.jobs[job.job_id] = job
        self.queue.advanced(job)

    def _end(self, job: Job) -> None:
        self.jobs[job.job_id] = job
        self.alive.discard(job.job_id)
        self.queue.end(job.job_id, job.state)


_OF_A_JOB: Final[dict[str, Callable[[QueueStory, JobId, list[str]], str | None]]] = {
    "submit": QueueStory.submit,
    "started": QueueStory.started,
    "next": QueueStory.next,
    "pauses": QueueStory.pauses,
    "ends": QueueStory.ends,
    "dies": QueueStory.dies,
    "cancel": QueueStory.cancel,
    "priority": QueueStory.priority,
    "hold": QueueStory.hold,
    "release": QueueStory.release,
    "again": QueueStory.again,
    "locks": QueueStory.locks,
    "found": QueueStory.found,
}
_OF_THE_QUEUE: Final[dict[str, Callable[[QueueStory, list[str]], str | None]]] = {
    "rules": QueueStory.change_rules,
    "written": QueueStory.written,
    "wait": QueueStory.wait,
    "suspend": QueueStory.suspend,
    "resume": QueueStory.resume,
    "restart": QueueStory.restart,
}


def _not_to_be_told(_: JobId) -> JobState | None:
    raise Unavailable("a story says what is found")
