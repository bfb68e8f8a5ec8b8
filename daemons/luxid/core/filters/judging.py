"""The ruling of the filters on every job, and how a new chain of rules reaches all of them.

Theory. A job is judged by a chain when it comes and when its opcodes change. A new chain judges it again only if the
ruling may change: `filtering` tells of which filter classes, and by which rules. Jobs of the others are not
touched, however many there are. Jobs with a process are judged at once, as they are few and may have to stop; the
others a slice at a time, until none is left. If yet another chain comes meanwhile, nothing is known any more of the
jobs that are left, and all rules are tested on them.

A job that the chain before admitted can only lose by the new one: it has its right rank in the order of starts, and is
judged at the latest when it is the best. A job that was restrained may be the best now without showing. So restrained
jobs come first, and until all of them are judged no job is started.

Source: filters design; luxid.md 6; DESIGN sections 6 and 11.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from heapq import nsmallest
from itertools import islice
from typing import Final

from common.ids import JobId
from common.objects.filter import ActionKind, FilterRule
from common.queue.jobs import Job
from common.queue.ruleloads import BucketLoad, RuleLoad, RuleLoads
from daemons.luxid.core.choice.limits import BucketLimit, CountedUser, Limit, LimitUsage, RuleLimit
from daemons.luxid.core.choice.readings import OpcodeReading, next_needs, next_reading
from daemons.luxid.core.choice.readyjobs import ReadyJobs, RunningJobs
from daemons.luxid.core.filters.filtering import FilterClasses, Filtering, Ruling, Shortlist, bucket_limits
from daemons.luxid.core.queue.entries import Entries
from daemons.luxid.core.queue.entry import AT_REST, Entry, Phase, Rejected
from daemons.luxid.core.resources import uses_of

# What the rules in force and the buckets do to the jobs, in numbers.
#
# Theory. Nothing is counted for it but what classes of jobs have anyway: the ready jobs of a filter class and of an
# admission class, and the running ones of a limit. Only rejections leave no job behind: they are tallied by rule, as
# long as the rule is in force.
#
# Source: filters design; luxid.md 5.5, 6.


# number of buckets that are told
MOST_BUCKETS: Final = 200
# jobs of a filter class of which the first ready one is looked for
_LOOKED_AT: Final = 1000


class RejectionTally:
    """How many jobs each rule in force has rejected so far."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def keep(self, uuids: Iterable[str]) -> None:
        """These rules are in force now; those of the others are forgotten."""
        self._counts = {uuid: self._counts.get(uuid, 0) for uuid in uuids}

    def count(self, uuid: str) -> None:
        """The rule has rejected a job; ignored if it is in force no longer."""
        if uuid in self._counts:
            self._counts[uuid] += 1

    def of(self, uuid: str) -> int:
        return self._counts.get(uuid, 0)


class Loads:
    """Reads the numbers.

    Cost: linear in the rules, the filter classes, and the limits that queued or running jobs name; not in the jobs.
    """

    def __init__(
        self, filtering: Filtering, filter_classes: FilterClasses, ready: ReadyJobs, limit_usage: LimitUsage
    ) -> None:
        self._filtering = filtering
        self._filter_classes = filter_classes
        self._ready = ready
        self._limit_usage = limit_usage
        self.rejections = RejectionTally()

    def read(self) -> RuleLoads:
        """Return all numbers. Jobs that a new chain has still to judge count as the chain before ruled."""
        held = self._held_by_rule()
        buckets = self._buckets()
        return RuleLoads(
            tuple(self._rule(uuid, limit, held[uuid]) for uuid, limit in self._filtering.limits().items()),
            tuple(nsmallest(MOST_BUCKETS, buckets, key=lambda each: (-each.held, -each.running, each.name))),
            len(buckets),
        )

    def paused(self) -> dict[str, tuple[int, JobId | None]]:
        """The rules that pause ready jobs, by uuid: how many, and the one that came first, if it is found.

        Cost: linear in the filter classes.
        """
        found: dict[str, tuple[int, JobId | None]] = {}
        for each in self._filter_classes:
            if each.ruling.rule is None or not each.ruling.is_pause or not each.ready:
                continue
            count, first = found.get(each.ruling.rule.uuid, (0, None))
            members = islice(each.members, _LOOKED_AT)
            ready = [job_id for job_id in (first, next(filter(self._ready.__contains__, members), None)) if job_id]
            found[each.ruling.rule.uuid] = count + each.ready, min(ready, default=None)
        return found

    def _rule(self, uuid: str, limit: int | None, held: int) -> RuleLoad:
        running = 0 if limit is None else self._limit_usage.used(RuleLimit(uuid, limit))
        return RuleLoad(uuid, self.rejections.of(uuid), held, running, limit)

    def _held_by_rule(self) -> Counter[str]:
        held: Counter[str] = Counter()
        for each in self._filter_classes:
            if each.ruling.rule is not None and self._holds_back(each.ruling):
                held[each.ruling.rule.uuid] += each.ready
        return held

    def _holds_back(self, ruling: Ruling) -> bool:
        return ruling.is_pause or any(map(self._limit_usage.is_full, ruling.limits))

    def _buckets(self) -> list[BucketLoad]:
        named: dict[Limit, None] = dict.fromkeys((*self._limit_usage.limits(), *self._ready.limits()))
        return [self._bucket(limit) for limit in named if isinstance(limit, BucketLimit)]

    def _bucket(self, limit: Limit) -> BucketLoad:
        held = self._ready.subject_to(limit) if self._limit_usage.is_full(limit) else 0
        return BucketLoad(limit.name, held, self._limit_usage.used(limit), limit.count)


