"""`gnt-filter list`: the rules as a table.

Source: cli.md 3, "list"; luxid.md 6.2, 7.5.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import attrs
import click
import orjson

from cli.choosing.lists import fields_command
from cli.commands import Command
from cli.connection import ask_luxid
from cli.context import wants_json
from cli.exitcodes import DONE, FAILED, UNKNOWN_FIELD
from cli.options import complete_rule
from cli.screen import complain, say, say_json, screen_width, warn
from cli.tables import NOTHING, UNAVAILABLE, UNKNOWN, Column, Layout, render, show_lines, table_options
from common.errors import PrerequisiteError
from common.objects.kinds import QueryKind
from common.printable import printable
from common.words.filters.rulefilter import action_text, reason_text, where_text
from protocol.luxi.queries import Query, QueryFilters

# what the verbs differ in that hold jobs back
DIFFERENCES: Final = (
    "What differs: 'gnt-filter pause' makes queued jobs wait, too; 'soft-drain' takes new jobs and makes only them "
    "wait; 'gnt-filter drain' refuses new jobs by a rule, and those of a filter only, if one is given; 'gnt-cluster "
    "queue drain' refuses all new jobs, but those that an administrator submits to a drained queue. Running jobs go on "
    "under each of them. 'gantry status' tells which are in force."
)


# Filter rules as people name them: by UUID, by a beginning of it that no other rule has, or by their number.
#
# The number of a rule is its place in `gnt-filter list`, from 1. A UUID may begin with digits only; a number has at
# most three, and a beginning at least four characters.


RULE_FIELDS: Final = ("uuid", "watermark", "priority", "predicates", "action", "reason_trail")
_NUMBER: Final = re.compile(r"[0-9]{1,3}", re.ASCII)
_WHOLE: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_SHORTEST: Final = 4


def rules_in_order(*, timeout_s: float | None = None) -> list[dict[str, object]]:
    """All rules in the order in which they are evaluated; each by its fields, and its number.

    Raises: as `ask_luxid`.
    """
    answer = ask_luxid(Query(QueryKind.FILTER, RULE_FIELDS), timeout_s=timeout_s)
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


_NUMBERS: Final = ("number", "watermark", "priority")
_FIELDS: Final = ("number", *RULE_FIELDS)


@click.command("list", cls=Command, examples=("gnt-filter list", "gnt-filter list -o number,action,reason_trail"))
@click.option(
    "-o", "--fields", "chosen", metavar="FIELDS", help="Columns, separated by commas; a leading + adds to the usual."
)
@table_options
@click.option("-v", "--verbose", is_flag=True, help="Explain why a cell has no value.")
@click.argument("names", metavar="[RULE]...", nargs=-1, shell_complete=complete_rule)
def list_rules(names: Sequence[str], chosen: str | None, layout: Layout, verbose: bool) -> int:
    """List all rules, or the named ones, in the order in which they are evaluated.

    The smallest priority comes first. Among equal priorities the smallest watermark does, the id of the last job when
    the rule was set, and then the smallest UUID. So a rule that was set later comes later only if a job was submitted
    between the two; give rules different priorities where their order matters.

    A rule is named by its UUID, the beginning of it, or its number; numbers change when rules come and go. Predicates
    are shown as a filter, as --where takes it, and of the reason trail the reason that was given; programs, with
    --no-headers, --separator or --output json, get all as it is stored.
    """
    layout = attrs.evolve(layout, nothing=UNAVAILABLE if verbose else NOTHING, width=screen_width())
    more = [name for name in (chosen or "").removeprefix("+").split(",") if name]
    usual = ("number", *RULE_FIELDS) if layout.is_for_people else RULE_FIELDS
    fields = [*usual, *more] if chosen is None or chosen.startswith("+") else more
    unknown = [name for name in fields if name not in _FIELDS]
    rows = rules_in_order()
    uuids, is_lost = find_rules(rows, names)
    rows = [row for row in rows if not names or row["uuid"] in uuids]
    if wants_json():
        say_json([{name: row.get(name) for name in fields} for row in rows])
    else:
        show_lines(rule_table(rows, fields, layout, unknown=UNKNOWN if verbose else "??"))
    for name in unknown:
        warn(f"unknown field '{name}'; fields are {', '.join(_FIELDS)}")
    return UNKNOWN_FIELD if unknown else FAILED if is_lost else DONE


def find_rules(rules: Sequence[Mapping[str, object]], names: Sequence[str]) -> tuple[list[str], bool]:
    """The UUIDs of the named rules, and whether a name was wrong, of which this complains.

    Args: rules: as of `rules_in_order`.
    """
    uuids: list[str] = []
    for name in names:
        try:
            uuids.append(str(rule_named(rules, name)["uuid"]))
        except PrerequisiteError as error:
            complain(error.message)
    return uuids, len(uuids) < len(names)


def rule_table(
    rows: Sequence[Mapping[str, object]], fields: Sequence[str], layout: Layout, *, unknown: str
) -> Iterable[str]:
    """The lines of a table of rules.

    Args:
        unknown: text for fields that rules do not have.
    """
    columns = [Column(name.upper() if name in _FIELDS else name, name in _NUMBERS) for name in fields]
    words = _IN_WORDS if layout.is_for_people else {}
    cells = [[words.get(name, _as_stored)(row[name]) if name in row else unknown for name in fields] for row in rows]
    return render(columns, cells, layout)


# field -> the text for people
_IN_WORDS: Final[Mapping[str, Callable[[object], str]]] = {
    "predicates": where_text,
    "action": action_text,
    "reason_trail": reason_text,
}


def _as_stored(value: object) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


# `gnt-filter list-fields`: the columns of `gnt-filter list`.


list_fields = fields_command(
    QueryKind.FILTER,
    "gnt-filter",
    help="Tell the fields that gnt-filter list can show; all, or the named ones.",
)


# `gnt-filter info`: everything about rules, six lines for each.
#
# Source: cli.md 3, "info".


_TITLES: Final = ("UUID", "Watermark", "Priority", "Predicates", "Action", "Reason trail")


@click.command("info", cls=Command, examples=("gnt-filter info", "gnt-filter info --output json | jq .[0].predicates"))
@click.argument("names", metavar="[RULE]...", nargs=-1, shell_complete=complete_rule)
def info(names: Sequence[str]) -> int:
    """Show everything about these rules, or about all. A rule is named by its UUID, its beginning, or its number."""
    uuids, is_lost = find_rules(rules_in_order(), names) if names else ([], False)
    rows = ask_luxid(QueryFilters(tuple(uuids) or None, RULE_FIELDS)) if uuids or not names else ()
    if wants_json():
        say_json([dict(zip(RULE_FIELDS, row, strict=True)) for row in rows])
    else:
        for row in rows:
            for place, (title, value) in enumerate(zip(_TITLES, row, strict=True)):
                text = value if isinstance(value, str) else orjson.dumps(value).decode()
                say(f"{'  ' if place else ''}{title}: {printable(text)}")
    return FAILED if is_lost else DONE
