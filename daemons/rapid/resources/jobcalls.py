"""The rows of /3/jobs.

Source: DESIGN section 15.
"""

from collections.abc import Sequence
from typing import Final

from common.webaccess.rights import Right
from daemons.rapid.calls import Call
from daemons.rapid.resources import jobfollowing, joblists
from daemons.rapid.resources.clusterstate import WhyJobs
from daemons.rapid.resources.jobchanges import BulkActions, JobActions
from daemons.rapid.resources.jobfollowing import JobOutputs, JobWaits
from daemons.rapid.resources.joblists import JobLists
from daemons.rapid.resources.jobsubmission import KEY, TRACE, JobSubmission
from protocol.luxi.jobs import JobOutput, OutputTimes, Submission
from protocol.rapid.explanations import (
    Explanation,
    Explanations,
    JobIds,
    LeftProcesses,
    LeftProcessesOfJobs,
    Waits,
    WaitsOfJobs,
)
from protocol.rapid.jobactions import (
    ArchiveMany,
    AutoArchived,
    AutoArchiveWish,
    CancelMany,
    CancelWish,
    Done,
    ManyChanged,
    PrioritizeMany,
    PriorityWish,
)
from protocol.rapid.jobs import Job, JobChange, JobPage, JobQuery, Submitted

_READ: Final = (Right.JOBS_READ,)


def reads() -> Sequence[Call]:
    """Calls that show jobs."""
    lists, why, waits, outputs = JobLists(), WhyJobs(), JobWaits(), JobOutputs()
    own = (joblists.FILTER, joblists.FIELDS, joblists.LIMIT, joblists.CURSOR, joblists.ORDER, joblists.ARCHIVED)
    wait = (joblists.FIELDS, jobfollowing.UNTIL, jobfollowing.PREVIOUS, jobfollowing.SERIAL, jobfollowing.WAIT_TIMEOUT)
    output = (jobfollowing.STREAM, jobfollowing.OFFSET, jobfollowing.FOLLOW, jobfollowing.TRY, jobfollowing.RANGE)
    piece = (jobfollowing.STREAM, jobfollowing.OFFSET, jobfollowing.TRY, jobfollowing.OUTPUT_TIMEOUT)
    one = "/3/jobs/{id:int}"
    return [
        Call(
            "GET",
            "/3/jobs",
            lists.list_jobs,
            "List jobs, a page at a time.",
            name="listJobs",
            tag="jobs",
            rights=_READ,
            gives=JobPage,
            parameters=own,
        ),
        Call(
            "POST",
            "/3/jobs/query",
            lists.query_jobs,
            "List jobs by many ids or a long filter.",
            name="queryJobs",
            tag="jobs",
            rights=_READ,
            takes=JobQuery,
            gives=JobPage,
        ),
        Call(
            "GET",
            one,
            lists.get_job,
            "Show a job.",
            name="getJob",
            tag="jobs",
            rights=_READ,
            gives=Job,
            errors=(404,),
            parameters=(joblists.FIELDS,),
        ),
        Call(
            "GET",
            f"{one}/wait",
            waits.wait_for_job,
            "Wait until a job changes or ends.",
            name="waitForJob",
            tag="jobs",
            rights=_READ,
            gives=JobChange,
            errors=(404,),
            parameters=wait,
            only_waits=True,
        ),
        Call(
            "GET",
            f"{one}/why",
            why.explain_job,
            "Say why a job does not run.",
            name="explainJob",
            tag="jobs",
            rights=_READ,
            gives=Explanation,
            errors=(404,),
        ),
        Call(
            "POST",
            "/3/jobs/why",
            why.explain_jobs,
            "Say why jobs do not run.",
            name="explainJobs",
            tag="jobs",
            rights=_READ,
            takes=JobIds,
            gives=Explanations,
        ),
        Call(
            "GET",
            f"{one}/waits",
            why.read_waits,
            "Say what a job waited for.",
            name="getWaitsOfJob",
            tag="jobs",
            rights=_READ,
            gives=Waits,
            errors=(404,),
        ),
        Call(
            "POST",
            "/3/jobs/waits",
            why.read_waits_of_jobs,
            "Say what jobs waited for.",
            name="getWaitsOfJobs",
            tag="jobs",
            rights=_READ,
            takes=JobIds,
            gives=WaitsOfJobs,
        ),
        Call(
            "GET",
            f"{one}/processes",
            why.read_left_processes,
            "List what an ended job left running.",
            name="getProcessesOfJob",
            tag="jobs",
            rights=_READ,
            gives=LeftProcesses,
            errors=(404,),
        ),
        Call(
            "POST",
            "/3/jobs/processes",
            why.read_left_processes_of_jobs,
            "List what ended jobs left running.",
            name="getProcessesOfJobs",
            tag="jobs",
            rights=_READ,
            takes=JobIds,
            gives=LeftProcessesOfJobs,
        ),
        Call(
            "GET",
            f"{one}/output",
            outputs.read_output,
            "Read the output of a job's commands.",
            name="getJobOutput",
            tag="jobs",
            rights=_READ,
            gives=str,
            media_type="text/plain",
            also=(206,),
            errors=(404, 416),
            parameters=output,
            only_waits=True,
        ),
        Call(
            "GET",
            f"{one}/output/piece",
            outputs.read_piece,
            "Read a piece of the output, or wait for one.",
            name="getJobOutputPiece",
            tag="jobs",
            rights=_READ,
            gives=JobOutput,
            errors=(404,),
            parameters=piece,
            only_waits=True,
        ),
        Call(
            "GET",
            f"{one}/output/times",
            outputs.read_times,
            "Say when which bytes of the output came, to a quarter of a second.",
            name="getJobOutputTimes",
            tag="jobs",
            rights=_READ,
            gives=OutputTimes,
            errors=(404,),
            parameters=(jobfollowing.STREAM, jobfollowing.OFFSET, jobfollowing.OUTPUT_END),
        ),
    ]


