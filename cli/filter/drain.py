"""`gnt-filter drain`: refuse new jobs.

Source: filters design, "Examples"; luxid.md 6.2.
"""

import click

from cli.commands import Command
from cli.filter.rulesubmission import NEWER, rule_options, set_new_rule


@click.command("drain", cls=Command, examples=("gnt-filter drain --reason 'maintenance at noon'",))
@rule_options
def drain(where: str | None, priority: int, reason: str | None, is_dry: bool) -> int:
    """Refuse jobs submitted from now on; those in the queue go on. Prints the rule's uuid."""
    return set_new_rule("REJECT", "be canceled", where, priority, reason, is_dry, NEWER)
