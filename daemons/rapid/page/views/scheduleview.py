"""Schedules, as their page shows them."""

import attrs

from common.schedules.schedule import RunState, Schedule, ScheduleRun
from common.words.times import bare_clock, duration
from daemons.rapid.page.views.links import Piece, job_href, with_query
from protocol.luxi.schedules import ScheduleView

# runs that a row shows
_RUNS = 5


@attrs.frozen
class RunLine:
    at: str
    job: Piece | None
    # what became of it, if no job did
    told: str
    is_wrong: bool


@attrs.frozen
class ScheduleLine:
    name: str
    # the list of its jobs
    jobs: str
    when: str
    user: str
    # "": it can run
    stopped: str
    is_paused: bool
    next: tuple[str, ...]
    # newest first
    runs: tuple[RunLine, ...]
    active: Piece | None
    overlap: str
    missed: str


def schedule_line(view: ScheduleView, now: float) -> ScheduleLine:
    schedule = view.schedule
    return ScheduleLine(
        schedule.name,
        with_query("/ui/jobs", [("where", f'label.schedule="{schedule.name}"')]),
        when_words(schedule),
        schedule.http_user or schedule.user,
        view.stopped,
        schedule.is_paused,
        tuple(f"{bare_clock(at)}, in {duration(at - now)}" if at > now else bare_clock(at) for at in view.next_at),
        tuple(_run(run) for run in reversed(schedule.runs[-_RUNS:])),
        None if view.active_job is None else Piece(f"job {view.active_job}", job_href(view.active_job)),
        schedule.overlap.value,
        schedule.missed.value,
    )


def when_words(schedule: Schedule) -> str:
    """`0 2 * * * in Europe/Athens`, `every 30.0s`."""
    return f"{schedule.cron} in {schedule.zone}" if schedule.cron else f"every {duration(schedule.every_s)}"


def _run(run: ScheduleRun) -> RunLine:
    by_hand = " by hand" if run.is_by_hand else ""
    job = None if run.job_id is None else Piece(f"job {run.job_id}", job_href(run.job_id))
    told = "" if run.state is RunState.SUBMITTED else f"{run.state.value}: {run.why}" if run.why else run.state.value
    return RunLine(f"{bare_clock(run.nominal_at)}{by_hand}", job, told, run.state is RunState.REFUSED)
