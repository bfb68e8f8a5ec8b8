"""`gnt-filter pause`: make jobs wait.

Source: filters design, "Examples"; luxid.md 6.2.
"""

import click

from cli.commands import Command
from cli.filter.rulesubmission import rule_options, set_new_rule


@click.command(
    "pause",
    cls=Command,
    examples=(
        "gnt-filter pause --where 'op=OP_RUN_COMMAND & reason=~upgrade' --reason 'the mirror is down'",
        "gnt-filter pause --where 'id > 27491' --dry-run",
    ),
)
@rule_options
def pause(where: str | None, priority: int, reason: str | None, is_dry: bool) -> int:
    """Make jobs wait until the rule is deleted: those for which the filter is true, or all; print the rule's uuid.

    A filter compares op, id, name, label.KEY, reason (a text in the reason trail), source, and the opcode's parameters
    by their names; the parameter 'name' only by 'gnt-filter add --predicates'. = compares whole values, =* matches a
    pattern: name =* 'backup-*'.

    What differs: 'gnt-filter pause' makes queued jobs wait, too; 'soft-drain' takes new jobs and makes only them wait;
    'gnt-filter drain' refuses new jobs by a rule, and those of a filter only, if one is given; 'gnt-cluster queue
    drain' refuses all new jobs, but those that an administrator submits to a drained queue. Running jobs go on under
    each of them. 'gantry status' tells which are in force.
    """
    return set_new_rule("PAUSE", "wait", where, priority, reason, is_dry)
