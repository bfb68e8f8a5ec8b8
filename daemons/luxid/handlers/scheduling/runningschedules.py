"""The parts that run schedules, made together.

Source: DESIGN section 16.
"""

from typing import Final

import attrs
import trio

from common.errors import GantryError
from common.ids import JobId
from common.opcodes.command import OpRunCommand
from common.schedules.schedule import Schedule
from common.settings import LimitsSettings
from common.system.clocks.wallclock import WallClock
from common.system.log import get_log
from daemons.luxid.handlers.scheduling.ownjobs import OwnJobs
from daemons.luxid.handlers.scheduling.schedulecalls import Schedules
from daemons.luxid.jobs.livejobs import LiveJobs
from daemons.luxid.processes.cancelling import Canceller
from daemons.luxid.schedules.book import ScheduleBook
from daemons.luxid.schedules.firing import Firing
from daemons.luxid.submitters import Submitters
from protocol.luxi.submission import JobInput

_log: Final = get_log(__name__)


@attrs.frozen
class ScheduleParts:
    """What schedules need of the rest of luxid. Args: nursery: runs what takes long."""

    book: ScheduleBook
    own_jobs: OwnJobs
    submitters: Submitters
    jobs: LiveJobs
    canceller: Canceller
    limits: LimitsSettings
    nursery: trio.Nursery

    def begin(self) -> Schedules:
        """Begin to submit what is due; return the methods about schedules. Raises: OSError: no descriptor is left."""
        firing = Firing(self.book, WallClock(), self._submit, self._cancel, self._is_unended)
        self.nursery.start_soon(firing.run)
        return Schedules(self.book, self.own_jobs, self.submitters, self.limits, firing.unended_jobs)

    async def _submit(self, schedule: Schedule, job: JobInput, key: str) -> JobId:
        # the user's rights are those of now
        return await self.own_jobs.submit(job, key, await self.submitters.of_schedule(schedule))

    def _cancel(self, schedule: Schedule, job_id: JobId) -> None:
        self.nursery.start_soon(self._cancel_job, schedule, job_id)

    async def _cancel_job(self, schedule: Schedule, job_id: JobId) -> None:
        caller = schedule.http_user or schedule.uid
        # a command would go on to its end; other opcodes may, as what they have begun must not be left half done
        kill = all(op.get("OP_ID") == OpRunCommand.OP_ID for op in schedule.job)
        try:
            is_done, text = await self.canceller.cancel(job_id, kill=kill, caller=caller)
        except GantryError as error:
            is_done, text = False, error.message
        _log.info("run.canceled", schedule=schedule.name, job=job_id, done=is_done, told=text)

    def _is_unended(self, job_id: JobId) -> bool:
        return self.jobs.phase(job_id) is not None
