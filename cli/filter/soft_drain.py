"""`gnt-filter soft-drain`: accept new jobs, but make them wait.

Source: filters design, "Examples"; luxid.md 6.2.
"""

import click

from cli.commands import Command
from cli.filter.rulesubmission import NEWER, rule_options, set_new_rule


@click.command("soft-drain", cls=Command, examples=("gnt-filter soft-drain --reason 'maintenance at noon'",))
@rule_options
def soft_drain(where: str | None, priority: int, reason: str | None, is_dry: bool) -> int:
    """Accept jobs from now on, but make them wait; those in the queue go on. Prints the rule's uuid."""
    return set_new_rule("PAUSE", "wait", where, priority, reason, is_dry, NEWER)