# number of jobs judged by a new chain in one go
SLICE: Final = 50


class Judging:
    """Keeps the rulings on all entries up to date with the chain in force."""

    def __init__(self, entries: Entries, ready: ReadyJobs, running_jobs: RunningJobs, limit_usage: LimitUsage) -> None:
        self._entries = entries
        self._ready = ready
        self._running_jobs = running_jobs
        self._filtering = Filtering()
        self._filter_classes = FilterClasses()
        self.loads = Loads(self._filtering, self._filter_classes, ready, limit_usage)
        # jobs found to be rejected since they were last taken
        self._rejected: list[Rejected] = []
        # jobs without a process still to be judged by the chain in force, last one first; None: by all of its rules
        self._restrained: dict[JobId, Shortlist | None] = {}
        self._admitted: dict[JobId, Shortlist | None] = {}
        self.touched = 0

    @property
    def judged(self) -> int:
        """How often rules were tested on a job so far."""
        return self._filtering.judged

    @property
    def is_unfinished(self) -> bool:
        """Whether jobs have still to be judged by the chain in force."""
        return bool(self._restrained or self._admitted)

    @property
    def is_best_known(self) -> bool:
        """True when no job still to be judged could outrank the current best."""
        return not self._restrained

    def new_entry(self, job: Job, received_tick: int, user: CountedUser | None = None) -> Entry:
        """Return an entry for a job of this user that has none; it is held."""
        filter_class = self._filter_classes.enter(job, self._filtering.judge(job))
        reading = next_reading(job)
        return Entry(
            job,
            Phase.HELD,
            filter_class,
            bucket_limits(job),
            reading.needs,
            received_tick,
            _only_summary(job, reading),
            uses_of(job),
            user,
        )

    def renew(self, entry: Entry, job: Job) -> None:
        """Take a held job as it is now; what follows from its opcodes is worked out again if they changed."""
        is_unjudged = self.is_unjudged(job.job_id)
        if job is entry.job and not is_unjudged:
            return
        before, entry.job = entry.job, job
        reading = next_reading(job)
        entry.needs, entry.summary = reading.needs, _only_summary(job, reading)
        if is_unjudged or _inputs(job) != _inputs(before):
            self._take(job.job_id)
            entry.buckets, entry.uses = bucket_limits(job), uses_of(job)
            self._filter_classes.leave(job.job_id, entry.filter_class)
            entry.rule(self._filter_classes.enter(job, self._filtering.judge(job)))
        elif entry.uses:
            # its wants have its priority
            entry.rule(entry.filter_class)

    def follow(self, entry: Entry, job: Job) -> bool:
        """Take a job as its process has written it; return whether it needs other locks now."""
        entry.job = job
        # what a process writes may be another opcode than luxid has read
        entry.summary = None
        before, entry.needs = entry.needs, next_needs(job)
        return entry.needs != before

    def forget(self, entry: Entry) -> None:
        """Forget a job that has ended."""
        self._take(entry.job.job_id)
        self._filter_classes.leave(entry.job.job_id, entry.filter_class)

    def replace(self, rules: Iterable[FilterRule]) -> None:
        """Put these rules in force.

        Raises: InvalidRequest: one of them is wrong; those in force stay.
        """
        if not self._filtering.replace(rules):
            return
        self.loads.rejections.keep(self._filtering.limits())
        restrained, admitted = dict.fromkeys(self._restrained), dict.fromkeys(self._admitted)
        for filter_class in self._filter_classes:
            self.touched += 1
            shortlist = self._filtering.shortlist(filter_class.ruling, filter_class.op_ids)
            if shortlist.rules or shortlist.otherwise is not filter_class.ruling:
                unjudged = self._restrained if filter_class.ruling.is_restraint else self._admitted
                unjudged |= dict.fromkeys(reversed(filter_class.members), shortlist)
        self._restrained |= restrained
        self._admitted |= admitted
        for entry in self._entries.with_process():
            self._take(entry.job.job_id)
            ruling = self._filtering.judge(entry.job)
            self._running_jobs.rule(entry, self._filter_classes.move(entry.job.job_id, entry.filter_class, ruling))
            self._entries.pausing.note(entry)

    def judge_slice(self) -> list[JobId]:
        """Judge some of the jobs that have still to be; returns those that must be held, because they are rejected."""
        count = min(SLICE, len(self._restrained) + len(self._admitted))
        taken = ((self._restrained or self._admitted).popitem() for _ in range(count))
        return [job_id for job_id, shortlist in taken if self._rejudge(self._entries[job_id], shortlist)]

    def is_unjudged(self, job_id: JobId) -> bool:
        """Whether the job has still to be judged by the chain in force."""
        return job_id in self._admitted or job_id in self._restrained

    def judge(self, job_id: JobId) -> bool:
        """Judge a job that has still to be; returns whether it must be held, because it is rejected."""
        return self._rejudge(self._entries[job_id], self._take(job_id))

    def settle(self, entry: Entry) -> None:
        """Judge a job that is about to take a slot by the chain in force: it takes places in the limits of that."""
        if self.is_unjudged(entry.job.job_id):
            self.judge(entry.job.job_id)

    def is_rejected(self, entry: Entry) -> bool:
        """Whether a rule rejects this job, which has no process; if so, note that."""
        rule = entry.ruling.rule
        if rule is None or entry.ruling.kind is not ActionKind.REJECT:
            return False
        self._rejected.append(Rejected(entry.job.job_id, rule))
        return True

    def take_rejected(self) -> tuple[Rejected, ...]:
        """Return the jobs found to be rejected since the last call, by job id."""
        rejected, self._rejected = sorted(self._rejected, key=lambda each: each.job_id), []
        return tuple(rejected)

    def rejecting_rule(self, job: Job) -> FilterRule | None:
        """Return the rule by which this job, not yet in the queue, is to be refused."""
        ruling = self._filtering.judge(job)
        return ruling.rule if ruling.kind is ActionKind.REJECT else None

    def _rejudge(self, entry: Entry, shortlist: Shortlist | None) -> bool:
        self.touched += 1
        judge, before = self._filtering, entry.ruling
        ruling = judge.judge_by(entry.job, shortlist) if shortlist is not None else judge.judge(entry.job)
        if ruling is before:
            return False
        is_ready = entry.phase is Phase.READY
        entry.filter_class.ready -= is_ready
        entry.rule(self._filter_classes.move(entry.job.job_id, entry.filter_class, ruling))
        entry.filter_class.ready += is_ready
        if entry.phase not in AT_REST:
            return False
        self._entries.history.note(entry)
        if self.is_rejected(entry):
            return True
        if is_ready and (before.kind, before.limits) != (ruling.kind, ruling.limits):
            self._ready.refile(entry)
        return False

    def _take(self, job_id: JobId) -> Shortlist | None:
        """Strike the job off the list of those still to be judged; returns how it was to be judged."""
        unjudged = self._restrained if job_id in self._restrained else self._admitted
        return unjudged.pop(job_id, None)


def _only_summary(job: Job, reading: OpcodeReading) -> str | None:
    return reading.summary if len(job.ops) == 1 and reading.summary else None


def _inputs(job: Job) -> list[Mapping[str, object]]:
    return [op.input for op in job.ops]
