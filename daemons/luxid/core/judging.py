"""The word of the filters on every job, and how another chain of rules reaches all of them.

Theory. A job is held against a chain once: when it comes, when its opcodes change, and when the chain does. Another
chain is the one event that concerns all jobs. Those with a process are judged at once, as they are few and may
have to stop; the others a slice at a time, as long as some are left. Until then nobody may be started, as the best
may not have been judged.

Source: filters design; luxid.md 6; DESIGN sections 6 and 11.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from common.filters import ActionKind
from common.jobs import Job
from common.locks import JobId
from common.objects.filter import FilterRule
from daemons.luxid.core.contest import Contest, Entry
from daemons.luxid.core.decisions import Phase, Rejected
from daemons.luxid.core.entries import Entries
from daemons.luxid.core.filtering import Filtering, bucket_limits
from daemons.luxid.core.needs import next_needs

# jobs judged by a new chain in one go
SLICE: Final = 50


class Judging:
    """Keeps the rulings on all entries those of the chain in force."""

    def __init__(self, entries: Entries, contest: Contest) -> None:
        self._entries = entries
        self._contest = contest
        self._filtering = Filtering()
        # found to be rejected since they were last taken
        self._rejected: list[Rejected] = []
        # to be judged by the chain in force, last one first
        self._unjudged: list[JobId] = []
        self.touched = 0

    @property
    def judged(self) -> int:
        """How often a job was held against a chain of rules so far."""
        return self._filtering.judged

    @property
    def is_unfinished(self) -> bool:
        """Whether jobs have still to be judged by the chain in force."""
        return bool(self._unjudged)

    def new_entry(self, job: Job) -> Entry:
        """The entry of a job that has none; it is held."""
        ruling, version = self._filtering.judge(job), self._filtering.version
        return Entry(job, Phase.HELD, ruling, version, bucket_limits(job), next_needs(job))

    def renew(self, entry: Entry, job: Job) -> None:
        """Take note of a held job as it is now; what follows from its opcodes is worked out again if they changed."""
        if job is entry.job and entry.version == self._filtering.version:
            return
        before, entry.job = entry.job, job
        entry.needs = next_needs(job)
        if entry.version != self._filtering.version or _inputs(job) != _inputs(before):
            entry.buckets = bucket_limits(job)
            entry.ruling, entry.version = self._filtering.judge(job), self._filtering.version

    def replace(self, rules: Iterable[FilterRule]) -> None:
        """These are the rules.

        Raises: InvalidRequest: one of them is wrong; those in force stay.
        """
        if not self._filtering.replace(rules):
            return
        has_process = self._entries.has_process
        self._unjudged = [entry.job.job_id for entry in self._entries if not has_process(entry.job.job_id)]
        self._unjudged.reverse()
        for entry in self._entries.with_process():
            entry.version = self._filtering.version
            self._contest.rule(entry, self._filtering.judge(entry.job))
            self._entries.pausing.note(entry)

    def judge_slice(self) -> list[JobId]:
        """Judge some of those that have still to be; answers which of them must be held, as they are rejected."""
        return [
            entry.job.job_id
            for _ in range(min(SLICE, len(self._unjudged)))
            if (entry := self._entries.get(self._unjudged.pop())) is not None
            and entry.version != self._filtering.version
            and self._rejudge(entry)
        ]

    def is_rejected(self, entry: Entry) -> bool:
        """Whether a rule rejects the job, which has no process; if so that is noted."""
        rule = entry.ruling.rule
        if rule is None or entry.ruling.kind is not ActionKind.REJECT:
            return False
        self._rejected.append(Rejected(entry.job.job_id, rule))
        return True

    def take_rejected(self) -> tuple[Rejected, ...]:
        """Those that were found to be rejected since this was last asked."""
        rejected, self._rejected = tuple(self._rejected), []
        return rejected

    def rejecting_rule(self, job: Job) -> FilterRule | None:
        """The rule by which this job, not yet in the queue, is to be refused."""
        ruling = self._filtering.judge(job)
        return ruling.rule if ruling.kind is ActionKind.REJECT else None

    def _rejudge(self, entry: Entry) -> bool:
        self.touched += 1
        before, entry.ruling, entry.version = entry.ruling, self._filtering.judge(entry.job), self._filtering.version
        if entry.phase not in (Phase.READY, Phase.BLOCKED):
            return False
        self._entries.history.note(entry)
        if self.is_rejected(entry):
            return True
        if entry.phase is Phase.READY and (before.kind, before.limits) != (entry.ruling.kind, entry.ruling.limits):
            self._contest.withdraw(entry.job.job_id)
            self._contest.offer(entry)
        return False


def _inputs(job: Job) -> list[Mapping[str, object]]:
    return [op.input for op in job.ops]
