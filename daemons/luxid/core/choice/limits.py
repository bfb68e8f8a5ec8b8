"""The limits that hold ready jobs back: limits by kind of job, and the bounds of each user."""

import enum
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import Final

import attrs

from common.access import Role
from common.ids import JobId
from common.queue.reasons import NO_UID, JobOwner

# Limits on how many jobs of a kind run at once, and the jobs that count against them.
#
# A limit is a bucket that jobs name in their reasons, a filter rule with RATE_LIMIT, or a batch. A job counts against
# each of its limits from its start until its process is gone, never while it waits; against that of its batch until it
# has ended or waits again, because what it began on a node may outlive its process. Nothing is stored: the counts
# follow from the jobs that run, so they are right after a restart, too.
#
# Source: luxid.md 5.5, 6.2; DESIGN section 11.


@attrs.frozen(cache_hash=True)
class Limit:
    """At most `count` jobs at once; one of the classes below."""

    # text of the bucket, uuid of the rule, or id of the batch
    name: str
    count: int


@attrs.frozen(cache_hash=True)
class BucketLimit(Limit):
    """Limit set by the reason `rate-limit:<name>`."""


@attrs.frozen(cache_hash=True)
class RuleLimit(Limit):
    """Limit set by the filter rule with this uuid."""


@attrs.frozen(cache_hash=True)
class BatchLimit(Limit):
    """Limit of the batch with this id (`common.queue.reasons`), which jobs of another user do not belong to.

    Each job states it, and those that wait may be given another one: all jobs of the batch count against both.
    """

    owner: JobOwner | None = None


# id and owner
_BatchKey = tuple[str, JobOwner | None]


class LimitUsage:
    """The running jobs that count against each limit."""

    def __init__(self) -> None:
        # jobs that count against a limit; a limit without jobs is dropped
        self._members: dict[Limit, set[JobId]] = {}
        # of batches, by id and owner, the jobs with the limit that each states
        self._batches: dict[_BatchKey, dict[JobId, BatchLimit]] = {}
        self._changed: dict[Limit, None] = {}

    def enter(self, job_id: JobId, limits: Iterable[Limit]) -> list[Limit]:
        """Count the job against each; returns the limits that this made full."""
        return self._noted(
            self._join_batch(limit, job_id) if isinstance(limit, BatchLimit) else self._join(limit, job_id)
            for limit in limits
        )

    def leave(self, job_id: JobId, limits: Iterable[Limit]) -> list[Limit]:
        """Count the job no longer; returns the limits that were full and have room now."""
        return self._noted(
            self._part_batch(limit, job_id) if isinstance(limit, BatchLimit) else self._part(limit, job_id)
            for limit in limits
        )

    def is_full(self, limit: Limit) -> bool:
        return self.used(limit) >= limit.count

    def members(self, limit: Limit) -> frozenset[JobId]:
        return frozenset(self._jobs(limit))

    def used(self, limit: Limit) -> int:
        """The number of jobs that count against this limit."""
        return len(self._jobs(limit))

    def limits(self) -> Collection[Limit]:
        """The limits with running jobs. Cost: linear in the jobs of batches."""
        return [*self._members, *dict.fromkeys(limit for jobs in self._batches.values() for limit in jobs.values())]

    def full(self) -> Iterator[Limit]:
        """All limits that are full, whether or not a job states them. Cost: linear in the running jobs of limits."""
        yield from (limit for limit, jobs in self._members.items() if len(jobs) >= limit.count)
        for (name, owner), jobs in self._batches.items():
            yield from (BatchLimit(name, count, owner) for count in range(1, len(jobs) + 1))

    def counts(self) -> tuple[int, int]:
        """The number of limits with running jobs, and of those that are full. Cost: as `limits`."""
        limits = self.limits()
        return len(limits), sum(map(self.is_full, limits))

    def take_changed(self) -> tuple[Limit, ...]:
        """Return the limits that became full or got room, perhaps both, since the last call."""
        changed, self._changed = tuple(self._changed), {}
        return changed

    def _jobs(self, limit: Limit) -> Collection[JobId]:
        if isinstance(limit, BatchLimit):
            return self._batches.get((limit.name, limit.owner), ())
        return self._members.get(limit, ())

    def _join(self, limit: Limit, job_id: JobId) -> Limit | None:
        was_full = self.is_full(limit)
        self._members.setdefault(limit, set()).add(job_id)
        return limit if not was_full and self.is_full(limit) else None

    def _part(self, limit: Limit, job_id: JobId) -> Limit | None:
        was_full = self.is_full(limit)
        members = self._members[limit]
        members.discard(job_id)
        is_full = self.is_full(limit)
        if not members:
            del self._members[limit]
        return limit if was_full and not is_full else None

    def _join_batch(self, limit: BatchLimit, job_id: JobId) -> Limit | None:
        """Of all limits that jobs of the batch may state, the one of as many as run now is full now."""
        jobs = self._batches.setdefault((limit.name, limit.owner), {})
        if job_id in jobs:
            return None
        jobs[job_id] = limit
        return BatchLimit(limit.name, len(jobs), limit.owner)

    def _part_batch(self, limit: BatchLimit, job_id: JobId) -> Limit | None:
        """As `_join_batch`: the one of as many as ran has room now."""
        key = (limit.name, limit.owner)
        jobs = self._batches[key]
        had = BatchLimit(limit.name, len(jobs), limit.owner)
        if jobs.pop(job_id, None) is None:
            return None
        if not jobs:
            del self._batches[key]
        return had

    def _noted(self, changed: Iterable[Limit | None]) -> list[Limit]:
        found = [limit for limit in changed if limit is not None]
        self._changed.update(dict.fromkeys(found))
        return found


