"""The shell around the queue's core: takes events in, and carries out the core's decisions.

Each event has already happened on disk. Every method that takes an event is synchronous: the
core, the table and the waiters see it at once, and its consequences are started as tasks.

Source: DESIGN section 6.
"""

import time
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Final

import trio

from common.ids import JobId
from common.objects.filter import FilterRule
from common.queue.jobs import Job, JobState
from common.resources import Resource
from common.system.clocks import Clock, WallClock
from common.system.inthread import give_way
from common.system.log import get_log
from common.system.program import notify
from daemons.luxid.core.queue.recovery import Fate
from daemons.luxid.files.loading import FoundJob
from daemons.luxid.files.store import Store, WaitFiles
from daemons.luxid.jobs import Ends, LiveJobs
from daemons.luxid.processes.deaths import LeftUnits
from daemons.luxid.processes.signals import Pauses
from daemons.luxid.turns import lasting

_log: Final = get_log(__name__)
JobTask = Callable[[JobId], Awaitable[None]]


def status_of(obstacles: Collection[str]) -> str:
    """What `systemctl status` shows of luxid."""
    return f"STATUS=no job starts: {'; '.join(sorted(obstacles))}" if obstacles else "STATUS=jobs start"


class Scheduler:
    """The place where events meet, and from which the core's decisions are carried out.

    Args:
        ends: takes the jobs that are to be ended.
        clock: wakes the core when jobs are to begin; None: this machine's.
    """

    def __init__(
        self,
        jobs: LiveJobs,
        store: Store,
        waits: WaitFiles,
        ends: Ends,
        pauses: Pauses,
        left: LeftUnits,
        clock: Clock | None = None,
    ) -> None:
        self._jobs = jobs
        self._clock = clock
        self._queue, self._table, self._changes, self._news = jobs.queue, jobs.table, jobs.changes, jobs.news
        self._store = store
        self._waits = waits
        self._ends = ends
        self._pauses = pauses
        self._left = left
        # jobs whose states others wait for, and that cannot be read
        self._sought: set[JobId] = set()
        self._is_pumping = False
        # None: decisions are not carried out yet
        self._nursery: trio.Nursery | None = None
        self._start: JobTask | None = None
        self._take_up: JobTask | None = None

    def begin(self, nursery: trio.Nursery, start: JobTask, take_up: JobTask | None = None) -> None:
        """Begin to carry out decisions, in this nursery.

        Args:
            start: starts a job.
            take_up: gives an orphaned job another process; None: there are no such jobs.
        """
        self._nursery, self._start, self._take_up = nursery, start, take_up
        if self._clock is None:
            self._clock = WallClock()
        nursery.start_soon(self._begin_deferred, self._clock)
        self.pump()

    def recover(self, found: Iterable[FoundJob]) -> list[Job]:
        """Take over the jobs of an earlier luxid, before `begin`; return those whose processes are to be settled.

        Ended jobs come first, because the verdicts on the others depend on them.
        """
        jobs = list(found)
        for each in jobs:
            self._table.put(each.job)
            if each.fate is Fate.ENDED:
                self._queue.end(each.job.job_id, each.job.state)
            elif each.fate is not Fate.CONTINUE:
                self._queue.adopt(each.job)
                self._jobs.processes.has(each.job.job_id, each.job.livelock)
        with lasting():
            self._queue.add_all(each.job for each in jobs if each.fate is Fate.CONTINUE)
            ended = (each.job for each in jobs if each.fate is Fate.ENDED)
            self._queue.failed_before(job for job in ended if job.state is JobState.ERROR)
        return [each.job for each in jobs if each.fate in (Fate.DEAD, Fate.TAKE_UP)]

    # what happened

    def add(self, jobs: Iterable[Job]) -> None:
        """New jobs, which are durable."""
        for job in jobs:
            self._table.put(job)
            self._queue.add(job)
            self._news.tell_job(job.job_id)
        self.pump()

    def restored(self, jobs: Iterable[Job]) -> None:
        """Jobs whose files were lost and are here again, durably: they have ended, or are on hold."""
        jobs = list(jobs)
        ended = [job for job in jobs if job.next_index is None]
        self.recover(FoundJob(job, Fate.ENDED) for job in ended)
        for job in ended:
            self._jobs.endings.ended(job)
            self._tell(job.job_id, job)
        self.add(job for job in jobs if job.next_index is not None)

    def requeue(self, job: Job) -> None:
        """A job without a process waits for its turn again; one with a command on a node, for its next process."""
        self._table.put(job)
        if self._jobs.work_left(job) is None:
            self._queue.add(job)
        else:
            self._queue.orphan(job)
            assert self._nursery is not None
            assert self._take_up is not None
            self._nursery.start_soon(self._take_up, job.job_id)
        self._jobs.notices.retried(job)
        self._tell(job.job_id)
        self.pump()

    def started(self, job: Job) -> None:
        """The job, as just written, has a process."""
        self._jobs.counts.note_start(job, time.time())
        self._table.put(job)
        self._queue.started(job.job_id)
        self._tell(job.job_id)
        # one of the slots for starting jobs is free
        self.pump()

    def heeds_pauses(self, job_id: JobId) -> None:
        """The job's process, of an external executor, supports requests to pause."""
        if self._queue.phase(job_id) is None:
            return
        self._jobs.processes.record(job_id).heeds_pauses = True
        if self._queue.should_pause(job_id):
            self._tell_pauses([job_id])

    def advanced(self, job: Job) -> None:
        """The job's process has written this state."""
        self._table.put(job)
        self._queue.advanced(job)
        self._tell(job.job_id)

    def ended(self, job: Job) -> None:
        """The job is final and durable."""
        state = job.state
        self._jobs.counts.note_end(job)
        self._table.put(job)
        self._queue.end(job.job_id, state, lives_on=self._left.keeps(job))
        self._jobs.processes.ended(job.job_id)
        self._store.logs.forget(job.job_id)
        self._tell(job.job_id, job)
        self._jobs.endings.ended(job)
        self._jobs.notices.ended(job)
        _log.info("job.ended", job=job.job_id, state=state.value)
        self.pump()

    def archived(self, job_ids: Iterable[JobId]) -> None:
        job_ids = tuple(job_ids)
        self._jobs.endings.archived(job_ids)
        for job_id in job_ids:
            self._table.drop(job_id)
            self._queue.forget(job_id)
            self._tell(job_id)

    def install_rules(self, rules: Iterable[FilterRule]) -> None:
        """Install new filter rules, which are durable already.

        Raises: InvalidRequest: a rule is malformed; those in force stay.
        """
        rules = tuple(rules)
        self._queue.install_rules(rules)
        self._news.tell_rules(rules)
        self.pump()

    def limit_running(self, count: int) -> None:
        """Set how many jobs may have a process; those that have one keep it."""
        if count != self._queue.slots:
            _log.info("limit.running", jobs=count, before=self._queue.slots)
            self._queue.slots = count
            self.pump()

    def install_resources(self, resources: Iterable[Resource]) -> None:
        """These are the present totals, which are durable."""
        self._queue.units.replace(resources)
        self.pump()

    def units_free(self, job_id: JobId) -> None:
        """Nothing runs any more of an ended job that had kept its units."""
        self._queue.units.give(job_id)
        self.pump()

    # what follows

    def pump(self) -> None:
        """Start what the core decides."""
        self._news.tell_reasons()
        if self._nursery is None or self._start is None or self._clock is None:
            return
        began = time.perf_counter()
        self._carry_out_decisions(self._nursery, self._start, self._clock)
        self._jobs.counts.scheduling.add(time.perf_counter() - began)

    def _carry_out_decisions(self, nursery: trio.Nursery, start: JobTask, clock: Clock) -> None:
        decisions = self._queue.decide(clock.now(), may_start=not self._jobs.obstacles)
        clock.wake_at(self._queue.begins_at())
        self._waits.write(decisions.waited)
        for each in decisions.waited:
            self._jobs.counts.note_waited(each.job_id, each.spans)
        self._ends.put(decisions.doomed, decisions.rejected)
        for job_id in (*decisions.unblocked, *decisions.begun):
            self._tell(job_id)
        for job_id in decisions.unknown:
            if job_id not in self._sought:
                self._sought.add(job_id)
                nursery.start_soon(self._find_out, job_id)
        self._tell_pauses((*decisions.pause, *decisions.resume))
        for job_id in decisions.start:
            nursery.start_soon(start, job_id)
        if decisions.is_unfinished and not self._is_pumping:
            self._is_pumping = True
            nursery.start_soon(self._pump_on)

    def _tell(self, job_id: JobId, job: Job | None = None) -> None:
        """Wake all who wait for this job.

        Args: job: the job, if it may not be in memory any more.
        """
        self._changes.notify(job_id)
        self._news.tell_job(job_id, job)

    def _tell_pauses(self, job_ids: Iterable[JobId]) -> None:
        for job_id in self._pauses.tell(job_ids):
            if self._nursery is not None:
                self._nursery.start_soon(self._pauses.until_told, job_id)

    def obstruct(self, why: str) -> None:
        """Start no job until this obstacle is cleared."""
        self._jobs.obstacles.add(why)
        notify(status_of(self._jobs.obstacles))
        self.pump()

    def clear(self, why: str) -> None:
        self._jobs.obstacles.discard(why)
        notify(status_of(self._jobs.obstacles))
        self.pump()

    async def _find_out(self, job_id: JobId) -> None:
        """Report to the core how an awaited job ended, as soon as its file can be read."""
        state = await self._jobs.unread.until_read(job_id, self._state_if_awaited)
        self._sought.discard(job_id)
        self._queue.found(job_id, state)
        self.pump()

    def _state_if_awaited(self, job_id: JobId) -> JobState | None:
        return self._store.archived_state(job_id) if self._queue.is_awaited(job_id) else None

    async def _begin_deferred(self, clock: Clock) -> None:
        """Let the core look at the clock when deferred jobs may begin, until cancelled."""
        try:
            while True:
                await clock.woken()
                self.pump()
        finally:
            clock.close()

    async def _pump_on(self) -> None:
        """Continue an unfinished decision after other tasks had their turn."""
        await give_way()
        self._is_pumping = False
        self.pump()
