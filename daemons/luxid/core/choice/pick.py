"""Which of the ready jobs runs next, found without a look at the others.

Theory. The best job is the one with the smallest (priority, aged weight, age, id). To find it, the jobs are
kept in nested groups, such that within a group time and events never change the order:

    job class        jobs of one priority, one admission class and equal needs. All have the same static weight, so
                     the one received first is never the heavier one: the order is (received tick, id).
    partition        the job classes of one admission class and one weight class
    weight class     jobs of one priority, one shape of needs, and the same levels on which a name of theirs clashes
                     with a running job's. From these alone follows the static weight: so a weight class, too, is
                     ordered by (received tick, id), whatever different names its jobs have.
    admission class  jobs with the same limits that are all paused, or all not. It is open while its jobs are not
                     paused and none of its limits is full. Jobs of a closed one are passed over: its partitions
                     show no head.

Each group knows the head of its own, and tells the group above when that changes. So a pick compares one head for each
weight class of the best priority, with weights as they are at this moment; there are as many weight classes as there
are shapes of opcodes, however many jobs, names and limits. No tick of the clock has to be told.

A start or an end changes the number of jobs that take a name. Only where it crosses zero the lock classes that need
this name may begin or cease to clash on a level; their job classes then belong into another weight class. They are
moved when somebody next asks for the best: a job takes and frees locks several times between two choices, its next one
often turns the last around, and a lock class that many admission classes divide has many job classes. A limit that
becomes full or free closes or opens admission classes, each by hiding or showing a head in each of its partitions,
however many jobs it has.

Considered and rejected: one sorted list (each start would re-weigh all), a heap a class (with a name for each instance
there are as many classes as jobs), a queue for each tick (all jobs would move twice a minute).

Source: DESIGN section 6, "Selection", "Weights"; predictive-queue design; luxid.md 5.11.
"""

from collections.abc import Iterable, Iterator
from heapq import nsmallest

from common.ids import JobId
from daemons.luxid.core.choice.admission import AdmissionClasses
from daemons.luxid.core.choice.jobclasses import Admission, AdmissionClass, JobClass, Key, Partition, WeightClass
from daemons.luxid.core.choice.lockclasses import LockClass, LockClasses
from daemons.luxid.core.choice.needs import Needs, Shape
from daemons.luxid.core.choice.ratelimit import Limit, LimitUsage
from daemons.luxid.core.choice.runninglocks import NameChange, RunningLocks
from daemons.luxid.core.choice.weights import WeightRules

# priority, aged weight, age and id: the smallest is started first
Rank = tuple[int, float, Key]


