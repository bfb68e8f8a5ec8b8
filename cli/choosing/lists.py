"""Lists of objects: which are shown, with which fields."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import attrs
import click

from cli.choosing.filtering import warn_of_stars
from cli.commands import Command
from cli.connection import ask_luxid
from cli.context import wants_json
from cli.exitcodes import DONE, UNKNOWN_FIELD
from cli.options import gathered
from cli.screen import say, say_json, warn
from cli.tables import TABLE_OPTIONS, Column, Layout, render, show_lines, table_options
from common.objects.kinds import QueryKind
from common.printable import printable
from common.query.qlang import Expression as QueryExpression
from common.words.cells import SizeUnit, cell_text
from common.words.filters.filtertext import Expression, glob_regex, parse_filter
from common.words.filters.jobfilter import is_filter
from protocol.luxi.queries import Cell, FieldDefinition, Query, QueryFields

# The objects that a list shows: names, names with `*` and `?`, or one filter.
#
# Source: cli.md 1.4.


def object_filter(words: Sequence[str], *, is_filtering: bool) -> QueryExpression | None:
    """The condition for the objects that these arguments name; None: all.

    Args: is_filtering: whether the only argument is a filter, even if it looks like a name.
    Raises: InvalidRequest: the filter cannot be read. UsageError: several arguments where one filter is wanted.
    """
    if is_filtering and len(words) != 1:
        raise click.UsageError(f"--filter takes one argument, got {len(words)}; put the filter into quotes")
    if not words:
        return None
    if len(words) == 1 and (is_filtering or is_filter(words[0])):
        condition = parse_filter(words[0])
        warn_of_stars(words[0])
        return QueryExpression.from_wire(condition)
    named: list[Expression] = [_named(word) for word in words]
    return QueryExpression.from_wire(["|", *named])


def _named(word: str) -> Expression:
    return ["=~", "name", glob_regex(word)] if "*" in word or "?" in word else ["==", "name", word]


# The table of `list`: objects of one kind, with chosen fields.
#
# Source: cli.md 1.3 and 1.4.


_NUMBERS: Final = ("number", "float", "unit")
# function for a value that has a text of its own in a list
Shown = Callable[[object], str]


@attrs.frozen
class ListOptions:
    """What a list shows, and how."""

    chosen: str | None
    no_headers: bool
    separator: str | None
    units: str | None
    verbose: bool
    is_filtering: bool


# `-o`, `--no-headers`, `--separator`, `--units`, `-v` and `-F`: a verb gets its `options`
list_options: Final = gathered(
    "options",
    ListOptions,
    click.option(
        "-o",
        "--fields",
        "chosen",
        metavar="FIELDS",
        help="Columns, separated by commas; a leading + adds to the usual.",
    ),
    *TABLE_OPTIONS,
    click.option(
        "--units", type=click.Choice([each.value for each in SizeUnit]), help="Sizes in MiB, GiB, TiB or as fits."
    ),
    click.option("-v", "--verbose", is_flag=True, help="Explain why a cell has no value."),
    click.option("-F", "--filter", "is_filtering", is_flag=True, help="Take the argument as a filter."),
)


def tell_objects(
    kind: QueryKind,
    usual: Sequence[str],
    words: Sequence[str],
    options: ListOptions,
    program: str,
    shown: Mapping[str, Shown] | None = None,
) -> int:
    """Print the objects that the words name, or all; return the exit code.

    Args:
        usual: fields when none are chosen.
        shown: field -> how its values are shown.
    """
    fields = _fields(options.chosen, usual, program)
    found = ask_luxid(Query(kind, fields, object_filter(words, is_filtering=options.is_filtering)))
    if wants_json():
        say_json([dict(zip(fields, row, strict=True)) for row in found.values()])
    else:
        columns = [Column(field.title, field.kind in _NUMBERS) for field in found.fields]
        kinds = [(field.kind, (shown or {}).get(field.name)) for field in found.fields]
        cells = [
            [_text(kind, own, cell, options) for (kind, own), cell in zip(kinds, row, strict=True)]
            for row in found.data
        ]
        show_lines(render(columns, cells, Layout(not options.no_headers, options.separator)))
    unknown = [field.name for field in found.fields if field.kind == "unknown"]
    for name in unknown:
        warn(f"unknown field '{name}'; '{program} list-fields' shows all")
    return UNKNOWN_FIELD if unknown else DONE


def _fields(chosen: str | None, usual: Sequence[str], program: str) -> tuple[str, ...]:
    if chosen is None:
        return tuple(usual)
    names = tuple(name for name in chosen.removeprefix("+").split(",") if name)
    if not names:
        raise click.UsageError(f"-o '{chosen}' names no field; '{program} list-fields' shows all")
    return (*usual, *names) if chosen.startswith("+") else names


def _text(kind: str, own: Shown | None, cell: Cell, options: ListOptions) -> str:
    state, value = cell
    if own is not None and not state and value is not None:
        return own(value)
    units = SizeUnit(options.units) if options.units else None
    separated = SizeUnit.PEOPLE if options.separator is None else SizeUnit.MEBIBYTES
    return cell_text(kind, state, value, units or separated, in_words=options.verbose)


# Everything about objects: the verb `info`.


Row = Mapping[str, object]


def tell_whole(
    kind: QueryKind, fields: Sequence[str], names: Sequence[str], lines: Callable[[Row], Iterable[str]]
) -> int:
    """Print all these fields of the named objects, or of all; return the exit code."""
    found = ask_luxid(Query(kind, tuple(fields), object_filter(names, is_filtering=False)))
    rows = [dict(zip(fields, row, strict=True)) for row in found.values()]
    if wants_json():
        say_json(rows)
        return DONE
    for row in rows:
        for line in lines(row):
            say(printable(line))
    return DONE


def as_object(value: object) -> Mapping[str, object]:
    """The value, or nothing where an object lacks it."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> Sequence[object]:
    """The same for a list."""
    return value if isinstance(value, list | tuple) else ()


# The table of the fields that a list can have, as luxid tells them.
#
# Source: cli.md 1.3, "list-fields".


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


def fields_command(
    what: QueryKind, program: str, example: str = "", help: str | None = None, own: Sequence[OwnField] = ()
) -> click.Command:
    """The verb `list-fields` of a program.

    Args: example: names of fields. help: other than of lists that take filters.
    """
    command = f"{program} list-fields"
    usual = f"Tell the fields that {program} list can show and filters can compare; all, or the named ones."

    @click.command(
        "list-fields",
        cls=Command,
        examples=(command, f"{command} {example}") if example else (command,),
        help=help or usual,
    )
    @table_options
    @click.argument("names", metavar="[FIELD]...", nargs=-1)
    def list_fields(names: Sequence[str], layout: Layout) -> int:
        return tell_fields(what, names, layout, own)

    return list_fields


def _definitions(what: QueryKind, names: Sequence[str], own: Mapping[str, OwnField]) -> list[FieldDefinition]:
    asked = tuple(name for name in names if name not in own)
    told = ask_luxid(QueryFields(what, asked or None)).fields if asked or not names else ()
    if not names:
        return sorted([*told, *(field.definition() for field in own.values())], key=lambda each: each.name)
    by_name = {each.name: each for each in told}
    return [own[name].definition() if name in own else by_name[name] for name in names]


def _cells(field: FieldDefinition) -> list[str]:
    return [field.name, KINDS.get(field.kind, field.kind), field.title, field.doc]
