"""The options that say when a schedule runs, and what becomes of runs that meet or were missed."""

import click

from cli.durations import DURATION, POSITIVE_DURATION
from cli.options import F, with_options
from common.schedules.schedule import Missed, Overlap


def _overlap(_: click.Context, __: click.Parameter, value: str | None) -> Overlap | None:
    return None if value is None else Overlap(value)


def _missed(_: click.Context, __: click.Parameter, value: str | None) -> Missed | None:
    return None if value is None else Missed(value)


def times_options(function: F) -> F:
    """`--cron`, `--every`, `--zone`, `--overlap`, `--missed`, `--deadline` and `--spread`."""
    return with_options(
        function,
        click.option("--cron", metavar="WORDS", help="When, in five words of cron, '0 2 * * *', or @daily; H spreads."),
        click.option("--every", "every_s", type=POSITIVE_DURATION, help="When: 90m, 1d; from its making on."),
        click.option("--zone", metavar="NAME", help="Time zone of the words, Europe/Athens; UTC if left out."),
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
