"""A schedule as the command line wishes it: when it runs, what becomes of runs that meet or were missed, its job."""

from collections.abc import Callable, Sequence
from typing import TypedDict

import click

from cli.durations import DURATION, POSITIVE_DURATION
from cli.gantry.schedule.jobs import Element, JobOptions, read_job
from cli.options import F, with_options
from common.errors import InvalidRequest
from common.schedules.cronwords import read_words
from common.schedules.schedule import Missed, Overlap
from common.schedules.zones import zone_named
from protocol.luxi.schedules import ScheduleWish


class TimesOptions(TypedDict):
    """What `times_options` pass to a verb; None: not given."""

    cron: str | None
    every_s: float | None
    zone: str | None
    overlap: Overlap | None
    missed: Missed | None
    deadline_s: float | None
    spread_s: float | None


class ScheduleOptions(TimesOptions, JobOptions):
    """What `times_options` and `job_options` pass to a verb."""


def _checked(check: Callable[[str], object]) -> Callable[[click.Context, click.Parameter, str | None], str | None]:
    """A callback that lets pass what `check` does; what it refuses is wrong usage."""

    def callback(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
        try:
            if value is not None:
                check(value)
        except InvalidRequest as error:
            raise click.BadParameter(error.message) from None
        return value

    return callback


def _overlap(_: click.Context, __: click.Parameter, value: str | None) -> Overlap | None:
    return None if value is None else Overlap(value)


def _missed(_: click.Context, __: click.Parameter, value: str | None) -> Missed | None:
    return None if value is None else Missed(value)


def times_options(function: F) -> F:
    """`--cron`, `--every`, `--zone`, `--overlap`, `--missed`, `--deadline` and `--spread`."""
    return with_options(
        function,
        click.option(
            "--cron",
            metavar="WORDS",
            # which instants H means counts only for a schedule that has its uuid
            callback=_checked(lambda words: read_words(words, "")),
            help="When, in five words of cron, '0 2 * * *', or @daily; H spreads.",
        ),
        click.option("--every", "every_s", type=POSITIVE_DURATION, help="When: 90m, 1d; from its making on."),
        click.option(
            "--zone",
            metavar="NAME",
            callback=_checked(zone_named),
            help="Time zone of the words, Europe/Athens; UTC if left out. Runs are told in local time, too.",
        ),
        click.option(
            "--overlap",
            type=click.Choice([each.value for each in Overlap]),
            callback=_overlap,
            help="If the job of the run before has not ended: skip (default), queue, cancel-running or allow.",
        ),
        click.option(
            "--missed",
            type=click.Choice([each.value for each in Missed]),
            callback=_missed,
            help="After a standstill: skip, or once for the last missed run; skip by default for periods below 1 h.",
        ),
        click.option("--deadline", "deadline_s", type=DURATION, help="Make up for a run that is missed by no more."),
        click.option("--spread", "spread_s", type=DURATION, help="Start within this time, each schedule at its own."),
    )


def read_wish(
    name: str, words: Sequence[str], options: ScheduleOptions, element: Element | None = None
) -> ScheduleWish:
    """The schedule that the options tell, with the command of these words, or the job of a plan.

    Args: element: values for which the command is.

    Raises:
        click.UsageError: options exclude each other.
        InvalidRequest: the plan is none.
    """
    if options["cron"] is not None and options["every_s"] is not None:
        raise click.UsageError("--cron and --every exclude each other; give one of them")
    return ScheduleWish(
        name=name,
        cron=options["cron"],
        zone=options["zone"],
        every_s=options["every_s"],
        job=read_job(words, options, element),
        overlap=options["overlap"],
        missed=options["missed"],
        deadline_s=options["deadline_s"],
        spread_s=options["spread_s"],
    )
