"""`gnt-filter drain`: refuse new jobs.

Source: filters design, "Examples"; luxid.md 6.2.
"""

import click

from cli.commands import Command
from cli.filter.rulesubmission import NEWER, rule_options, set_new_rule


@click.command("drain", cls=Command, examples=("gnt-filter drain --reason 'maintenance at noon'",))
@rule_options
def drain(where: str | None, priority: int, reason: str | None, is_dry: bool) -> int:
    """Refuse jobs submitted from now on; those in the queue go on. Prints the rule's uuid.

    What differs: 'gnt-filter pause' makes queued jobs wait, too; 'soft-drain' takes new jobs and makes only them wait;
    'gnt-filter drain' refuses new jobs by a rule, and those of a filter only, if one is given; 'gnt-cluster queue
    drain' refuses all new jobs, but those that an administrator submits to a drained queue. Running jobs go on under
    each of them. 'gantry status' tells which are in force.
    """
    return set_new_rule("REJECT", "be canceled", where, priority, reason, is_dry, NEWER)
