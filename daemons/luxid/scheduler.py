"""The shell around the queue's core: takes events in, and carries out what the core decides.

What is told here has already happened on disk. Every method that takes an event is synchronous: the
core, the table and the waiters see it at once, and what follows from it is begun as tasks.

Source: DESIGN section 6.
"""

import functools
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import trio

from common.ids import JobId
from common.objects.filter import FilterRule
from common.queue.jobs import Job, JobState
from common.settings import LuxidSettings
from common.system.log import get_log
from daemons.luxid.bells import Bells
from daemons.luxid.core.choice.weights import WeightRules
from daemons.luxid.core.queue.jobqueue import JobQueue
from daemons.luxid.core.queue.recovery import Ask, Fate
from daemons.luxid.files.joblogs import JobLogs
from daemons.luxid.files.loading import FoundJob
from daemons.luxid.files.rewriting import Rewriting
from daemons.luxid.files.store import Store
from daemons.luxid.files.unread import UnreadFiles
from daemons.luxid.files.waitfiles import WaitFiles
from daemons.luxid.jobtable import JobTable
from daemons.luxid.jobviews import JobViews
from daemons.luxid.lasting import lasting
from daemons.luxid.processes.killmessages import KillMessages
from daemons.luxid.processes.pausing import Pauses
from protocol.forkserver import Secrets

# each start is mostly waiting for a fork and a write; more at once gain nothing
STARTS_AT_ONCE: Final = 8
_log: Final = get_log(__name__)


