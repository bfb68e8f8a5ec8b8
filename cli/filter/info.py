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
from cli.filter.list import find_rules
from cli.filter.rulenames import RULE_FIELDS, complete_rule, rules_in_order
from cli.screen import say, say_json
from common.printable import printable
from protocol.luxi.queries import QueryFilters

_TITLES: Final = ("UUID", "Watermark", "Priority", "Predicates", "Action", "Reason trail")


@click.command("info", cls=Command, examples=("gnt-filter info", "gnt-filter info --output json | jq .[0].predicates"))
@click.argument("names", metavar="[RULE]...", nargs=-1, shell_complete=complete_rule)
def info(names: Sequence[str]) -> int:
    """Tell everything about these rules, or about all. A rule is named by its UUID, its beginning, or its number."""
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