# The bounds of each user: jobs in the queue, jobs with a process, and what is reserved for operators.
#
# Theory. Every job but those of the daemons' user, and of users with all rights, belongs to a user, for whom it counts
# from its submission until it has ended: as *queued* while it has no process, jobs on hold and jobs that begin later
# included, and as *running* while it has one. Jobs of users without the role *operate* are also counted together. Both
# numbers change where a job's phase does, so an event costs the same however many jobs and users there are.
#
# Three rules follow from the numbers:
#
#     queue places    a user may have so many queued jobs, and all users without *operate* together all but a reserve;
#                     a submission beyond either is refused
#     reserved slots  users without *operate* together may have processes for all but a reserve of the slots
#     running jobs    jobs of a user who has as many processes as his bound start after all others' that may start: the
#                     bound holds only where others wait, and no slot stays empty because of it
#
# The last two are a part of the order of starts (`standing`), which is asked for each head of a class and never stored:
# so no class moves when a user reaches a bound.
#
# A user is known by the Unix user, or by the HTTP user's name where there is none. The role is that of the submission:
# a job that came over HTTP has it in its reason trail, and of Unix users luxid tells who are operators.
#
# Source: DESIGN section 17.


# number of the Unix user, or name of an HTTP user without one
UserKey = int | str


class UserRank(enum.IntEnum):
    """When jobs of a user may start; a smaller one comes first, whatever the priority."""

    # as priority, weight and age say
    USUAL = 0
    # the user runs as many jobs as the bound allows: only if no job of others may start
    AFTER_OTHERS = 1
    # the slots that are left are reserved for operators
    NOT_NOW = 2


@attrs.frozen(cache_hash=True)
class CountedUser:
    """A user whose jobs are counted."""

    key: UserKey
    # whether the jobs may take reserved places
    is_operator: bool


def key_of(owner: JobOwner) -> UserKey:
    """By what an owner's jobs are counted."""
    return owner.uid if owner.uid != NO_UID else owner.http_user


