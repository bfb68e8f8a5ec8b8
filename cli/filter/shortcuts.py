"""`gnt-filter pause`, `drain`, `soft-drain` and `limit`: the rules that people need.

Source: filters design, "Examples"; luxid.md 6.2.
"""

from typing import Any, Final

import click

from cli.commands import Command
from cli.filter.rulesubmission import RuleWish, predicates_of, rule_options, set_rule

# jobs that come after the rule was made
_NEWER: Final = ["jobid", [">", "id", "watermark"]]
_COUNT_DIGITS: Final = 9


class CountType(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases of click only
    """How many jobs may run at once: a whole number of at least 1."""

    name = "count"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        # a count that is longer limits nothing
        if not (value.isascii() and value.isdigit() and len(value) <= _COUNT_DIGITS and int(value) > 0):
            self.fail(f"'{value}' is no number of jobs; N is a whole number of at least 1", param, ctx)
        return int(value)


def _set(
    action: Any, effect: str, where: str | None, priority: int, reason: str | None, is_dry: bool, *predicates: Any
) -> int:
    wish = RuleWish(None, (*predicates, *predicates_of(where)), action, effect, priority, reason)
    return set_rule(wish, is_dry=is_dry)


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
    """Let jobs wait until the rule is deleted: those that the filter is true for, or all; print its uuid.

    A filter compares op, id, reason (a text in the reason trail), source, and the opcode's parameters by name.
    """
    return _set("PAUSE", "wait", where, priority, reason, is_dry)


@click.command("drain", cls=Command, examples=("gnt-filter drain --reason 'maintenance at noon'",))
@rule_options
def drain(where: str | None, priority: int, reason: str | None, is_dry: bool) -> int:
    """Refuse jobs that are submitted from now on; those in the queue go on. Prints the rule's uuid."""
    return _set("REJECT", "be canceled", where, priority, reason, is_dry, _NEWER)


@click.command("soft-drain", cls=Command, examples=("gnt-filter soft-drain --reason 'maintenance at noon'",))
@rule_options
def soft_drain(where: str | None, priority: int, reason: str | None, is_dry: bool) -> int:
    """Take jobs from now on but let them wait; those in the queue go on. Prints the rule's uuid."""
    return _set("PAUSE", "wait", where, priority, reason, is_dry, _NEWER)


@click.command("limit", cls=Command, examples=("gnt-filter limit 2 --where 'op=OP_RUN_COMMAND & reason=backup'",))
@rule_options
@click.argument("count", metavar="N", type=CountType())
def limit(count: int, where: str | None, priority: int, reason: str | None, is_dry: bool) -> int:
    """Let at most N jobs of this rule run at once; print its uuid."""
    return _set(["RATE_LIMIT", count], f"run {count} at a time", where, priority, reason, is_dry)
