"""The fields of networks.

Source: luxid.md 7.6, "network"; wconfd.md 2.4 (pools).
"""

import ipaddress
from typing import Final

from common.objects.kinds import NetworkUuid
from common.objects.networks.network import Network
from common.objects.params import filled
from daemons.luxid.core.query.engine import Things
from daemons.luxid.core.query.entities import entity_fields
from daemons.luxid.core.query.fields import Kind, QueryField, Status, or_unavailable
from daemons.luxid.core.query.rows import Row

NetworkRow = Row[Network]
_Field = QueryField[NetworkRow]


def _taken(row: NetworkRow) -> str | None:
    """A 1 for each address that is taken, from inside or outside; None: the network has no pool."""
    pools = [pool for pool in (row.object.reservations, row.object.ext_reservations) if pool is not None]
    if not pools:
        return None
    width = max(len(pool) for pool in pools)
    return "".join(
        "1" if "1" in column else "0" for column in zip(*(pool.ljust(width, "0") for pool in pools), strict=True)
    )


def _count(row: NetworkRow, digit: str) -> object:
    taken = _taken(row)
    return Status.UNAVAILABLE if taken is None else taken.count(digit)


def _map(row: NetworkRow) -> object:
    taken = _taken(row)
    return Status.UNAVAILABLE if taken is None else taken.translate({ord("0"): ".", ord("1"): "X"})


def _external(row: NetworkRow) -> object:
    pool = row.object.ext_reservations
    if pool is None:
        return Status.UNAVAILABLE
    base = int(ipaddress.IPv4Network(row.object.network, strict=False).network_address)
    return ", ".join(str(ipaddress.IPv4Address(base + place)) for place, digit in enumerate(pool) if digit == "1")


def _groups(row: NetworkRow) -> list[list[str]]:
    """The groups it is connected to, and how: [group, mode, link, vlan]."""
    default = row.config.config.cluster.nicparams["default"]
    found = []
    for group in row.config.groups:
        own = group.networks.get(NetworkUuid(row.object.uuid))
        if own is not None:
            params = filled(default, own)
            found.append([group.name, params.mode.value, params.link, params.vlan])
    return found


_CONFIGURED: Final[tuple[_Field, ...]] = (
    _Field("name", "Network", Kind.TEXT, "name of the network", lambda row: row.object.name),
    _Field("network", "Subnet", Kind.TEXT, "IPv4 range", lambda row: row.object.network),
    _Field(
        "gateway", "Gateway", Kind.OTHER, "gateway of the IPv4 range", lambda row: or_unavailable(row.object.gateway)
    ),
    _Field("network6", "IPv6Subnet", Kind.OTHER, "IPv6 range", lambda row: or_unavailable(row.object.network6)),
    _Field(
        "gateway6",
        "IPv6Gateway",
        Kind.OTHER,
        "gateway of the IPv6 range",
        lambda row: or_unavailable(row.object.gateway6),
    ),
    _Field(
        "mac_prefix",
        "MacPrefix",
        Kind.OTHER,
        "begin of the MAC addresses in it",
        lambda row: or_unavailable(row.object.mac_prefix),
    ),
    _Field("free_count", "FreeCount", Kind.NUMBER, "number of free addresses", lambda row: _count(row, "0")),
    _Field("reserved_count", "ReservedCount", Kind.NUMBER, "number of taken addresses", lambda row: _count(row, "1")),
    _Field("map", "Map", Kind.TEXT, "X for each taken address, . for each free one", _map),
    _Field("external_reservations", "ExternalReservations", Kind.TEXT, "addresses taken from outside", _external),
    _Field("group_list", "GroupList", Kind.OTHER, "groups it is connected to: name, mode, link, VLAN", _groups),
    _Field(
        "group_cnt", "NodeGroups", Kind.NUMBER, "number of groups it is connected to", lambda row: len(_groups(row))
    ),
    _Field(
        "inst_list",
        "InstanceList",
        Kind.OTHER,
        "instances with an interface in it",
        lambda row: row.config.network_instances(row.object.uuid),
    ),
    _Field(
        "inst_cnt",
        "Instances",
        Kind.NUMBER,
        "number of instances with an interface in it",
        lambda row: len(row.config.network_instances(row.object.uuid)),
    ),
)

NETWORKS: Final[Things[NetworkRow]] = Things.of("network", (*_CONFIGURED, *entity_fields("network")), name_field="name")
