"""`gnt-filter list`: the rules as a table.

Source: cli.md 3, "list"; luxid.md 6.2, 7.5.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import click
import orjson

from cli.commands import Command
from cli.connection import ask_luxid
from cli.context import wants_json
from cli.exitcodes import DONE, FAILED, UNKNOWN_FIELD
from cli.filter.rulesubmission import RULE_FIELDS
from cli.options import table_options
from cli.screen import complain, say, say_json, warn
from cli.tables import NOTHING, UNAVAILABLE, UNKNOWN, Column, Layout, render
from common.query.kinds import QueryKind
from common.query.qlang import Expression
from protocol.luxi.queries import Query

_NUMBERS: Final = ("watermark", "priority")


@click.command("list", cls=Command, examples=("gnt-filter list", "gnt-filter list -o uuid,action,reason_trail"))
@click.option("-o", "--fields", "chosen", metavar="FIELDS", help="Columns, with commas; a leading + adds to the usual.")
@table_options
@click.option("-v", "--verbose", is_flag=True, help="Say in words why a cell has no value.")
@click.argument("uuids", metavar="[UUID]...", nargs=-1)
def list_rules(uuids: Sequence[str], chosen: str | None, no_headers: bool, separator: str | None, verbose: bool) -> int:
    """List all rules, or the named ones, in the order in which they are evaluated."""
    names = [name for name in (chosen or "").removeprefix("+").split(",") if name]
    fields = [*RULE_FIELDS, *names] if chosen is None or chosen.startswith("+") else names
    unknown = [name for name in fields if name not in RULE_FIELDS]
    rows = rules_in_order(uuids)
    if wants_json():
        say_json([{name: row.get(name) for name in fields} for row in rows])
    else:
        layout = Layout(not no_headers, separator, nothing=UNAVAILABLE if verbose else NOTHING)
        for line in rule_table(rows, fields, layout, unknown=UNKNOWN if verbose else "??"):
            say(line)
    for name in unknown:
        warn(f"unknown field '{name}'; fields are {', '.join(RULE_FIELDS)}")
    lost = tell_missing(uuids, [str(row["uuid"]) for row in rows])
    return UNKNOWN_FIELD if unknown else FAILED if lost else DONE


def rules_in_order(uuids: Sequence[str] = ()) -> list[dict[str, object]]:
    """All rules, or the named ones, in the order in which they are evaluated; each by its fields."""
    named = ["|", *(["==", "uuid", uuid] for uuid in uuids)] if uuids else None
    answer = ask_luxid(Query(QueryKind.FILTER, RULE_FIELDS, Expression.from_wire(named)))
    rows: list[dict[str, object]] = [dict(zip(RULE_FIELDS, row, strict=True)) for row in answer.values()]
    return sorted(rows, key=lambda row: (row["priority"], row["watermark"], row["uuid"]))


def rule_table(
    rows: Sequence[Mapping[str, object]], fields: Sequence[str], layout: Layout, *, unknown: str
) -> Iterable[str]:
    """The lines of a table of rules.

    Args:
        unknown: text for fields that rules do not have.
    """
    columns = [Column(name.upper() if name in RULE_FIELDS else name, name in _NUMBERS) for name in fields]
    cells = [[_text(row[name]) if name in row else unknown for name in fields] for row in rows]
    return render(columns, cells, layout)


def tell_missing(asked: Sequence[str], found: Sequence[str]) -> bool:
    """Complain about each uuid that no rule has; return whether there was one."""
    lost = [uuid for uuid in asked if uuid not in found]
    for uuid in lost:
        complain(f"there is no filter rule '{uuid}'; list them with 'gnt-filter list'")
    return bool(lost)


def _text(value: object) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()
