"""`gnt-job archive`: move ended jobs to the archive.

Source: cli.md 2, "archive"; luxid.md 2.6.
"""

from typing import Final, Unpack

import click

from cli.choosing.jobchoice import ChoiceOptions, read_choice
from cli.choosing.selection import ENDED, Action, select_jobs, selection_options
from cli.commands import Command
from cli.connection import open_luxid
from cli.context import wants_json
from cli.exitcodes import DONE, FAILED
from cli.luxid import Luxid
from cli.query import jobs_now
from cli.screen import complain, say_json
from common.errors import Conflict, Denied, NotFound, RemoteError
from common.ids import JobId
from common.words.outcome import no_such_job
from protocol.luxi.jobs import ArchiveJob

_ACTION: Final = Action("archive", ENDED)
# refusals that are about one job, and keep no other from the archive
_OF_ONE: Final = (NotFound.code, Denied.code, Conflict.code)


@click.command(
    "archive", cls=Command, examples=("gnt-job archive 27490 27491", "gnt-job archive --where 'status=success' --force")
)
@selection_options
def archive(is_forced: bool, is_dry: bool, **chosen: Unpack[ChoiceOptions]) -> int:
    """Archive these jobs, or all ended jobs for which the conditions hold.

    Archived jobs can still be listed by their ids, and with --archived.
    """
    choice = read_choice(**chosen)
    job_ids = select_jobs(choice, _ACTION, is_forced=is_forced, is_dry=is_dry, is_json=wants_json())
    with open_luxid() as client:
        answers = [_archive(client, JobId(job_id)) for job_id in job_ids]
    if wants_json():
        say_json(answers)
    refused = [job_id for job_id, is_done in zip(job_ids, answers, strict=True) if is_done is False]
    for row in jobs_now(refused, ("id", "status", "archived")) if refused else ():
        complain(_why_not(row["id"], row["status"], bool(row["archived"])))
    return DONE if all(answers) else FAILED


def _archive(client: Luxid, job_id: JobId) -> bool | None:
    """Return whether the job is archived now; None: luxid refused, and the reason has been told."""
    try:
        return client.call(ArchiveJob(job_id))
    except RemoteError as error:
        if error.code not in _OF_ONE:
            raise
        complain(error.message if str(job_id) in error.message else f"job {job_id}: {error.message}")
        return None


def _why_not(job_id: int, status: str | None, is_archived: bool) -> str:
    if status is None:
        return no_such_job(job_id)
    if is_archived:
        return f"job {job_id} is already archived; 'gnt-job info {job_id}' shows it"
    return (
        f"job {job_id} is {status}; only a job that has ended can be archived, 'gnt-job wait {job_id}' waits for that"
    )
