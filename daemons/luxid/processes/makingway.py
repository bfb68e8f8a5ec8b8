"""Make way for another master: nothing new begins, and what runs here ends, but for what goes on elsewhere.

Theory. While this lasts no job is started or taken up, and no submission is accepted. A job process ends before its
next opcode, or when it waits for locks; the job goes on with the next master. A job whose command runs on a node loses
its process: the command goes on, and the next master takes it up. Other opcodes are waited for, or killed.

Source: DESIGN section 14; lease.md 7, "switchover".
"""

import signal
from collections.abc import Iterable
from typing import Final

import trio

from common.ids import JobId
from common.system.log import get_log
from daemons.luxid.core.queue.decisions import Phase
from daemons.luxid.core.queue.recovery import Ask
from daemons.luxid.jobs.jobevents import JobEvents
from daemons.luxid.jobs.livejobs import MAKING_WAY, LiveJobs
from daemons.luxid.processes.killing import Kills
from daemons.luxid.processes.pausing import Pauses
from daemons.luxid.processes.signals import signal_process
from daemons.luxid.processes.takingup import TakeUps

# a process has the job, or had it, or luxid is about to write how it ended
_BUSY: Final = (Phase.STARTING, Phase.RUNNING, Phase.HELD)
_log: Final = get_log(__name__)


class MakingWay:
    """Begins with the first call of `begin`, and ends with the last of `end`."""

    def __init__(self, jobs: LiveJobs, events: JobEvents, take_ups: TakeUps, pauses: Pauses, kills: Kills) -> None:
        self._jobs = jobs
        self._events = events
        self._take_ups = take_ups
        self._pauses = pauses
        self._kills = kills
        self._holders = 0

    def begin(self) -> None:
        """Take and start nothing more, until `end`."""
        self._holders += 1
        if self._holders == 1:
            self._events.obstruct(MAKING_WAY)
            self._take_ups.hold()
            self._pauses.all_pause = True
            self._tell(self._jobs.queue.running())

    def end(self) -> None:
        """Take and start jobs again, unless others want way."""
        self._holders -= 1
        if not self._holders:
            self._pauses.all_pause = False
            self._tell(self._jobs.queue.running())
            self._take_ups.go_on()
            self._events.clear(MAKING_WAY)

    async def until_nothing_runs(self, *, kill: bool) -> None:
        """Return when no job has a process here, and its file says how far it is. Args: kill: opcodes that run here."""
        busy = self._jobs.queue.busy()
        _log.info("master.makes_way", jobs=len(busy), kill=kill)
        async with trio.open_nursery() as nursery:
            for job_id in busy:
                nursery.start_soon(self._until_idle, job_id, kill)

    async def _until_idle(self, job_id: JobId, kill: bool) -> None:  # from `start_soon`
        has_killed = False
        with self._jobs.bells.listen(job_id) as bell:
            while (phase := self._jobs.phase(job_id)) in _BUSY:
                if phase is Phase.RUNNING and self._jobs.processes.ask(job_id) is not Ask.KILL:
                    job = self._jobs.unended(job_id)
                    if self._jobs.work_left(job) is not None:
                        # its command goes on
                        signal_process(job, signal.SIGKILL)
                    elif kill and not has_killed:
                        has_killed = True
                        await self._kills.kill(job)
                        continue
                await bell.wait()

    def _tell(self, job_ids: Iterable[JobId]) -> None:
        # one that the disk refuses runs on to its end, or stops once for nothing
        self._pauses.tell(job_ids)
