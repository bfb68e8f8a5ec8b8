"""`gantry help`: topics that concern several commands. Most are pages of the manual."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Final

import attrs
import click

from cli.commands import Command
from cli.context import wants_json
from cli.exitcodes import DONE, EVERYWHERE, MOVING, WAITING, ExitCode
from cli.screen import say, say_json, say_result
from cli.tables import Column, Layout, render
from common.system.program import release

if TYPE_CHECKING:
    # only the topic that is asked for is imported
    from cli.manual.page import ManualPage

# width of all help texts
_WIDTH: Final = 78


@attrs.frozen
class HelpTopic:
    """A topic that `gantry help` explains."""

    heading: str
    tell: Callable[[], None]
    to_json: Callable[[], object]


def _tell_exit_codes() -> None:
    # as wide as all help texts
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


def _page_topic(heading: str, target: str) -> HelpTopic:
    """A page of the manual. Args: target: module:function that makes it."""

    def page() -> "ManualPage":
        module, _, name = target.partition(":")
        made: ManualPage = getattr(import_module(module), name)()
        return made

    def tell() -> None:
        from cli.manual.plaintext import plain_lines

        for line in plain_lines(page(), _WIDTH):
            say(line)

    def to_json() -> object:
        from cli.manual.plaintext import section_text

        made = page()
        return {"summary": made.summary} | {each.title.lower(): section_text(each, _WIDTH) for each in made.sections}

    return HelpTopic(heading, tell, to_json)


TOPICS: Final[Mapping[str, HelpTopic]] = {
    "exit-codes": HelpTopic("The exit codes of all commands.", _tell_exit_codes, _exit_codes_json),
    "errors": _page_topic("The codes of errors, with cause and remedy.", "cli.manual.errors:errors_page"),
    "reasons": _page_topic("Why a job does not run.", "cli.manual.errors:reasons_page"),
    "filters": _page_topic("Filters of jobs and other things.", "cli.manual.queries:filters_page"),
    "query": _page_topic("Conditions in calls and filter rules.", "cli.manual.queries:query_page"),
    "plans": _page_topic("Files with jobs to submit.", "cli.manual.files:plan_page"),
    "opcodes": _page_topic("Operations, and their parameters.", "cli.manual.opcodes:opcodes_page"),
}


@click.command("help", cls=Command, examples=("gantry help exit-codes", "gantry help filters | less"))
@click.argument("topic", type=click.Choice(list(TOPICS)), required=False)
def help_on(topic: str | None) -> int:
    """Explain a topic; without one, list the topics.

    They are also man pages: gantry-filters(7), gantry-plan(5).
    """
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


# `gantry version`.


@click.command("version", cls=Command, examples=("gantry version",))
def version() -> int:
    """Print the version."""
    say_result(release(), f"gantry {release()}")
    return DONE
