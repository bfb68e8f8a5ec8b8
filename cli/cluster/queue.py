"""`gnt-cluster queue`: close or open the queue to new jobs, or show what holds jobs back.

Source: cli.md 5; the filter rules are ours.
"""

import time
from typing import Literal, assert_never

import click

from cli.commands import Command
from cli.connection import ask_luxid
from cli.context import wants_json
from cli.exitcodes import DONE
from cli.filter.list import DIFFERENCES, RULE_FIELDS, rule_table, rules_in_order
from cli.options import DURATION
from cli.screen import say, say_json
from cli.tables import Layout
from common.words.times import clock
from protocol.luxi.queries import QueryConfigValues
from protocol.luxi.queue import SetDrainFlag, SetWatcherPause


@click.command(
    "queue",
    cls=Command,
    examples=("gnt-cluster queue drain", "gnt-cluster queue info"),
    help="Close the queue to new jobs (drain), open it (undrain), or show whether it is closed, and its rules (info)."
    f"\n\n{DIFFERENCES}",
)
@click.argument("action", type=click.Choice(["drain", "undrain", "info"]), default="info")
def queue(action: str) -> int:
    if action != "info":
        ask_luxid(SetDrainFlag(action == "drain"))
        if wants_json():
            say_json({"drained": action == "drain"})
        return DONE
    is_drained = bool(ask_luxid(QueryConfigValues(("drain_flag",)))[0])
    rules = rules_in_order()
    if wants_json():
        say_json({"drained": is_drained, "filters": rules})
        return DONE
    say(f"The drain flag is {'set' if is_drained else 'unset'}")
    if rules:
        say("Filter rules, in order of evaluation:")
    for line in rule_table(rules, RULE_FIELDS, Layout(), unknown="") if rules else ():
        say(line)
    return DONE


# `gnt-cluster watcher`: let the watcher rest, or go on.
#
# Source: cli.md 5.


@click.command(
    "watcher",
    cls=Command,
    examples=("gnt-cluster watcher pause 2h", "gnt-cluster watcher continue", "gnt-cluster watcher info"),
)
@click.argument("action", type=click.Choice(["pause", "continue", "info"]))
@click.argument("duration", required=False)
def watcher(action: Literal["pause", "continue", "info"], duration: str | None) -> int:
    """Pause the watcher for DURATION (90, 30m, 2h, 7d, 1w), let it continue, or tell whether it rests (info)."""
    if action != "pause" and duration is not None:
        raise click.UsageError(f"'{action}' takes no duration, got '{duration}'")
    match action:
        case "pause":
            until = ask_luxid(SetWatcherPause(time.time() + _seconds(duration)))
        case "continue":
            until = ask_luxid(SetWatcherPause(None))
        case "info":
            told = ask_luxid(QueryConfigValues(("watcher_pause",)))[0]
            until = told if isinstance(told, int | float) else None
        case _:
            assert_never(action)
    _tell(until)
    return DONE


def _tell(until: float | None) -> None:
    if wants_json():
        say_json(until)
    elif until is None:
        say("The watcher is not paused")
    else:
        say(f"The watcher is paused until {clock(until)}")


def _seconds(duration: str | None) -> float:
    if duration is None:
        raise click.UsageError("how long shall the watcher rest? write it as in: gnt-cluster watcher pause 2h")
    return DURATION.convert(duration, None, click.get_current_context())
