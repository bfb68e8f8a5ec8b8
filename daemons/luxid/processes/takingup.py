"""Give jobs whose commands run on nodes another process, when theirs has died.

Theory. Such a job runs, whether it has a process or not: it keeps its slot, and neither filters nor limits hold it. Its
next process starts at once; if processes die again and again, after pauses. As long as it has none, its file is luxid's
and stays as it is: *running*. Only the task here takes it on, to a process or to its end, so that no two write the
file. A kill ends the job at once; its command is then a ghost's, whose locks are kept until the node tells its end. A
cancel is passed to the next process: what runs goes on, what follows does not.

Source: DESIGN sections 13 and 14.
"""

import signal
import time
from typing import Final

import trio

from common.ids import JobId
from common.queue.askers import asked_by
from common.system.log import get_log
from daemons.luxid.core.queue.decisions import Phase
from daemons.luxid.core.queue.nodework import pause_before
from daemons.luxid.core.queue.recovery import Ask, Circumstances, after_death
from daemons.luxid.files.store import Store
from daemons.luxid.jobs.livejobs import LiveJobs
from daemons.luxid.jobs.rewriting import Rewriting, timestamp
from daemons.luxid.processes.signals import signal_process
from daemons.luxid.processes.starting import Starter

# as many as luxid starts of other jobs
_AT_ONCE: Final = 8
_log: Final = get_log(__name__)


class TakeUps:
    """Starts the next processes of orphaned jobs."""

    def __init__(self, jobs: LiveJobs, store: Store, starter: Starter, rewriting: Rewriting) -> None:
        self._jobs = jobs
        self._store = store
        self._starter = starter
        self._rewriting = rewriting
        self._turns = trio.CapacityLimiter(_AT_ONCE)
        # not set: nothing is taken up
        self._may_go_on = trio.Event()
        self._may_go_on.set()

    def hold(self) -> None:
        """Take up nothing until `go_on`."""
        self._may_go_on = trio.Event()

    def go_on(self) -> None:
        self._may_go_on.set()

    async def take_up(self, job_id: JobId) -> None:
        """Give an orphaned job a process; a start that comes to nothing orphans it again."""
        await self._pause(job_id)
        while not self._may_go_on.is_set():
            await self._may_go_on.wait()
        async with self._turns:
            if self._jobs.processes.ask(job_id) is Ask.KILL:
                await self._end(job_id)
            else:
                await self._start(job_id)

    async def _pause(self, job_id: JobId) -> None:
        record = self._jobs.processes.record(job_id)
        pause_s = pause_before(record.short_lives, record.failures)
        with self._jobs.bells.listen(job_id) as bell, trio.move_on_after(pause_s):
            while record.ask is not Ask.KILL:
                await bell.wait()

    async def _start(self, job_id: JobId) -> None:
        record = self._jobs.processes.record(job_id)
        record.started_s = trio.current_time()
        self._jobs.queue.start_anew(job_id)
        await self._starter.start(job_id)
        if self._jobs.phase(job_id) is not Phase.RUNNING:
            return
        record.failures = 0
        job = self._jobs.unended(job_id)
        _log.info("job.taken_up", job=job_id, pid=job.process_id)
        if record.ask is Ask.CANCEL:
            signal_process(job, signal.SIGTERM)

    async def _end(self, job_id: JobId) -> None:
        job = self._jobs.unended(job_id)
        self._jobs.queue.hold(job_id)
        by = asked_by(self._store.paths.asker_note(job_id))
        ended = after_death(job, Ask.KILL, timestamp(), time.time_ns(), by, Circumstances(takes_up=True))
        assert ended is not None
        _log.info("job.killed_as_orphan", job=job_id, effect="its locks are kept until its node tells the end")
        await self._rewriting.finish(ended)
