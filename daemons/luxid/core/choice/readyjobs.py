"""The ready jobs, and the best of them: found without a look at the others. The folder's docstring has the theory.

Source: DESIGN section 6, "Selection", "Weights"; predictive-queue design; luxid.md 5.11.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import nsmallest

from common.ids import JobId
from common.locks import Lock, LockMode
from daemons.luxid.core.choice.jobclasses import (
    AdmissionClass,
    AdmissionTerms,
    JobClass,
    Key,
    LockClass,
    LockClasses,
    Partition,
    WeightClass,
)
from daemons.luxid.core.choice.limits import BatchLimit, CountedUser, Limit, LimitUsage, UserJobs, UserRank
from daemons.luxid.core.choice.weights import Aliases, NameChange, Needs, NeedsShape, RunningLocks, WeightRules
from daemons.luxid.core.filters.filtering import FilterClass
from daemons.luxid.core.queue.entry import Entry
from daemons.luxid.core.resources import UnitBook, Want, WantsGroup

# standing of the user, priority, aged weight, age and id: the smallest is started first
Rank = tuple[UserRank, int, float, Key]


class ReadyJobs:
    """The jobs that may start once no rule pauses them, their limits have room, and they get units and a slot."""

    def __init__(
        self,
        rules: WeightRules,
        running_locks: RunningLocks,
        limit_usage: LimitUsage,
        units: UnitBook,
        users: UserJobs,
    ) -> None:
        self._rules = rules
        self._running_locks = running_locks
        self._limit_usage = limit_usage
        self._units = units
        self._users = users
        self._class_of: dict[JobId, JobClass] = {}
        self._lock_classes = LockClasses(running_locks)
        self._admission_classes: dict[AdmissionTerms, AdmissionClass] = {}
        # limit, or want -> admission classes that it closes when full, or short
        self._limited: dict[Limit, dict[AdmissionClass, None]] = {}
        # priority -> shape, clashes and user -> weight class
        self._weight_classes: dict[int, dict[tuple[NeedsShape, int, CountedUser | None], WeightClass]] = {}
        # lock classes whose clashes have changed since their job classes were filed
        self._misfiled: dict[LockClass, None] = {}
        # classes and jobs looked at so far
        self.touched = 0

    # what happened

    def add(self, entry: Entry) -> None:
        """Take in a job, which is not here, as it is ready."""
        job = entry.job
        admission, lock_class = self._admission_class(entry.admission), self._lock_classes.find(entry.needs)
        self._enter_class(self._job_class(admission, job.priority, lock_class), (entry.received_tick, job.job_id))

    def remove(self, job_id: JobId) -> None:
        """Let go of a job that is ready no longer."""
        job_class = self._class_of.pop(job_id)
        if job_class.admission.group is not None:
            self._units.forget(job_id)
        self._leave_class(job_class)

    def refile(self, entry: Entry) -> None:
        """Re-file a job whose limits or pause state changed; as `remove` and `add`, at half the price."""
        job_id = entry.job.job_id
        before = self._class_of[job_id]
        after = self._job_class(self._admission_class(entry.admission), before.priority, before.lock_class)
        if before.admission.group is not None:
            self._units.forget(job_id)
        self._enter_class(after, (entry.received_tick, job_id))
        self._leave_class(before)

    def change_names(self, changes: Iterable[NameChange]) -> None:
        """Take note that running jobs began or ceased to take these names."""
        for lock_class in self._lock_classes.concerned(changes):
            self.touched += 1
            if lock_class.clashes != lock_class.filed_clashes:
                self._misfiled[lock_class] = None
            else:
                self._misfiled.pop(lock_class, None)

    def close(self, limits: Iterable[Limit]) -> None:
        """Take note that these limits are full now. Cost: linear in the partitions that they close, not in the jobs."""
        self._count_closed(limits, 1)

    def open(self, limits: Iterable[Limit]) -> None:
        """Take note that these limits have room now. Cost: as `close`."""
        self._count_closed(limits, -1)

    def settle_units(self) -> None:
        """Close and open what units that came or went have made short, or not short any more. Cost: as `close`."""
        while turns := self._units.settle():
            for turn in turns:
                self._count_closed([turn.want], 1 if turn.is_short else -1, turn.group)

    # what follows

    def best(self, now_s: float) -> JobId | None:
        """Return the job to start next; None: no job may start.

        Cost: linear in the weight classes, and in the job classes of those lock classes that clash otherwise than when
            this was last asked; not in the jobs.
        """
        self.settle_units()
        self._refile_all()
        now_tick = self._rules.tick(now_s)
        # of the best priority of those users whose jobs start after all others
        later: list[tuple[WeightClass, Key]] = []
        for priority in sorted(self._weight_classes):
            weight_classes = self._weight_classes[priority].values()
            self.touched += len(weight_classes)
            heads = [(each, head) for each in weight_classes if (head := each.first()) is not None]
            standings = [self._users.standing(each.user) for each, _ in heads]
            usual = [head for head, standing in zip(heads, standings, strict=True) if standing is UserRank.USUAL]
            if usual:
                return self._lightest(usual, now_tick)
            pairs = zip(heads, standings, strict=True)
            later = later or [head for head, standing in pairs if standing is UserRank.AFTER_OTHERS]
        return self._lightest(later, now_tick) if later else None

    def _lightest(self, heads: Sequence[tuple[WeightClass, Key]], now_tick: int) -> JobId:
        factor = self._rules.factor
        _, first = min((self._static(each) * factor(head[0], now_tick), head) for each, head in heads)
        return JobId(first[1])

    def rank(self, entry: Entry, now_s: float) -> Rank:
        """The rank of a job in the order of starts at this moment."""
        factor = self._rules.factor(entry.received_tick, self._rules.tick(now_s))
        weight = self._running_locks.weight_of(entry.needs) * factor
        standing = self._users.standing(entry.user)
        return standing, entry.job.priority, weight, (entry.received_tick, entry.job.job_id)

    def ahead(self, entry: Entry, now_s: float, named: int) -> tuple[int, tuple[JobId, ...]]:
        """How many ready jobs are started before this one if nothing changes, and the first of them.

        Args:
            named: number of jobs to name.
        Cost: linear in the classes, and in the jobs of those classes that reach before it; for explanations.
        """
        self.settle_units()
        self._refile_all()
        rank, now_tick = self.rank(entry, now_s), self._rules.tick(now_s)
        count = 0
        heads: list[tuple[Rank, int, JobClass]] = []
        for number, job_class in enumerate(self._open_classes()):
            first = self._rank(job_class, job_class.head, now_tick) if job_class.head is not None else rank
            if first < rank:
                heads.append((first, number, job_class))
                is_whole = job_class.size == 1 or first[:2] < rank[:2]
                count += job_class.size if is_whole else self._count_before(job_class, rank, now_tick)
        # the first jobs are all of the job classes with the first heads
        leaders = [job_class for _, _, job_class in nsmallest(named, heads)]
        ranks = (self._rank(job_class, key, now_tick) for job_class in leaders for key in job_class.valid_keys())
        return count, tuple(JobId(each[3][1]) for each in nsmallest(named, ranks) if each < rank)

    def _count_before(self, job_class: JobClass, rank: Rank, now_tick: int) -> int:
        return sum(self._rank(job_class, key, now_tick) < rank for key in job_class.valid_keys())

    def _open_classes(self) -> Iterator[JobClass]:
        for lock_class in self._lock_classes:
            for job_class in lock_class.job_classes:
                if not job_class.admission.closed_by:
                    yield job_class

    def _rank(self, job_class: JobClass, key: Key, now_tick: int) -> Rank:
        weight = self._static(job_class.partition.weight_class) * self._rules.factor(key[0], now_tick)
        return self._users.standing(job_class.admission.key.user), job_class.priority, weight, key

    def is_short(self, job_id: JobId, want: Want) -> bool:
        """Whether too few units are free for this want of the job."""
        job_class = self._class_of.get(job_id)
        return self._units.is_short(want, None if job_class is None else job_class.admission.group)

    def limits(self) -> Iterable[Limit]:
        """The limits that ready jobs are subject to, full or not."""
        return self._limited.keys()

    def subject_to(self, limit: Limit) -> int:
        """How many ready jobs are subject to this limit. Cost: linear in their admission classes."""
        return sum(each.size for each in self._limited.get(limit, ()))

    def first_subject_to(self, limit: Limit) -> JobId | None:
        """Of these jobs the one that came first; None: there is none. Cost: linear in their partitions."""
        admissions = self._limited.get(limit, ())
        firsts = (partition.first() for each in admissions for partition in each.partitions.values())
        return _first(firsts)

    def open_count(self) -> int:
        """How many jobs wait for nothing but a slot. Cost: linear in the admission classes."""
        return sum(each.size for each in self._admission_classes.values() if not each.closed_by)

    def first_open(self) -> JobId | None:
        """Of the jobs that wait for nothing but a slot the one that came first. Cost: linear in the weight classes."""
        return _first(each.first() for classes in self._weight_classes.values() for each in classes.values())

    def __contains__(self, job_id: JobId) -> bool:
        return job_id in self._class_of

    def groups(self) -> int:
        """How many admission, weight and lock classes there are, and how many of the last are misfiled."""
        weight_classes = sum(map(len, self._weight_classes.values()))
        return len(self._admission_classes) + weight_classes + len(self._lock_classes) + len(self._misfiled)

    def _static(self, weight_class: WeightClass) -> float:
        if weight_class.epoch != self._running_locks.epoch:
            weight_class.epoch = self._running_locks.epoch
            weight_class.weight = self._running_locks.static_weight(weight_class.shape, weight_class.clashes)
        return weight_class.weight

    # classes come and go with their jobs

    def _admission_class(self, key: AdmissionTerms) -> AdmissionClass:
        found = self._admission_classes.get(key)
        if found is None:
            closed_by = key.is_paused + sum(self._limit_usage.is_full(limit) for limit in key.limits)
            found = self._admission_classes[key] = AdmissionClass(key, closed_by)
            if key.wants:
                found.group = WantsGroup(key.wants)
                found.short_by = self._units.join(found.group)
                found.closed_by += found.short_by
            for limit in key.closers:
                self._limited.setdefault(limit, {})[found] = None
        return found

    def _drop_admission_class(self, admission: AdmissionClass) -> None:
        del self._admission_classes[admission.key]
        if admission.group is not None:
            self._units.part(admission.group)
        for limit in admission.key.closers:
            del self._limited[limit][admission]
            if not self._limited[limit]:
                del self._limited[limit]

    def _count_closed(self, limits: Iterable[Limit], step: int, only: WantsGroup | None = None) -> None:
        for limit in limits:
            for admission in self._limited.get(limit, ()):
                if only is not None and admission.group is not only:
                    continue
                before, admission.closed_by = admission.closed_by, admission.closed_by + step
                admission.short_by += step * isinstance(limit, Want)
                self._note_group(admission)
                # between closed by one and by several nothing shows
                for partition in admission.partitions.values() if not (before and admission.closed_by) else ():
                    self.touched += 1
                    partition.refresh()

    def _job_class(self, admission: AdmissionClass, priority: int, lock_class: LockClass) -> JobClass:
        job_class = lock_class.find_class(admission, priority)
        if job_class is None:
            partition = self._partition(admission, self._weight_class(priority, lock_class, admission.key.user))
            job_class = JobClass(self._class_of, priority, admission, lock_class, partition)
            lock_class.add_class(job_class)
            partition.size += 1
        return job_class

    def _enter_class(self, job_class: JobClass, key: Key) -> None:
        self._class_of[JobId(key[1])] = job_class
        job_class.size += 1
        job_class.admission.size += 1
        self.touched += 1
        job_class.push(key)
        job_class.refresh()
        self._note_group(job_class.admission)

    def _leave_class(self, job_class: JobClass) -> None:
        """Take note that a job has left the class."""
        job_class.size -= 1
        job_class.admission.size -= 1
        self.touched += 1
        job_class.refresh()
        if not job_class.size:
            self._drop_class(job_class)
        if job_class.admission.partitions:
            self._note_group(job_class.admission)

    def _note_group(self, admission: AdmissionClass) -> None:
        """Tell which of its jobs has waited longest for units."""
        if admission.group is None:
            return
        is_held = admission.closed_by > admission.short_by
        keys = ((each.weight_class.priority, each.first()) for each in admission.partitions.values())
        places = ((priority, *key) for priority, key in keys if key is not None)
        place = min(places, default=None) if admission.short_by and not is_held else None
        self._units.note(admission.group, admission.size, place, is_held=is_held)

    def _drop_class(self, job_class: JobClass) -> None:
        self._leave_partition(job_class.partition)
        job_class.lock_class.drop_class(job_class)
        if not job_class.lock_class.job_classes:
            self._lock_classes.drop(job_class.lock_class)
            self._misfiled.pop(job_class.lock_class, None)
        if not job_class.admission.partitions:
            self._drop_admission_class(job_class.admission)

    def _refile_all(self) -> None:
        """Move every misfiled job class into the weight class that its lock class's clashes mean."""
        for lock_class in self._misfiled:
            lock_class.filed_clashes = lock_class.clashes
            for job_class in lock_class.job_classes:
                self._refile(job_class)
        self._misfiled.clear()

    def _refile(self, job_class: JobClass) -> None:
        self.touched += 1
        before, weight_class = (
            job_class.partition,
            self._weight_class(job_class.priority, job_class.lock_class, job_class.admission.key.user),
        )
        after = self._partition(job_class.admission, weight_class)
        after.size += 1
        job_class.enter(after)
        self._leave_partition(before)

    def _leave_partition(self, partition: Partition) -> None:
        """Take note that a job class has left the partition."""
        partition.size -= 1
        partition.refresh()
        if not partition.size:
            weight_class = partition.weight_class
            del partition.admission.partitions[weight_class]
            weight_class.size -= 1
            if not weight_class.size:
                self._drop_weight_class(weight_class)

    def _partition(self, admission: AdmissionClass, weight_class: WeightClass) -> Partition:
        partition = admission.partitions.get(weight_class)
        if partition is None:
            partition = admission.partitions[weight_class] = Partition(self._class_of, admission, weight_class)
            weight_class.size += 1
        return partition

    def _weight_class(self, priority: int, lock_class: LockClass, user: CountedUser | None) -> WeightClass:
        weight_classes = self._weight_classes.setdefault(priority, {})
        key = (lock_class.needs.shape, lock_class.filed_clashes, user)
        weight_class = weight_classes.get(key)
        if weight_class is None:
            weight_class = weight_classes[key] = WeightClass(self._class_of, priority, *key)
        return weight_class

    def _drop_weight_class(self, weight_class: WeightClass) -> None:
        weight_classes = self._weight_classes[weight_class.priority]
        del weight_classes[weight_class.shape, weight_class.clashes, weight_class.user]
        if not weight_classes:
            del self._weight_classes[weight_class.priority]


