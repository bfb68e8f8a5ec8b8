"""`gnt-cluster queue`: close or open the queue to new jobs, or show what holds jobs back.

Source: cli.md 5; the filter rules are ours.
"""

import click

from cli.commands import Command
from cli.connection import ask_luxid
from cli.context import wants_json
from cli.exitcodes import DONE
from cli.filter.list import rule_table
from cli.filter.rulenames import RULE_FIELDS, rules_in_order
from cli.screen import say, say_json
from cli.tables import Layout
from protocol.luxi.cluster import QueryConfigValues
from protocol.luxi.queue import SetDrainFlag


@click.command("queue", cls=Command, examples=("gnt-cluster queue drain", "gnt-cluster queue info"))
@click.argument("action", type=click.Choice(["drain", "undrain", "info"]), default="info")
def queue(action: str) -> int:
    """Close the queue to new jobs (drain), open it (undrain), or show whether it is closed, and its rules (info).

    What differs: 'gnt-filter pause' makes queued jobs wait, too; 'soft-drain' takes new jobs and makes only them wait;
    'gnt-filter drain' refuses new jobs by a rule, and those of a filter only, if one is given; 'gnt-cluster queue
    drain' refuses all new jobs, but those that an administrator submits to a drained queue. Running jobs go on under
    each of them. 'gantry status' tells which are in force.
    """
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
        say("Filter rules, in the order in which they are asked:")
    for line in rule_table(rules, RULE_FIELDS, Layout(), unknown="") if rules else ():
        say(line)
    return DONE
