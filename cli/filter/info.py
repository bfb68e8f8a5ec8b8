"""`gnt-filter info`: everything about rules, six lines for each.

Source: cli.md 3, "info".
"""

from collections.abc import Sequence
from typing import Final

import click
import orjson

from cli.commands import Command
from cli.connection import ask_luxid
from cli.context import wants_json
from cli.exitcodes import DONE, FAILED
from cli.filter.list import tell_missing
from cli.filter.rulesubmission import RULE_FIELDS
from cli.screen import say, say_json
from common.printable import printable
from protocol.luxi.queries import QueryFilters

_TITLES: Final = ("UUID", "Watermark", "Priority", "Predicates", "Action", "Reason trail")


@click.command("info", cls=Command, examples=("gnt-filter info", "gnt-filter info --output json | jq .[0].predicates"))
@click.argument("uuids", metavar="[UUID]...", nargs=-1)
def info(uuids: Sequence[str]) -> int:
    """Tell everything about these rules, or about all."""
    rows = ask_luxid(QueryFilters(tuple(uuids) or None, RULE_FIELDS))
    if wants_json():
        say_json([dict(zip(RULE_FIELDS, row, strict=True)) for row in rows])
    else:
        for row in rows:
            for place, (title, value) in enumerate(zip(_TITLES, row, strict=True)):
                text = value if isinstance(value, str) else orjson.dumps(value).decode()
                say(f"{'  ' if place else ''}{title}: {printable(text)}")
    return FAILED if tell_missing(uuids, [str(row[0]) for row in rows]) else DONE
