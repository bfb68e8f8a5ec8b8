"""`gnt-network list`: networks as a table.

Source: cli.md 1.3 and 1.4.
"""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import click

from cli.choosing.lists import (
    ListOptions,
    as_list,
    fields_command,
    list_options,
    object_filter,
    tell_objects,
    tell_whole,
)
from cli.commands import Command
from cli.connection import ask_luxid
from cli.options import complete_network
from common.objects.kinds import QueryKind
from protocol.luxi.queries import Query

_USUAL: Final = ("name", "network", "gateway", "mac_prefix", "group_list", "tags")


@click.command(
    "list",
    cls=Command,
    examples=(
        "gnt-network list",
        "gnt-network list -o name,free_count,reserved_count",
        "gnt-network list -o +inst_list 'free_count < 10'",
        "gnt-network list --output json -o name,gateway",
    ),
)
@list_options
@click.argument("words", metavar="[NETWORK...|FILTER]", nargs=-1, shell_complete=complete_network)
def list_networks(words: Sequence[str], options: ListOptions) -> int:
    """List all networks, the named ones, or those for which a filter holds: 'free_count < 10'."""
    return tell_objects(QueryKind.NETWORK, _USUAL, words, options, "gnt-network", {"group_list": _groups})


def _groups(value: object) -> str:
    """Groups with the parameters of the connection, as Ganeti's command shows them."""
    if not isinstance(value, list):
        return str(value)
    return ", ".join(f"{name} ({', '.join(map(str, params))})" for name, *params in value)


# `gnt-network list-fields`: the columns of `gnt-network list`.


list_fields = fields_command(QueryKind.NETWORK, "gnt-network", "map free_count")


# `gnt-network info`: everything about networks.
#
# Source: cli.md 1.


_FIELDS: Final = (
    *("name", "uuid", "serial_no", "ctime", "mtime", "network", "gateway", "network6", "gateway6", "mac_prefix"),
    *("free_count", "reserved_count", "map", "external_reservations", "group_list", "inst_list", "tags"),
)
_LINES: Final = {
    "Network name": "name",
    "UUID": "uuid",
    "Serial number": "serial_no",
    "  Subnet": "network",
    "  Gateway": "gateway",
    "  IPv6 Subnet": "network6",
    "  IPv6 Gateway": "gateway6",
    "  Mac Prefix": "mac_prefix",
}
_NICS: Final = ("name", "nic.ips", "nic.networks")
# addresses in a line of the usage map, and characters in one of reserved addresses
_WIDTH: Final = 64


@click.command("info", cls=Command, examples=("gnt-network info front", "gnt-network info --output json | jq .[].map"))
@click.argument("names", metavar="[NETWORK]...", nargs=-1, shell_complete=complete_network)
def info(names: Sequence[str]) -> int:
    """Show everything about these networks, or about all, with a map of the addresses that are taken."""
    return tell_whole(QueryKind.NETWORK, _FIELDS, names, lambda row: _network_lines(row, _addresses(row)))


def _addresses(network: Mapping[str, object]) -> Mapping[str, str]:
    """Instance -> its interfaces in the network, `number:address`."""
    names = as_list(network["inst_list"])
    if not names:
        return {}
    found = ask_luxid(
        Query(QueryKind.INSTANCE, _NICS, object_filter([str(name) for name in names], is_filtering=False))
    )
    return {
        str(name): ", ".join(
            f"{index}:{ip}"
            for index, (ip, uuid) in enumerate(zip(as_list(ips), as_list(networks), strict=False))
            if uuid == network["uuid"]
        )
        for name, ips, networks in found.values()
    }


def _network_lines(row: Mapping[str, object], addresses: Mapping[str, str]) -> Iterator[str]:
    for title, field in _LINES.items():
        yield f"{title}: {row[field]}"
    yield from _pool_lines(row)
    groups = as_list(row["group_list"])
    yield "  connected to node groups:" if groups else "  not connected to any node group"
    for group in groups:
        name, mode, link, vlan = as_list(group)
        yield f"    {name} (mode:{mode} link:{link} vlan:{vlan})"
    yield f"  used by {len(addresses)} instances:" if addresses else "  not used by any instances"
    yield from (f"    {name}: {text}" for name, text in addresses.items())


def _pool_lines(row: Mapping[str, object]) -> Iterator[str]:
    free, taken = row["free_count"], row["reserved_count"]
    if not isinstance(free, int) or not isinstance(taken, int):
        # no instance has had an address yet, nor was one reserved
        return
    size = free + taken
    yield f"  Size: {size}"
    yield f"  Free: {free} ({100 * free / size:.2f}%)"
    yield "  Usage map:"
    usage = str(row["map"])
    for start in range(0, len(usage), _WIDTH):
        yield f"     {start:4} {usage[start : start + _WIDTH]:{_WIDTH}} {start + _WIDTH - 1}"
    yield "         (X) used    (.) free"
    if external := str(row["external_reservations"] or ""):
        yield "  externally reserved IPs:"
        yield from (f"    {line}" for line in textwrap.wrap(external, width=_WIDTH))
