"""The rows of /3 for what operators do every day.

Source: DESIGN sections 15 and 16.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

from common.webaccess.rights import Right
from daemons.rapid.calls import Call
from daemons.rapid.resources.conditions import CONDITIONS
from daemons.rapid.resources.jobchanges import Reruns, TermChanges
from daemons.rapid.resources.operating import history
from daemons.rapid.resources.operating.batches import Batches
from daemons.rapid.resources.operating.history import PastOfJobs, Prunes
from daemons.rapid.resources.operating.resourcecounts import ResourceCounts
from daemons.rapid.resources.operating.schedules import NEXT, ScheduleCalls
from protocol.luxi.jobs import NewTerms
from protocol.luxi.queue import ResourceUse, ScheduleView
from protocol.rapid.cluster import (
    ResourceList,
    ScheduleForm,
    ScheduleList,
    SchedulePatch,
    StartedRun,
    TotalPatch,
    TotalWish,
)
from protocol.rapid.explanations import History, HistorySummary, PruneWish, Removed
from protocol.rapid.jobactions import (
    Done,
    HoldMany,
    HoldWish,
    ManyChanged,
    ManyRerun,
    ModifyMany,
    ReleaseMany,
    Rerun,
    RerunMany,
    RerunWish,
)
from protocol.rapid.jobs import BatchList

_READ: Final = (Right.JOBS_READ,)
_SUBMIT: Final = (Right.JOBS_SUBMIT,)
_CHANGE: Final = (Right.JOBS_SUBMIT, Right.JOBS_PRIORITY)
_JOB: Final = "/3/jobs/{id:int}"


def job_changes() -> Sequence[Call]:
    """Calls that change the terms of jobs without a process."""
    terms = TermChanges()
    one = partial(Call, tag="jobs", rights=_CHANGE, gives=Done, errors=(404, 409), changes=True)
    many = partial(Call, tag="jobs", rights=_CHANGE, gives=ManyChanged, errors=(409,), changes=True)
    return [
        one(
            "POST",
            f"{_JOB}/hold",
            terms.hold_job,
            "Keep a waiting job from beginning.",
            name="holdJob",
            takes=HoldWish,
            is_body_required=False,
        ),
        one("POST", f"{_JOB}/release", terms.release_job, "Let a job that is on hold go on.", name="releaseJob"),
        one(
            "PATCH",
            _JOB,
            terms.modify_job,
            "Change a waiting job's terms, what it waits for, or limits of its command.",
            name="modifyJob",
            takes=NewTerms,
        ),
        many("POST", "/3/jobs/hold", terms.hold_many, "Hold many jobs, or say which.", name="holdJobs", takes=HoldMany),
        many(
            "POST",
            "/3/jobs/release",
            terms.release_many,
            "Release many jobs, or say which.",
            name="releaseJobs",
            takes=ReleaseMany,
        ),
        many(
            "POST",
            "/3/jobs/modify",
            terms.modify_many,
            "Change many waiting jobs, or say which.",
            name="modifyJobs",
            takes=ModifyMany,
        ),
    ]


def reruns() -> Sequence[Call]:
    """Calls that submit jobs again, and the one about jobs that were submitted together."""
    to = Reruns()
    row = partial(Call, tag="jobs", rights=_SUBMIT, changes=True)
    return [
        row(
            "POST",
            f"{_JOB}/rerun",
            to.rerun_job,
            "Run an ended job again, whole or from its failed opcode on.",
            name="rerunJob",
            takes=RerunWish,
            is_body_required=False,
            gives=Rerun,
            errors=(404, 409, 502),
        ),
        row(
            "POST",
            "/3/jobs/rerun",
            to.rerun_many,
            "Run ended jobs again, or say which.",
            name="rerunJobs",
            takes=RerunMany,
            gives=ManyRerun,
            errors=(404, 409, 502),
        ),
        Call(
            "GET",
            "/3/batches",
            Batches().list_batches,
            "List the batches of the queue.",
            name="listBatches",
            tag="jobs",
            rights=_READ,
            gives=BatchList,
        ),
    ]


def past() -> Sequence[Call]:
    """Calls about ended jobs."""
    past = PastOfJobs()
    row = partial(Call, tag="history", rights=_READ, only_waits=True)
    return [
        row(
            "GET",
            "/3/history",
            past.read_history,
            "List ended jobs, archived ones included.",
            name="listHistory",
            gives=History,
            parameters=(*history.CHOICE, history.SORT, history.ASCENDING, history.LIMIT, history.OFFSET),
        ),
        row(
            "GET",
            "/3/history/summary",
            past.summarize,
            "Sum up ended jobs.",
            name="summarizeHistory",
            gives=HistorySummary,
            parameters=(*history.CHOICE, history.BY, history.LABEL, history.ZONE),
        ),
        Call(
            "POST",
            "/3/prune",
            Prunes().prune,
            "Remove what is kept no longer, or tell what.",
            name="prune",
            tag="history",
            rights=(Right.QUEUE_WRITE,),
            takes=PruneWish,
            gives=Removed,
            changes=True,
        ),
    ]


def schedules() -> Sequence[Call]:
    """Calls about schedules."""
    to = ScheduleCalls()
    one = "/3/schedules/{name}"
    row = partial(Call, tag="schedules", rights=_SUBMIT, errors=(404,), changes=True)
    view = partial(row, gives=ScheduleView, is_tagged=True)
    return [
        Call(
            "GET",
            "/3/schedules",
            to.list_schedules,
            "List the schedules with their next runs, without the opcodes of their jobs.",
            name="listSchedules",
            tag="schedules",
            rights=_READ,
            gives=ScheduleList,
            parameters=(NEXT,),
        ),
        Call(
            "GET",
            one,
            to.get_schedule,
            "Show a schedule with its job.",
            name="getSchedule",
            tag="schedules",
            rights=_READ,
            gives=ScheduleView,
            is_tagged=True,
            errors=(404,),
            parameters=(NEXT,),
        ),
        view(
            "PUT",
            one,
            to.set_schedule,
            "Add or replace a schedule.",
            name="setSchedule",
            takes=ScheduleForm,
            parameters=CONDITIONS,
            errors=(404, 409, 412),
        ),
        view(
            "PATCH",
            one,
            to.patch_schedule,
            "Change parts of a schedule.",
            name="modifySchedule",
            takes=SchedulePatch,
            merges=True,
            parameters=CONDITIONS,
            errors=(404, 409, 412),
        ),
        row(
            "DELETE",
            one,
            to.remove_schedule,
            "Remove a schedule; its jobs stay.",
            name="deleteSchedule",
            status=204,
            parameters=CONDITIONS,
            errors=(404, 412),
        ),
        view("POST", f"{one}/pause", to.pause, "Make no runs from now on.", name="pauseSchedule"),
        view(
            "POST",
            f"{one}/resume",
            to.resume,
            "Make runs again; missed ones are not made up for.",
            name="resumeSchedule",
        ),
        row("POST", f"{one}/run", to.run_now, "Submit the schedule's job now.", name="runSchedule", gives=StartedRun),
    ]


def resources() -> Sequence[Call]:
    """Calls about counted resources."""
    to = ResourceCounts()
    one = "/3/resources/{key}"
    read = partial(Call, tag="resources", rights=_READ)
    write = partial(Call, tag="resources", rights=(Right.QUEUE_WRITE,), parameters=CONDITIONS, changes=True)
    return [
        read(
            "GET",
            "/3/resources",
            to.list_resources,
            "List the resources and their users.",
            name="listResources",
            gives=ResourceList,
        ),
        read(
            "GET",
            one,
            to.get_resource,
            "Show a resource.",
            name="getResource",
            gives=ResourceUse,
            is_tagged=True,
            errors=(404,),
        ),
        write(
            "PUT",
            one,
            to.set_resource,
            "Set the total of a resource.",
            name="setResource",
            takes=TotalWish,
            gives=ResourceUse,
            is_tagged=True,
            errors=(404, 412),
        ),
        write(
            "PATCH",
            one,
            to.patch_resource,
            "Change the total of a resource, or its unit.",
            name="modifyResource",
            takes=TotalPatch,
            merges=True,
            gives=ResourceUse,
            is_tagged=True,
            errors=(404, 409, 412),
        ),
        write(
            "DELETE",
            one,
            to.remove_resource,
            "Remove a resource.",
            name="deleteResource",
            status=204,
            errors=(404, 412),
        ),
    ]
