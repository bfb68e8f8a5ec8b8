"""A fleet where there is no terminal: a line when a job begins, and one when it has ended.

Source: DESIGN section 13, "Fleet".
"""

from collections.abc import Sequence
from contextlib import closing
from typing import Final

from cli.connection import open_luxid
from cli.fleet.fleetjobs import Fleet, FleetJob
from cli.fleet.fleetsummary import end_text
from cli.live.events import Change
from cli.live.followers import follow_jobs
from cli.outcomes import fetch_outcomes
from cli.screen import write
from common.queue.jobs import FINAL_NAMES
from common.words.loglines import log_text
from common.words.text import defused
from protocol.luxi.output import OutputStream

_STATUS_WIDTH: Final = max(map(len, FINAL_NAMES))


def show_fleet_lines(fleet: Fleet, streams: Sequence[OutputStream]) -> None:
    """Tell how the jobs go on until all have ended.

    Raises: as `Follower.next_event`.
    """
    with closing(follow_jobs(list(fleet.jobs), streams)) as followers:
        for event in followers:
            before = fleet.jobs[event.job_id].status
            job = fleet.note(event)
            if isinstance(event, Change):
                for line in event.log:
                    _tell(fleet, job, log_text(line))
                if job.status == "running" != before:
                    _tell(fleet, job, f"{job.status:<{_STATUS_WIDTH}}  job {job.job_id}")
                elif job.is_final:
                    _tell(fleet, job, f"{job.status:<{_STATUS_WIDTH}}  {_end_of(job)}")


def _tell(fleet: Fleet, job: FleetJob, text: str) -> None:
    size = str(len(fleet.jobs))
    progress = f"[{fleet.ended_count:>{len(size)}}/{size}]"
    write(defused(f"{progress} {job.element:<{fleet.name_width}}  {text}".rstrip()) + "\n")


def _end_of(job: FleetJob) -> str:
    # the last output may come later than the end, and the result has it
    with open_luxid() as client:
        (outcome,) = fetch_outcomes(client, [job.job_id])
    return end_text(outcome)
