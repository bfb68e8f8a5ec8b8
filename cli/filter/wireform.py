"""The options of `gnt-filter add` and `replace`: a rule in its wire form, with predicates and action.

Source: cli.md 3, "add", "replace".
"""

import re
from typing import Final, TypedDict, Unpack

import click
import orjson

from cli.filter.rulesubmission import RuleWish, predicates_of, rule_options, set_rule
from cli.options import F, with_options
from common.jsonreading import TooDeep, read_json

_RATE_LIMIT: Final = re.compile(r"RATE_LIMIT\s+0*([1-9][0-9]{0,8})")
_WORDS: Final = ("ACCEPT", "PAUSE", "REJECT", "CONTINUE")
_EFFECTS: Final = {"PAUSE": "wait", "REJECT": "be canceled", "ACCEPT": "be let through"}


class PredicatesType(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases of click only
    """A JSON list of `[name, expression]`."""

    name = "json"

    def convert(
        self, value: str | list[object], param: click.Parameter | None, ctx: click.Context | None
    ) -> list[object]:
        if isinstance(value, list):
            return value
        try:
            predicates = read_json(value)
        except TooDeep as error:
            self.fail(error.message, param, ctx)
        except orjson.JSONDecodeError as error:
            self.fail(f"'{value}' is not JSON: {error}", param, ctx)
        if not isinstance(predicates, list):
            self.fail(f'\'{value}\' is not a list; write [["jobid", [">", "id", 12]]]', param, ctx)
        return predicates


class ActionType(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases of click only
    """The action of a rule, in its wire form."""

    name = "action"

    def convert(
        self, value: str | list[object], param: click.Parameter | None, ctx: click.Context | None
    ) -> str | list[object]:
        if isinstance(value, list):
            return value
        if value in _WORDS:
            return value
        match = _RATE_LIMIT.fullmatch(value)
        if match is None:
            self.fail(
                f"'{value}' is not an action; write {', '.join(_WORDS)} or 'RATE_LIMIT N', N at least 1", param, ctx
            )
        return ["RATE_LIMIT", int(match[1])]


class WireOptions(TypedDict):
    """What `wire_options` pass to a verb."""

    predicates: list[object]
    action: str | list[object]
    where: str | None
    priority: int
    reason: str | None
    is_dry: bool


def wire_options(function: F) -> F:
    """`--predicates`, `--action`, and the options of every rule."""
    return with_options(
        function,
        click.option("--predicates", type=PredicatesType(), default="[]", help="All must hold; none if left out."),
        click.option(
            "--action",
            type=ActionType(),
            metavar="ACTION",
            default="CONTINUE",
            help="ACCEPT, PAUSE, REJECT, CONTINUE (default) or 'RATE_LIMIT N'.",
        ),
        rule_options,
    )


def set_wire_rule(uuid: str | None, **options: Unpack[WireOptions]) -> int:
    """Set the rule and print its uuid; return the exit code. Args: uuid: None: create a new rule."""
    action = options["action"]
    if isinstance(action, list):
        effect = f"run {action[1]} at a time"
    else:
        effect = _EFFECTS.get(action, "be looked at by the next rule")
    predicates = (*options["predicates"], *predicates_of(options["where"]))
    wish = RuleWish(uuid, predicates, action, effect, options["priority"], options["reason"])
    return set_rule(wish, is_dry=options["is_dry"])