def _first(keys: Iterable[Key | None]) -> JobId | None:
    key = min((each for each in keys if each is not None), default=None)
    return None if key is None else JobId(key[1])


# What the jobs with a process take from the ready ones: room in limits, units of resources, and locks.
#
# Source: DESIGN section 6.


class RunningJobs:
    """The jobs that have a process, or for which one is being made; tells the ready ones what changes for them."""

    def __init__(self, ready: ReadyJobs, locks: RunningLocks, limit_usage: LimitUsage, units: UnitBook) -> None:
        self._ready = ready
        self._locks = locks
        self._limit_usage = limit_usage
        self._units = units
        # jobs whose process is gone, and that have neither ended nor wait again: they keep their places in batches, and
        # their units
        self.kept: dict[JobId, tuple[Limit, ...]] = {}

    def add(self, entry: Entry, *, is_chosen: bool) -> None:
        """Count a job from now on: it has a process, or is about to.

        Args: is_chosen: it was the best of the ready ones; false: it was found with a process or a command.
        """
        job_id = entry.job.job_id
        self.release(job_id)
        if entry.uses:
            self._units.take(job_id, entry.uses, entry.place if is_chosen else None)
        self._ready.close(self._limit_usage.enter(job_id, entry.limits))
        self._ready.change_names(self._locks.declare(job_id, entry.needs))

    def remove(self, entry: Entry) -> None:
        """Count a job no longer, but for its batch and its units: its process is gone."""
        job_id = entry.job.job_id
        if (kept := tuple(limit for limit in entry.limits if isinstance(limit, BatchLimit))) or entry.uses:
            self.kept[job_id] = kept
        self._ready.open(self._limit_usage.leave(job_id, [limit for limit in entry.limits if limit not in kept]))
        self._ready.change_names(self._locks.leave(job_id))

    def release(self, job_id: JobId, *, lives_on: bool = False) -> None:
        """Count a job without a process no longer at all: it has ended, or waits for its turn again.

        Args: lives_on: processes that it started may live under its locks: it keeps its units.
        """
        if (kept := self.kept.pop(job_id, None)) is not None:
            self._ready.open(self._limit_usage.leave(job_id, kept))
            if not lives_on:
                self._units.give(job_id)

    def rule(self, entry: Entry, filter_class: FilterClass) -> None:
        """Put a new ruling on a job in force: it counts against the limits of that one."""
        job_id = entry.job.job_id
        self._ready.open(self._limit_usage.leave(job_id, entry.ruling.limits))
        entry.rule(filter_class)
        self._ready.close(self._limit_usage.enter(job_id, entry.ruling.limits))

    def declare(self, job_id: JobId, needs: Needs) -> None:
        """Take note that another opcode of the job is under way."""
        self._ready.change_names(self._locks.declare(job_id, needs))

    def set_held(self, job_id: JobId, held: Mapping[Lock, LockMode]) -> None:
        """Take note that the job holds exactly these locks; nothing follows for one without a process."""
        self._ready.change_names(self._locks.set_held(job_id, held))

    def set_aliases(self, aliases: Aliases) -> None:
        """Compare locks by these names for the same object from now on."""
        self._ready.change_names(self._locks.set_aliases(aliases))
