"""Jobs as shown to users: the content of their files, and what is known beyond it.

A blocked job is shown as waiting, and so is one whose command is to begin on a node that does not answer; a job being
killed as canceling; and the log of a running one has the lines that its file does not have yet.

Source: DESIGN section 11, "waiting for dependencies"; luxid.md 8.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import attrs

from common.ids import JobId
from common.queue.jobs import Job, JobState, LogEntry
from common.queue.silencenotes import SilenceNote
from daemons.luxid.core.query.jobfields import JobView
from daemons.luxid.core.queue.decisions import Phase
from daemons.luxid.core.queue.privacy import Viewer, public_job
from daemons.luxid.core.queue.recovery import Ask
from daemons.luxid.files.joblogs import JobLogs
from daemons.luxid.jobs.livejobs import LiveJobs

_RUNNING: Final = (Phase.RUNNING, Phase.ORPHANED)


class JobViews:
    """The visible state of live jobs."""

    def __init__(self, jobs: LiveJobs, logs: JobLogs, silence_note: Callable[[int], Path]) -> None:
        """Args: silence_note: the place of a job's note that its node is silent (`common.queue.silencenotes`)."""
        self._jobs = jobs
        self._logs = logs
        self._silence_note = silence_note

    def of(self, job: Job) -> JobView:
        entry = self._jobs.queue.entry(job.job_id)
        phase = entry.phase if entry is not None else None
        summary = entry.summary if entry is not None and entry.job is job else None
        is_running = phase in _RUNNING
        complete = self._logs.complete if is_running else None
        is_ending = is_running and self._jobs.processes.ask(job.job_id) is Ask.KILL
        return JobView(
            job,
            is_blocked=phase is Phase.BLOCKED,
            is_silent=is_running and not is_ending and self._waits_for_node(job),
            is_ending=is_ending,
            summary=summary,
            complete=complete,
        )

    def _waits_for_node(self, job: Job) -> bool:
        """Whether its process has noted that the command has not begun, as its node does not answer."""
        index = job.next_index
        if index is None or job.livelock is None or not job.ops[index].input.get("node"):
            return False
        try:
            silent = SilenceNote(self._silence_note(job.job_id), job.livelock).read()
        except OSError:
            # `why` tells of it
            return False
        return silent is not None and not silent.may_run

    @staticmethod
    def seen_by(viewer: Viewer, view: JobView) -> JobView:
        """The part of the view that this user may see."""
        return view if viewer.may_see(view.job) else _public(view)

    def state(self, job_id: JobId) -> JobState | None:
        """The state of a live job as shown."""
        job = self._jobs.table.get(job_id)
        return self.of(job).state if job is not None else None

    def newer_log(self, job: Job, serial: float) -> list[LogEntry]:
        """The log lines after this serial that the given job does not have yet."""
        return self._logs.newer(job, serial) if self._jobs.queue.phase(job.job_id) in _RUNNING else []


def _public(view: JobView) -> JobView:
    return attrs.evolve(view, job=public_job(view.job), summary=None, complete=None)
