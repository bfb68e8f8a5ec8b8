"""`gnt-group list`: node groups as a table.

Source: cli.md 1.3 and 1.4.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Unpack

import click

from cli.choosing.lists import ListOptions, list_options, object_filter, tell_fields, tell_objects
from cli.commands import Command
from cli.connection import ask_luxid
from cli.context import wants_json
from cli.exitcodes import DONE
from cli.options import complete_group, table_options
from cli.screen import say, say_json
from cli.tables import Layout
from common.objects.kinds import QueryKind
from common.printable import printable
from protocol.luxi.queries import Query

_USUAL: Final = ("name", "node_cnt", "pinst_cnt", "alloc_policy", "ndparams")


@click.command(
    "list",
    cls=Command,
    examples=(
        "gnt-group list",
        "gnt-group list -o name,node_list,pinst_list",
        "gnt-group list -o +tags 'alloc_policy == \"last_resort\"'",
        "gnt-group list --output json -o name,node_cnt",
    ),
)
@list_options
@click.argument("words", metavar="[GROUP...|FILTER]", nargs=-1, shell_complete=complete_group)
def list_groups(words: Sequence[str], **options: Unpack[ListOptions]) -> int:
    """List all node groups, the named ones, or those for which a filter holds: 'node_cnt > 3'."""
    return tell_objects(QueryKind.GROUP, _USUAL, words, options, "gnt-group", {"ndparams": _parameters})


def _parameters(value: object) -> str:
    """Parameters of nodes, as Ganeti's command shows them."""
    if not isinstance(value, dict):
        return str(value)
    return ", ".join(f"{name}={part}" for name, part in value.items())


# `gnt-group list-fields`: the columns of `gnt-group list`.


@click.command("list-fields", cls=Command, examples=("gnt-group list-fields", "gnt-group list-fields node_list tags"))
@table_options
@click.argument("names", metavar="[FIELD]...", nargs=-1)
def list_fields(names: Sequence[str], no_headers: bool, separator: str | None) -> int:
    """Tell the fields that gnt-group list can show and filters can compare; all, or the named ones."""
    return tell_fields(QueryKind.GROUP, names, Layout(not no_headers, separator))


# `gnt-group info`: everything about node groups.
#
# Source: Ganeti's `gnt-group info` (seen).


_FIELDS: Final = (
    *("name", "uuid", "alloc_policy", "node_list", "pinst_list", "tags", "ndparams", "custom_ndparams"),
    *("diskparams", "custom_diskparams", "ipolicy", "custom_ipolicy"),
)
_RATIOS: Final = ("spindle-ratio", "vcpu-ratio")


@click.command(
    "info", cls=Command, examples=("gnt-group info rack2", "gnt-group info --output json | jq .[].node_list")
)
@click.argument("names", metavar="[GROUP]...", nargs=-1, shell_complete=complete_group)
def info(names: Sequence[str]) -> int:
    """Tell the parameters and the policy of these node groups, or of all, and which are the cluster's."""
    found = ask_luxid(Query(QueryKind.GROUP, _FIELDS, object_filter(names, is_filtering=False)))
    rows = [dict(zip(_FIELDS, row, strict=True)) for row in found.values()]
    if wants_json():
        say_json(rows)
        return DONE
    for row in rows:
        for line in _group_lines(row):
            say(printable(line))
    return DONE


def _group_lines(row: Mapping[str, object]) -> Iterator[str]:
    yield f"- Node group: {row['name']}"
    yield "  Node parameters: "
    yield from _indented(4, _value_lines(_object(row["ndparams"]), _object(row["custom_ndparams"])))
    yield "  Disk parameters: "
    own = _object(row["custom_diskparams"])
    for template, values in sorted(_object(row["diskparams"]).items()):
        yield from _indented(4, _template_lines(template, _object(values), _object(own.get(template))))
    yield "  Instance policy: "
    yield from _indented(4, _policy_lines(_object(row["ipolicy"]), _object(row["custom_ipolicy"])))


def _value_lines(values: Mapping[str, object], own: Mapping[str, object]) -> Iterator[str]:
    for name in sorted(values):
        yield f"{name}: {own[name]}" if name in own else f"{name}: default ({values[name]})"


def _template_lines(template: str, values: Mapping[str, object], own: Mapping[str, object]) -> Iterator[str]:
    """As in Ganeti, of a template with parameters of its own only those are told."""
    if not values:
        yield f"{template}: default ({{}})"
        return
    yield f"{template}: "
    yield from _indented(2, _value_lines(own or values, own))


def _policy_lines(policy: Mapping[str, object], own: Mapping[str, object]) -> Iterator[str]:
    yield "bounds specs: "
    has_own = "minmax" in own
    for number, sizes in enumerate(_list(policy["minmax"])):
        for mark, end in (("-", "min"), (" ", "max")):
            limits = _object(_object(sizes).get(end))
            yield f"  {mark} {end}/{number}: "
            yield from _indented(6, _value_lines(limits, limits if has_own else {}))
    templates = ", ".join(map(str, _list(policy["disk-templates"])))
    yield f"allowed disk templates: {templates if 'disk-templates' in own else f'default ({templates})'}"
    yield from _value_lines({name: policy[name] for name in _RATIOS}, own)


def _indented(count: int, lines: Iterator[str]) -> Iterator[str]:
    return (f"{' ' * count}{line}" for line in lines)


def _object(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else ()
