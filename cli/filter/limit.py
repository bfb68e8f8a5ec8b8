"""`gnt-filter limit`: limit how many jobs run at once.

Source: filters design, "Examples"; luxid.md 6.2.
"""

from functools import partial
from typing import Final

import click

from cli.commands import Command
from cli.filter.rulesubmission import rule_options, set_new_rule

_COUNT_DIGITS: Final = 9
# behind rules that pause or refuse: the first rule that fits decides, and a limit that others follow would undo them
_PLACE: Final = 10


class CountType(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases of click only
    """How many jobs may run at once: a whole number of at least 1."""

    name = "count"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        # a longer count would limit nothing
        if not (value.isascii() and value.isdigit() and len(value) <= _COUNT_DIGITS and int(value) > 0):
            self.fail(f"'{value}' is not a number of jobs; N is a whole number of at least 1", param, ctx)
        return int(value)


@click.command("limit", cls=Command, examples=("gnt-filter limit 2 --where 'op=OP_RUN_COMMAND & reason=backup'",))
@partial(rule_options, priority=_PLACE)
@click.argument("count", metavar="N", type=CountType())
def limit(count: int, where: str | None, priority: int, reason: str | None, is_dry: bool) -> int:
    """Let at most N jobs of this rule run at once; print its uuid.

    The first rule that fits a job decides, so a limit stands behind the rules that pause or refuse, unless --priority
    says otherwise.
    """
    return set_new_rule(["RATE_LIMIT", count], f"run {count} at a time", where, priority, reason, is_dry)