def changes() -> Sequence[Call]:
    """Calls that submit or change one job."""
    submission, actions = JobSubmission(), JobActions()
    one = "/3/jobs/{id:int}"
    own = (Right.JOBS_SUBMIT,)
    return [
        Call(
            "POST",
            "/3/jobs",
            submission.submit_jobs,
            "Submit one or several jobs.",
            name="submitJobs",
            tag="jobs",
            rights=own,
            takes=Submission,
            gives=Submitted,
            status=201,
            errors=(409, 502),
            parameters=(KEY, TRACE),
            changes=True,
        ),
        Call(
            "POST",
            f"{one}/cancel",
            actions.cancel_job,
            "Cancel a job.",
            name="cancelJob",
            tag="jobs",
            rights=(*own, Right.JOBS_CANCEL),
            takes=CancelWish,
            is_body_required=False,
            gives=Done,
            errors=(404, 409),
            changes=True,
        ),
        Call(
            "POST",
            f"{one}/priority",
            actions.change_priority,
            "Give a job another priority.",
            name="prioritizeJob",
            tag="jobs",
            rights=(*own, Right.JOBS_PRIORITY),
            takes=PriorityWish,
            gives=Done,
            errors=(404, 409),
            changes=True,
        ),
        Call(
            "POST",
            f"{one}/archive",
            actions.archive_job,
            "Archive a job that has ended.",
            name="archiveJob",
            tag="jobs",
            rights=(*own, Right.JOBS_ARCHIVE),
            gives=Done,
            errors=(404, 409),
            changes=True,
        ),
        Call(
            "POST",
            "/3/jobs/autoarchive",
            actions.archive_old,
            "Archive all jobs that ended some time ago.",
            name="archiveOldJobs",
            tag="jobs",
            rights=(Right.JOBS_ARCHIVE,),
            takes=AutoArchiveWish,
            gives=AutoArchived,
            changes=True,
        ),
    ]


def bulk_changes() -> Sequence[Call]:
    """Calls that change many jobs."""
    bulk = BulkActions()
    own = (Right.JOBS_SUBMIT,)
    return [
        Call(
            "POST",
            "/3/jobs/cancel",
            bulk.cancel_many,
            "Cancel many jobs, or say which.",
            name="cancelJobs",
            tag="jobs",
            rights=(*own, Right.JOBS_CANCEL),
            takes=CancelMany,
            gives=ManyChanged,
            errors=(409,),
            changes=True,
        ),
        Call(
            "POST",
            "/3/jobs/priority",
            bulk.prioritize_many,
            "Give many jobs another priority, or say which.",
            name="prioritizeJobs",
            tag="jobs",
            rights=(*own, Right.JOBS_PRIORITY),
            takes=PrioritizeMany,
            gives=ManyChanged,
            errors=(409,),
            changes=True,
        ),
        Call(
            "POST",
            "/3/jobs/archive",
            bulk.archive_many,
            "Archive many jobs that have ended, or say which.",
            name="archiveJobs",
            tag="jobs",
            rights=(*own, Right.JOBS_ARCHIVE),
            takes=ArchiveMany,
            gives=ManyChanged,
            errors=(409,),
            changes=True,
        ),
    ]
