"""`gantry help`: topics that concern several commands."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import attrs
import click

from cli.commands import Command
from cli.context import wants_json
from cli.exitcodes import DONE, EVERYWHERE, MOVING, WAITING, ExitCode
from cli.screen import say, say_json
from cli.tables import Column, Layout, render


@attrs.frozen
class Topic:
    """A topic that `gantry help` explains."""

    heading: str
    tell: Callable[[], None]
    to_json: Callable[[], object]


def _tell_exit_codes() -> None:
    # the width of all help texts
    formatter = click.get_current_context().make_formatter()
    _write_table(formatter, "Of gnt-job run --wait and gnt-job submit --wait", WAITING)
    _write_table(formatter, "Of gantry cluster switchover and takeover", MOVING)
    _write_table(formatter, "Of all other commands", EVERYWHERE)
    say(formatter.getvalue().strip())


def _write_table(formatter: click.HelpFormatter, heading: str, rows: Sequence[ExitCode]) -> None:
    with formatter.section(heading):
        formatter.write_dl([(row.code, row.meaning) for row in rows])


def _exit_codes_json() -> object:
    return {
        "waiting": [attrs.asdict(row) for row in WAITING],
        "moving": [attrs.asdict(row) for row in MOVING],
        "others": [attrs.asdict(row) for row in EVERYWHERE],
    }


TOPICS: Final[Mapping[str, Topic]] = {
    "exit-codes": Topic("The exit codes of all commands.", _tell_exit_codes, _exit_codes_json),
}


@click.command("help", cls=Command, examples=("gantry help exit-codes",))
@click.argument("topic", type=click.Choice(list(TOPICS)), required=False)
def help_on(topic: str | None) -> int:
    """Explain a topic; without one, list the topics."""
    if topic is not None:
        chosen = TOPICS[topic]
        if wants_json():
            say_json(chosen.to_json())
        else:
            chosen.tell()
    elif wants_json():
        say_json({name: each.heading for name, each in TOPICS.items()})
    else:
        for line in render(
            [Column("TOPIC"), Column("")],
            [(name, each.heading) for name, each in TOPICS.items()],
            Layout(has_header=False),
        ):
            say(line)
    return DONE
