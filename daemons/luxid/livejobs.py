"""The live jobs in memory: what their files say, what the core makes of them, which process each has, who listens.

Source: DESIGN section 6.
"""

import attrs

from common.ids import JobId
from common.queue.jobs import Job
from daemons.luxid.bells import Bells
from daemons.luxid.core.queue.decisions import Phase
from daemons.luxid.core.queue.jobqueue import JobQueue
from daemons.luxid.files.unread import UnreadFiles
from daemons.luxid.jobtable import JobTable
from daemons.luxid.processes.jobprocesses import JobProcesses


@attrs.frozen
class LiveJobs:
    """The parts that know live jobs. Only the scheduler tells them of events; all others look."""

    queue: JobQueue
    table: JobTable
    processes: JobProcesses
    # rung at every change of a job
    bells: Bells[JobId] = attrs.Factory(Bells)
    # the job files that cannot be read for the moment
    unread: UnreadFiles = attrs.Factory(UnreadFiles)
    # the reasons why no job is started for the moment
    obstacles: set[str] = attrs.Factory(set)

    def phase(self, job_id: JobId) -> Phase | None:
        """Where the job stands; None: it is not live, or has ended."""
        return self.queue.phase(job_id)

    def unended(self, job_id: JobId) -> Job:
        """A live job that has not ended."""
        return self.table.unended(job_id)
