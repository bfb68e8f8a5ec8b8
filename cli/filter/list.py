"""`gnt-filter list`: the rules as a table.

Source: cli.md 3, "list"; luxid.md 6.2, 7.5.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import click
import orjson

from cli.commands import Command
from cli.context import wants_json
from cli.exitcodes import DONE, FAILED, UNKNOWN_FIELD
from cli.filter.rulenames import RULE_FIELDS, complete_rule, rule_named, rules_in_order
from cli.options import table_options
from cli.paging import show_lines
from cli.screen import complain, say_json, screen_width, warn
from cli.tables import NOTHING, UNAVAILABLE, UNKNOWN, Column, Layout, render
from common.errors import PrerequisiteError
from common.words.filters.ruletext import action_text, reason_text, where_text

_NUMBERS: Final = ("number", "watermark", "priority")
_FIELDS: Final = ("number", *RULE_FIELDS)


@click.command("list", cls=Command, examples=("gnt-filter list", "gnt-filter list -o number,action,reason_trail"))
@click.option("-o", "--fields", "chosen", metavar="FIELDS", help="Columns, with commas; a leading + adds to the usual.")
@table_options
@click.option("-v", "--verbose", is_flag=True, help="Say in words why a cell has no value.")
@click.argument("names", metavar="[RULE]...", nargs=-1, shell_complete=complete_rule)
def list_rules(names: Sequence[str], chosen: str | None, no_headers: bool, separator: str | None, verbose: bool) -> int:
    """List all rules, or the named ones, in the order in which they are evaluated.

    The smallest priority comes first. Among equal priorities the smallest watermark does, the id of the last job when
    the rule was set, and then the smallest UUID. So a rule that was set later comes later only if a job was submitted
    between the two; give rules different priorities where their order matters.

    A rule is named by its UUID, the beginning of it, or its number; numbers change when rules come and go. Predicates
    are shown as a filter, as --where takes it, and of the reason trail the reason that was given; programs, with
    --no-headers, --separator or --output json, get all as it is stored.
    """
    layout = Layout(not no_headers, separator, nothing=UNAVAILABLE if verbose else NOTHING, width=screen_width())
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
