"""`gnt-group list`: node groups as a table.

Source: cli.md 1.3 and 1.4.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import click

from cli.choosing.lists import (
    ListOptions,
    as_list,
    as_object,
    fields_command,
    list_options,
    tell_objects,
    tell_whole,
)
from cli.commands import Command
from cli.options import complete_group
from common.objects.kinds import QueryKind

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
def list_groups(words: Sequence[str], options: ListOptions) -> int:
    """List all node groups, the named ones, or those for which a filter holds: 'node_cnt > 3'."""
    return tell_objects(QueryKind.GROUP, _USUAL, words, options, "gnt-group", {"ndparams": _parameters})


def _parameters(value: object) -> str:
    """Parameters of nodes, as Ganeti's command shows them."""
    if not isinstance(value, dict):
        return str(value)
    return ", ".join(f"{name}={part}" for name, part in value.items())


# `gnt-group list-fields`: the columns of `gnt-group list`.


list_fields = fields_command(QueryKind.GROUP, "gnt-group", "node_list tags")


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
    return tell_whole(QueryKind.GROUP, _FIELDS, names, _group_lines)


def _group_lines(row: Mapping[str, object]) -> Iterator[str]:
    yield f"- Node group: {row['name']}"
    yield "  Node parameters: "
    yield from _indented(4, _value_lines(as_object(row["ndparams"]), as_object(row["custom_ndparams"])))
    yield "  Disk parameters: "
    own = as_object(row["custom_diskparams"])
    for template, values in sorted(as_object(row["diskparams"]).items()):
        yield from _indented(4, _template_lines(template, as_object(values), as_object(own.get(template))))
    yield "  Instance policy: "
    yield from _indented(4, _policy_lines(as_object(row["ipolicy"]), as_object(row["custom_ipolicy"])))


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
    for number, sizes in enumerate(as_list(policy["minmax"])):
        for mark, end in (("-", "min"), (" ", "max")):
            limits = as_object(as_object(sizes).get(end))
            yield f"  {mark} {end}/{number}: "
            yield from _indented(6, _value_lines(limits, limits if has_own else {}))
    templates = ", ".join(map(str, as_list(policy["disk-templates"])))
    yield f"allowed disk templates: {templates if 'disk-templates' in own else f'default ({templates})'}"
    yield from _value_lines({name: policy[name] for name in _RATIOS}, own)


def _indented(count: int, lines: Iterator[str]) -> Iterator[str]:
    return (f"{' ' * count}{line}" for line in lines)