class Scheduler:
    """All that luxid knows of its jobs, and the one place where events meet."""

    def __init__(self, store: Store, settings: LuxidSettings) -> None:
        self.store = store
        self.table = JobTable(store.find_live)
        self.logs = JobLogs(store.paths)
        self.waits = WaitFiles(store.paths)
        self.unread = UnreadFiles()
        self.queue = JobQueue(settings.max_running_jobs, STARTS_AT_ONCE, store.archived_state, _weights(settings))
        # what was asked for jobs with a process; until they end
        self.asks: dict[JobId, Ask] = {}
        self.kill_messages = KillMessages(store.paths)
        self.views = JobViews(self.queue, self.table, self.logs, self.asks)
        self.rewriting = Rewriting(store, self.queue, self.table, self.ended, self.requeue)
        # rung at every change of a job; of a livelock: by its file name, when it may have been let go
        self.bells: Bells[JobId] = Bells()
        self.livelock_bells: Bells[str] = Bells()
        # the secret parameters of jobs that have any, an item an opcode: nowhere but here; until they end
        self.secrets: dict[JobId, Secrets] = {}
        # of jobs that have a process: the one that was made for it, which may be a wrapper
        self.child_pids: dict[JobId, int] = {}
        # deaths that only the sweep found: each is a missed event, and a defect
        self.swept_deaths = 0
        # told of each job that ended
        self.on_ended: Callable[[Job], None] = _ignore
        # why no job is started for the moment
        self._obstacles: set[str] = set()
        # jobs whose states others wait for, and that cannot be read
        self._sought: set[JobId] = set()
        self._is_pumping = False
        self.pauses = Pauses(store.paths)
        # whether every process heeds a request to pause; else those that said so to this luxid
        self.all_heed_pauses = True
        self.heeding: set[JobId] = set()
        self._nursery: trio.Nursery | None = None
        self._start: Callable[[JobId], Awaitable[None]] | None = None

    def begin(self, nursery: trio.Nursery, start: Callable[[JobId], Awaitable[None]]) -> None:
        """Carry decisions out from now on, in this nursery; jobs are started by `start`."""
        self._nursery, self._start = nursery, start
        nursery.start_soon(self.rewriting.run)
        self.pump()

    def recover(self, found: Iterable[FoundJob]) -> list[Job]:
        """Take the jobs of an earlier luxid, before `begin`; answers those that died with an opcode under way.

        Ends come first, as the verdicts on the others depend on them.
        """
        jobs = list(found)
        for each in jobs:
            self.table.put(each.job)
            if each.fate is Fate.ENDED:
                self.queue.end(each.job.job_id, each.job.state)
            elif each.fate is not Fate.CONTINUE:
                self.queue.adopt(each.job)
        with lasting():
            self.queue.add_all(each.job for each in jobs if each.fate is Fate.CONTINUE)
        return [each.job for each in jobs if each.fate is Fate.DEAD]

    # what happened

    def add(self, jobs: Iterable[Job]) -> None:
        """New jobs, durable."""
        for job in jobs:
            self.table.put(job)
            self.queue.add(job)
        self.pump()

    def requeue(self, job: Job) -> None:
        """A job without a process goes on waiting for its turn."""
        self.table.put(job)
        self.queue.add(job)
        self.bells.ring(job.job_id)
        self.pump()

    def started(self, job: Job) -> None:
        """The job, as just written, has a process."""
        self.table.put(job)
        self.queue.started(job.job_id)
        self.bells.ring(job.job_id)
        # a slot of those that are starting is free
        self.pump()

    def heeds_pauses(self, job_id: JobId) -> None:
        """The process of the job, an external executor, has said that it heeds requests to pause."""
        if self.queue.phase(job_id) is None:
            return
        self.heeding.add(job_id)
        if self.queue.should_pause(job_id):
            self._tell_pauses([job_id])

    def advanced(self, job: Job) -> None:
        """The process of the job has written this."""
        self.table.put(job)
        self.queue.advanced(job)
        self.bells.ring(job.job_id)

    def ended(self, job: Job) -> None:
        """The job is final, durably."""
        state = job.state
        self.table.put(job)
        self.queue.end(job.job_id, state)
        if self.asks.pop(job.job_id, None) is Ask.KILL:
            self.kill_messages.withdraw(job.job_id)
        self.secrets.pop(job.job_id, None)
        self.child_pids.pop(job.job_id, None)
        self.heeding.discard(job.job_id)
        self.logs.forget(job.job_id)
        self.on_ended(job)
        self.bells.ring(job.job_id)
        _log.info("job.ended", job=job.job_id, state=state.value)
        self.pump()

    def archived(self, job_ids: Iterable[JobId]) -> None:
        for job_id in job_ids:
            self.table.drop(job_id)
            self.queue.forget(job_id)
            self.bells.ring(job_id)

    def filters_changed(self, rules: Iterable[FilterRule]) -> None:
        """These are the rules, durably.

        Raises: InvalidRequest: one is wrong; those in force stay.
        """
        self.queue.filters_changed(rules)
        self.pump()

    def limit_running(self, count: int) -> None:
        """So many jobs may have a process from now on; those that have one keep it."""
        if count != self.queue.slots:
            _log.info("limit.running", jobs=count, before=self.queue.slots)
            self.queue.slots = count
            self.pump()

    # what follows

    def pump(self) -> None:
        """Begin what the core decides."""
        if self._nursery is None or self._start is None:
            return
        decisions = self.queue.decide(time.time(), may_start=not self._obstacles)
        self.waits.write(decisions.waited)
        self.rewriting.end_soon(decisions.doomed, decisions.rejected)
        for job_id in decisions.unblocked:
            self.bells.ring(job_id)
        for job_id in decisions.untold:
            if job_id not in self._sought:
                self._sought.add(job_id)
                self._nursery.start_soon(self._find_out, job_id)
        self._tell_pauses((*decisions.pause, *decisions.resume))
        for job_id in decisions.start:
            self._nursery.start_soon(self._start, job_id)
        if decisions.is_unfinished and not self._is_pumping:
            self._is_pumping = True
            self._nursery.start_soon(self._pump_on)

    def _tell_pauses(self, job_ids: Iterable[JobId]) -> None:
        for job_id in job_ids:
            tell = functools.partial(self._tell_pause, job_id)
            if not tell() and self._nursery is not None:
                self._nursery.start_soon(self.pauses.until_told, job_id, tell)

    def _tell_pause(self, job_id: JobId) -> bool:
        """Ask the job to pause, or withdraw that, as the rules now are; false: the disk refused."""
        if self.queue.should_pause(job_id):
            return self.pauses.ask(self.job(job_id), is_heeded=self.all_heed_pauses or job_id in self.heeding)
        return self.pauses.withdraw(job_id)

    def obstruct(self, why: str) -> None:
        """Start no job until this obstacle is cleared."""
        self._obstacles.add(why)
        self.pump()

    def clear(self, why: str) -> None:
        self._obstacles.discard(why)
        self.pump()

    async def _find_out(self, job_id: JobId) -> None:
        """Tell those who wait for a job how it ended, as soon as its file can be read."""
        state = await self.unread.until_read(job_id, self._state_if_awaited)
        self._sought.discard(job_id)
        self.queue.found(job_id, state)
        self.pump()

    def _state_if_awaited(self, job_id: JobId) -> JobState | None:
        return self.store.archived_state(job_id) if self.queue.is_awaited(job_id) else None

    async def _pump_on(self) -> None:
        """After those who wait for the event loop, go on with what was left unfinished."""
        await trio.lowlevel.checkpoint()
        self._is_pumping = False
        self.pump()

    # what is so

    @property
    def obstacles(self) -> tuple[str, ...]:
        """Why no job is started for the moment; none if they are."""
        return tuple(sorted(self._obstacles))

    def job(self, job_id: JobId) -> Job:
        """A live job that has not ended."""
        return self.table.unended(job_id)


def _ignore(_: Job) -> None:
    pass


def _weights(settings: LuxidSettings) -> WeightRules:
    return WeightRules(
        is_enabled=settings.predictive,
        base=settings.lock_weight_base,
        tick_s=settings.lock_weight_tick_s,
        ticks=settings.lock_weight_ticks,
    )