@attrs.frozen
class UserBounds:
    """The bounds; `reserve` is held back at most from half of the places."""

    # jobs in the queue, of all users together, and of one
    queued: int
    queued_per_user: int
    queued_reserve: int = 0
    # jobs with a process of one user; 0: all slots but a reserve for the others
    running_per_user: int = 0
    slots_reserve: int = 0
    # Unix users with all rights: root and the daemons' user, who are not bounded as *admin* over HTTP either
    unbounded: frozenset[int] = frozenset()

    @property
    def queue_places(self) -> int:
        """The jobs that users without the role *operate* together may have in the queue."""
        return self.queued - min(self.queued_reserve, self.queued // 2)

    def slots_of_all(self, slots: int) -> int:
        """The slots that users without the role *operate* together may take."""
        return slots - min(self.slots_reserve, slots // 2)

    def slots_of(self, user: CountedUser, slots: int) -> int:
        """The slots that this user may take where others wait."""
        if self.running_per_user:
            return self.running_per_user
        places = slots if user.is_operator else self.slots_of_all(slots)
        return max(1, places - min(self.slots_reserve, places // 2))


# no user is bounded
UNBOUNDED: Final = UserBounds(2**63, 2**63, running_per_user=2**63)


class UserJobs:
    """The numbers of jobs by user, and what follows from them.

    Args: slots: jobs that may have a process at once.
    """

    def __init__(self, slots: int, bounds: UserBounds = UNBOUNDED) -> None:
        self.slots = slots
        self.bounds = bounds
        # user -> number of jobs, never 0
        self._queued: Counter[UserKey] = Counter()
        self._running: Counter[UserKey] = Counter()
        # the same of all users without the role *operate*
        self.all_queued = 0
        self.all_running = 0
        # Unix users with that role, or a greater one
        self._operators: set[int] = set()
        # one object for all jobs of a user
        self._users: dict[JobOwner, CountedUser] = {}

    # what happened

    def note_role(self, uid: int, role: Role) -> None:
        """Take the present role of a Unix user: that of all jobs that come from now on."""
        if (role >= Role.OPERATE) is not (uid in self._operators):
            (self._operators.add if role >= Role.OPERATE else self._operators.discard)(uid)
            self._users = {owner: user for owner, user in self._users.items() if owner.uid != uid}

    def queue(self, user: CountedUser | None, step: int) -> None:
        """Count one more or one less job in the queue. Args: user: None: nobody who is bounded."""
        if user is not None:
            _count(self._queued, user.key, step)
            self.all_queued += 0 if user.is_operator else step

    def run(self, user: CountedUser | None, step: int) -> None:
        """Count one more or one less job with a process. Args: user: as `queue`."""
        if user is not None:
            _count(self._running, user.key, step)
            self.all_running += 0 if user.is_operator else step

    # what is so

    def user_of(self, owner: JobOwner | None) -> CountedUser | None:
        """The user of a job with this owner; None: nobody who is bounded."""
        if owner is None:
            return None
        if owner.role is not None and owner.role >= Role.ADMIN and owner.uid in self.bounds.unbounded:
            return None
        user = self._users.get(owner)
        if user is None:
            is_operator = owner.uid in self._operators if owner.role is None else owner.role >= Role.OPERATE
            user = self._users[owner] = CountedUser(key_of(owner), is_operator)
        return user

    def queued(self, key: UserKey) -> int:
        return self._queued.get(key, 0)

    def running(self, key: UserKey) -> int:
        return self._running.get(key, 0)

    def standing(self, user: CountedUser | None) -> UserRank:
        """When jobs of this user may start. Cost: constant."""
        if user is None:
            return UserRank.USUAL
        if not user.is_operator and self.all_running >= self.bounds.slots_of_all(self.slots):
            return UserRank.NOT_NOW
        return UserRank.AFTER_OTHERS if self.is_at_bound(user) else UserRank.USUAL

    def is_at_bound(self, user: CountedUser) -> bool:
        """Whether the user runs as many jobs as the bound allows where others wait."""
        return self._running.get(user.key, 0) >= self.bounds.slots_of(user, self.slots)

    def is_empty(self) -> bool:
        """Whether nobody's jobs are counted."""
        return not (self._queued or self._running or self.all_queued or self.all_running)


def _count(counts: Counter[UserKey], key: UserKey, step: int) -> None:
    counts[key] += step
    if not counts[key]:
        del counts[key]
