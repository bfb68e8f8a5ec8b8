"""The table of the fields that a list can have, as luxid tells them.

Source: cli.md 1.3, "list-fields".
"""

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from cli.connection import ask_luxid
from cli.context import wants_json
from cli.exitcodes import DONE, UNKNOWN_FIELD
from cli.paging import show_lines
from cli.screen import say_json, warn
from cli.tables import Column, Layout, render
from common.query.kinds import QueryKind
from protocol.luxi.queries import FieldDefinition, QueryFields

KINDS: Final = {
    "unknown": "Unknown",
    "text": "Text",
    "bool": "Boolean",
    "number": "Number",
    "float": "Floating-point number",
    "unit": "Storage size",
    "timestamp": "Timestamp",
    "other": "Custom",
}
_COLUMNS: Final = (Column("NAME"), Column("TYPE"), Column("TITLE"), Column("DESCRIPTION"))


@attrs.frozen
class OwnField:
    """A column that the client computes; luxid does not know it."""

    name: str
    doc: str

    def definition(self) -> FieldDefinition:
        return FieldDefinition(self.name, self.name.capitalize(), "other", self.doc)


def tell_fields(what: QueryKind, names: Sequence[str], layout: Layout, own: Sequence[OwnField] = ()) -> int:
    """Print the named fields, or all fields by name; return the exit code."""
    definitions = _definitions(what, names, {field.name: field for field in own})
    if wants_json():
        say_json(definitions)
    else:
        show_lines(render(_COLUMNS, map(_cells, definitions), layout))
    unknown = [each.name for each in definitions if each.kind == "unknown"]
    for name in unknown:
        warn(f"unknown field '{name}'; without names all fields are listed")
    return UNKNOWN_FIELD if unknown else DONE


def _definitions(what: QueryKind, names: Sequence[str], own: Mapping[str, OwnField]) -> list[FieldDefinition]:
    asked = tuple(name for name in names if name not in own)
    told = ask_luxid(QueryFields(what, asked or None)).fields if asked or not names else ()
    if not names:
        return sorted([*told, *(field.definition() for field in own.values())], key=lambda each: each.name)
    by_name = {each.name: each for each in told}
    return [own[name].definition() if name in own else by_name[name] for name in names]


def _cells(field: FieldDefinition) -> list[str]:
    return [field.name, KINDS.get(field.kind, field.kind), field.title, field.doc]