class Picker:
    """The ready jobs, and the best of them."""

    def __init__(self, rules: WeightRules, running_locks: RunningLocks, limit_usage: LimitUsage) -> None:
        self._rules = rules
        self._running_locks = running_locks
        self._classes = LockClasses(running_locks)
        self._class_of: dict[JobId, JobClass] = {}
        self._admissions = AdmissionClasses(limit_usage)
        self._weight_classes: dict[int, dict[tuple[Shape, int], WeightClass]] = {}
        # lock classes whose clashes have changed since their job classes were filed
        self._misfiled: dict[LockClass, None] = {}
        self._touched = 0

    def __contains__(self, job_id: JobId) -> bool:
        return job_id in self._class_of

    @property
    def touched(self) -> int:
        """Groups and jobs looked at so far."""
        return self._touched + self._admissions.touched

    # what happened

    def add(self, job_id: JobId, received_tick: int, priority: int, needs: Needs, admission: Admission) -> None:
        """The job, which is not here, is ready.

        Args:
            received_tick: never another one for the same job.
        """
        job_class = self._job_class(self._admissions.find(admission), priority, self._classes.find(needs))
        self._enter_class(job_class, (received_tick, job_id))

    def remove(self, job_id: JobId) -> None:
        """The job is ready no longer."""
        self._leave_class(self._class_of.pop(job_id))

    def refile(self, job_id: JobId, received_tick: int, admission: Admission) -> None:
        """Re-file a ready job whose limits or pause state changed; as `remove` and `add`, at half the price."""
        before = self._class_of[job_id]
        after = self._job_class(self._admissions.find(admission), before.priority, before.lock_class)
        self._enter_class(after, (received_tick, job_id))
        self._leave_class(before)

    def names_changed(self, changes: Iterable[NameChange]) -> None:
        """Running jobs began or ceased to take these names."""
        for lock_class in self._classes.concerned(changes):
            self._touched += 1
            if lock_class.clashes != lock_class.filed_clashes:
                self._misfiled[lock_class] = None
            else:
                self._misfiled.pop(lock_class, None)

    def close(self, limits: Iterable[Limit]) -> None:
        """These limits are full now."""
        self._admissions.close(limits)

    def open(self, limits: Iterable[Limit]) -> None:
        """These limits have room now."""
        self._admissions.open(limits)

    # what follows

    def best(self, now_tick: int) -> JobId | None:
        """The job to start next; None: there is none that may.

        Cost: linear in the weight classes, and in the job classes of those lock classes that clash otherwise than when
            this was last asked; not in the jobs.
        """
        self._refile_all()
        for priority in sorted(self._weight_classes):
            weight_classes = self._weight_classes[priority].values()
            self._touched += len(weight_classes)
            heads = [(each, head) for each in weight_classes if (head := each.first()) is not None]
            if heads:
                factor = self._rules.factor
                _, first = min((self._static(each) * factor(head[0], now_tick), head) for each, head in heads)
                return JobId(first[1])
        return None

    def ahead(self, rank: Rank, now_tick: int, named: int) -> tuple[int, tuple[JobId, ...]]:
        """How many ready jobs are started before one of this rank, and the first of them.

        Args:
            named: so many are named.
        Cost: linear in the classes, and in the jobs of those classes that reach before it; for explanations.
        """
        self._refile_all()
        count = 0
        heads: list[tuple[Rank, int, JobClass]] = []
        for number, job_class in enumerate(self._open_classes(rank[0])):
            first = self._rank(job_class, job_class.head, now_tick) if job_class.head is not None else rank
            if first < rank:
                heads.append((first, number, job_class))
                is_whole = job_class.size == 1 or job_class.priority < rank[0]
                count += job_class.size if is_whole else self._count_before(job_class, rank, now_tick)
        # the first jobs are all of the job classes with the first heads
        leaders = [job_class for _, _, job_class in nsmallest(named, heads)]
        ranks = (self._rank(job_class, key, now_tick) for job_class in leaders for key in job_class.valid_keys())
        return count, tuple(JobId(each[2][1]) for each in nsmallest(named, ranks) if each < rank)

    def _count_before(self, job_class: JobClass, rank: Rank, now_tick: int) -> int:
        return sum(self._rank(job_class, key, now_tick) < rank for key in job_class.valid_keys())

    def _open_classes(self, lowest: int) -> Iterator[JobClass]:
        """Those of this priority and better ones."""
        for lock_class in self._classes:
            for job_class in lock_class.job_classes:
                if job_class.priority <= lowest and not job_class.admission.closed_by:
                    yield job_class

    def _rank(self, job_class: JobClass, key: Key, now_tick: int) -> Rank:
        weight = self._static(job_class.partition.weight_class) * self._rules.factor(key[0], now_tick)
        return job_class.priority, weight, key

    def groups(self) -> int:
        """How many admission, weight and lock classes there are, and how many of the last are misfiled."""
        weight_classes = sum(map(len, self._weight_classes.values()))
        return len(self._admissions) + weight_classes + len(self._classes) + len(self._misfiled)

    def _static(self, weight_class: WeightClass) -> float:
        if weight_class.epoch != self._running_locks.epoch:
            weight_class.epoch = self._running_locks.epoch
            weight_class.weight = self._running_locks.static_weight(weight_class.shape, weight_class.clashes)
        return weight_class.weight

    # groups come and go with their jobs

    def _job_class(self, admission: AdmissionClass, priority: int, lock_class: LockClass) -> JobClass:
        job_class: JobClass | None = lock_class.find_class(admission, priority)
        if job_class is None:
            partition = self._partition(admission, self._weight_class(priority, lock_class))
            job_class = JobClass(self._class_of, priority, admission, lock_class, partition)
            lock_class.add_class(job_class)
            partition.size += 1
        return job_class

    def _enter_class(self, job_class: JobClass, key: Key) -> None:
        self._class_of[JobId(key[1])] = job_class
        job_class.size += 1
        self._touched += 1
        job_class.push(key)
        job_class.refresh()

    def _leave_class(self, job_class: JobClass) -> None:
        """Take note that a job has left the class."""
        job_class.size -= 1
        self._touched += 1
        job_class.refresh()
        if not job_class.size:
            self._drop_class(job_class)

    def _drop_class(self, job_class: JobClass) -> None:
        self._leave_partition(job_class.partition)
        job_class.lock_class.drop_class(job_class)
        if not job_class.lock_class.job_classes:
            self._classes.drop(job_class.lock_class)
            self._misfiled.pop(job_class.lock_class, None)
        if not job_class.admission.partitions:
            self._admissions.drop(job_class.admission)

    def _refile_all(self) -> None:
        """Move every misfiled job class into the weight class that its lock class's clashes mean."""
        for lock_class in self._misfiled:
            lock_class.filed_clashes = lock_class.clashes
            for job_class in lock_class.job_classes:
                self._refile(job_class)
        self._misfiled.clear()

    def _refile(self, job_class: JobClass) -> None:
        self._touched += 1
        before, weight_class = job_class.partition, self._weight_class(job_class.priority, job_class.lock_class)
        after = self._partition(job_class.admission, weight_class)
        after.size += 1
        job_class.enter(after)
        self._leave_partition(before)

    def _leave_partition(self, partition: Partition) -> None:
        """One job class less is in the partition."""
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

    def _weight_class(self, priority: int, lock_class: LockClass) -> WeightClass:
        weight_classes = self._weight_classes.setdefault(priority, {})
        key = (lock_class.needs.shape, lock_class.filed_clashes)
        weight_class = weight_classes.get(key)
        if weight_class is None:
            weight_class = weight_classes[key] = WeightClass(self._class_of, priority, *key)
        return weight_class

    def _drop_weight_class(self, weight_class: WeightClass) -> None:
        weight_classes = self._weight_classes[weight_class.priority]
        del weight_classes[weight_class.shape, weight_class.clashes]
        if not weight_classes:
            del self._weight_classes[weight_class.priority]
