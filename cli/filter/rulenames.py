"""Filter rules as people name them: by UUID, by a beginning of it that no other rule has, or by their number.

The number of a rule is its place in `gnt-filter list`, from 1. A UUID may begin with digits only; a number has at most
three, and a beginning at least four characters.
"""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import click

from cli.connection import ask_luxid
from common.errors import PrerequisiteError
from common.query.kinds import QueryKind
from protocol.luxi.queries import Query

if TYPE_CHECKING:
    # what completes a word imports it; the start of every other command does without
    from click.shell_completion import CompletionItem

RULE_FIELDS: Final = ("uuid", "watermark", "priority", "predicates", "action", "reason_trail")
_NUMBER: Final = re.compile(r"[0-9]{1,3}", re.ASCII)
_WHOLE: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_SHORTEST: Final = 4


def rules_in_order() -> list[dict[str, object]]:
    """All rules in the order in which they are evaluated; each by its fields, and its number."""
    answer = ask_luxid(Query(QueryKind.FILTER, RULE_FIELDS))
    rows: list[dict[str, object]] = [dict(zip(RULE_FIELDS, row, strict=True)) for row in answer.values()]
    rows.sort(key=lambda row: (row["priority"], row["watermark"], row["uuid"]))
    return [{"number": number, **row} for number, row in enumerate(rows, 1)]


def is_uuid(name: str) -> bool:
    """Whether the name is a whole UUID, which needs no rules to be read."""
    return _WHOLE.fullmatch(name) is not None


def rule_named(rules: Sequence[Mapping[str, object]], name: str) -> Mapping[str, object]:
    """The rule of this name among all rules in order.

    Raises: PrerequisiteError: there is none, or several UUIDs begin so.
    """
    if _NUMBER.fullmatch(name):
        found = [rule for rule in rules if rule["number"] == int(name)]
    elif len(name) >= _SHORTEST:
        found = [rule for rule in rules if str(rule["uuid"]).startswith(name.lower())]
    else:
        found = []
    if len(found) > 1:
        uuids = ", ".join(str(rule["uuid"]) for rule in found)
        raise PrerequisiteError(f"'{name}' begins {len(found)} rules: {uuids}; write more of it", "wrong_input")
    if not found:
        raise PrerequisiteError(f"there is no filter rule '{name}'; list them with 'gnt-filter list'", "unknown_entity")
    return found[0]


def complete_rule(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """The UUIDs of rules, each with its action."""
    from cli.gantry.completion import complete_rules

    # no command runs while the shell asks, so its context is not yet the current one
    with ctx.scope(cleanup=False):
        return complete_rules(incomplete)
