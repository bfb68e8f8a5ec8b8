"""Which events of jobs are to be told."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import attrs

from common.featuresettings import Rules
from common.ids import JobId
from common.notify import RECOVERED, TRY, BatchEnd, JobNotification, Subject, matching_rules, wants_any
from common.opcodes.command import OpNotify
from common.queue.jobs import Job, JobState
from common.queue.reasons import Batch, JobOwner, batch_of, next_try, owner_of

# names that are remembered as failing; of more, the oldest are forgotten: they may be used only once
MOST_FAILING: Final = 10_000
_OP_ID: Final = OpNotify.OP_ID
# the end of a job's batch; None: other jobs of it have not ended
FindBatchEnd = Callable[[Job, Batch], BatchEnd | None]


@attrs.define
class Occasions:
    """The events of jobs. Args: batch_end: looks whether a batch has ended with this job."""

    rules: Rules
    _batch_end: FindBatchEnd
    # names whose last job failed, in the order of these failures
    _failing: dict[str, None] = attrs.Factory(dict)
    # rules whose receivers want no more
    _off: set[str] = attrs.Factory(set)
    # batch that has not ended -> its jobs that have; ids are chosen by clients, so two owners may have the same
    _early: dict[tuple[str, JobOwner | None], set[JobId]] = attrs.Factory(dict)
    # all of those jobs
    _held: set[JobId] = attrs.Factory(set)

    def ended(self, job: Job) -> list[JobNotification]:
        """The events of a job that has just ended."""
        if is_delivery(job):
            return []
        subject, batch = Subject.of(job), batch_of(job)
        if batch is not None:
            end = self._end_of_batch(job, batch)
            return [] if end is None else list(self._events(subject, end.state, end))
        has_recovered = self._note_name(subject.terms.name, job.state)
        events = list(self._events(subject, job.state.value))
        return [*events, *self._events(subject, RECOVERED)] if has_recovered else events

    def ended_early(self, job: Job, batch: Batch) -> None:
        """As `ended`, for a job of a batch of which another job has ended later. Cost: O(1)."""
        self._early.setdefault((batch.batch_id, owner_of(job)), set()).add(job.job_id)
        self._held.add(job.job_id)

    def holds(self, job_id: JobId) -> bool:
        """Whether the job has ended, and its batch has not."""
        return job_id in self._held

    def retried(self, job: Job) -> list[JobNotification]:
        """The events of a job that is in the queue again; none, if no try of it has failed."""
        failed = None if is_delivery(job) or not wants_any(self.rules.values(), TRY) else next_try(job)
        return [] if failed is None else list(self._events(Subject.of(job), TRY, number=failed.number))

    def refused(self, job: Job) -> str | None:
        """The rule that a delivery which has ended switches off, as its receiver wants no more; None: it does not."""
        rule = gone_rule(job)
        if rule is None or rule in self._off:
            return None
        self._off.add(rule)
        return rule

    @property
    def rules_off(self) -> tuple[str, ...]:
        """The rules that are off, by name."""
        return tuple(sorted(self._off))

    def _end_of_batch(self, job: Job, batch: Batch) -> BatchEnd | None:
        end = self._batch_end(job, batch)
        if end is None:
            self.ended_early(job, batch)
            return None
        earlier = self._early.pop((batch.batch_id, owner_of(job)), set())
        self._held -= earlier
        return attrs.evolve(end, earlier=frozenset(earlier - {job.job_id}))

    def _note_name(self, name: str, state: JobState) -> bool:
        """Return whether a job succeeds after the last one of its name had failed."""
        if not name or state is JobState.CANCELED:
            return False
        if state is JobState.ERROR:
            self._failing.pop(name, None)
            self._failing[name] = None
            if len(self._failing) > MOST_FAILING:
                del self._failing[next(iter(self._failing))]
            return False
        was_failing = name in self._failing
        self._failing.pop(name, None)
        return was_failing

    def _events(
        self, subject: Subject, kind: str, batch: BatchEnd | None = None, number: int = 0
    ) -> Iterator[JobNotification]:
        for rule in matching_rules(self.rules, subject, kind):
            if rule not in self._off:
                yield JobNotification(rule, kind, batch, number)


def is_delivery(job: Job) -> bool:
    """Whether the job tells of another one."""
    return bool(job.ops) and job.ops[0].input.get("OP_ID") == _OP_ID


def gone_rule(job: Job) -> str | None:
    """The rule of a delivery whose receiver has replied that it wants no more; None: it has not."""
    result: object = job.ops[0].result if is_delivery(job) else None
    match result:
        case [str(), [str(), {"gone": str(rule)}]]:
            return rule
        case _:
            return None


def delivery(
    event: JobNotification, subject: Subject, text: str, message_id: str, rules: Rules, at_once: int
) -> Mapping[str, object]:
    """The opcode that delivers an event."""
    job = subject.job
    at = job.end_at or job.received_at or (0, 0)
    at_ns = at[0] * 10**9 + at[1] * 1000
    trail: Sequence[object] = [
        ["gantry:notify", event.key(job.job_id), at_ns],
        # its own class: a storm of deliveries waits, and holds up no other job
        ["gantry:notify", f"rate-limit:{at_once}:notify", at_ns],
    ]
    return {
        "OP_ID": _OP_ID,
        "rule": event.rule,
        "message_id": message_id,
        "payload": text,
        "pauses": list(rules[event.rule].retry_s),
        "job": job.job_id,
        "priority": -10,
        "reason": trail,
    }
