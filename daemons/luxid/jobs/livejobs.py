"""The live jobs in memory: their files' content, the core's state of them, their processes, their listeners.

Source: DESIGN section 6.
"""

from typing import Final

import attrs

from common.ids import JobId
from common.queue.jobs import Job
from daemons.luxid.bells import Bells
from daemons.luxid.core.queue.decisions import Phase
from daemons.luxid.core.queue.jobcounts import JobCounts
from daemons.luxid.core.queue.jobqueue import JobQueue
from daemons.luxid.core.queue.nodework import NodeWork, node_work
from daemons.luxid.endings import Endings
from daemons.luxid.feednews import FeedNews
from daemons.luxid.files.unread import UnreadFiles
from daemons.luxid.jobs.jobtable import JobTable
from daemons.luxid.processes.jobprocesses import JobProcesses
from daemons.luxid.untold import Untold

# obstacle to starts and submissions
MAKING_WAY: Final = "the mastership is being moved to another node"


@attrs.frozen
class LiveJobs:
    """The parts that know live jobs. Only the scheduler reports events to them; all others read."""

    queue: JobQueue
    table: JobTable
    processes: JobProcesses
    # bells that ring at every change of a job
    bells: Bells[JobId] = attrs.Factory(Bells)
    # all changes, for luxid's feed
    news: FeedNews = attrs.Factory(FeedNews)
    # jobs that have ended, for the history
    endings: Endings = attrs.Factory(Endings)
    # events of jobs, for those who are to be told of them
    untold: Untold = attrs.Factory(Untold)
    # job files that cannot be read at the moment
    unread: UnreadFiles = attrs.Factory(UnreadFiles)
    # reasons why no job is started at the moment
    obstacles: set[str] = attrs.Factory(set)
    # numbers for graphs
    counts: JobCounts = attrs.Factory(JobCounts)
    # whether commands run on nodes, where they outlive the processes of their jobs
    takes_up: bool = False

    def phase(self, job_id: JobId) -> Phase | None:
        """The job's phase; None: it is not live, or has ended."""
        return self.queue.phase(job_id)

    def work_left(self, job: Job) -> NodeWork | None:
        """The command of a job without a process that a new process is to take up."""
        return node_work(job) if self.takes_up else None

    def unended(self, job_id: JobId) -> Job:
        """A live job that has not ended."""
        return self.table.unended(job_id)
