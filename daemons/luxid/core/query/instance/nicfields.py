"""The network interfaces of an instance as fields of it: all together, and one by one.

Source: luxid.md 7.6, "instance".
"""

from collections.abc import Callable, Iterable
from typing import Final

from common.objects.instance import AnyInstance
from common.objects.kinds import NicMode
from common.objects.networks.nic import Nic
from common.objects.params import NicParams, filled
from daemons.luxid.core.query.fields import Kind, QueryField, Status, or_unavailable
from daemons.luxid.core.query.rows import Row

_Row = Row[AnyInstance]
_Field = QueryField[_Row]
_Read = Callable[[_Row, Nic], object]

_NICS: Final = 8


def _params(row: _Row, nic: Nic) -> NicParams:
    return filled(row.config.config.cluster.nicparams["default"], nic.nicparams)


def _bridge(row: _Row, nic: Nic) -> str | None:
    params = _params(row, nic)
    return params.link if params.mode is NicMode.BRIDGED else None


def _network_name(row: _Row, nic: Nic) -> str | None:
    network = row.config.config.networks.get(nic.network) if nic.network is not None else None
    return network.name if network is not None else None


# name, title of one, name and title of all, what it is, how it is read (None: there is none)
_ASPECTS: Final[tuple[tuple[str, str, str, str, str, _Read], ...]] = (
    ("ip", "NicIP", "ips", "NIC_IPs", "IP address", lambda _, nic: nic.ip),
    ("mac", "NicMAC", "macs", "NIC_MACs", "MAC address", lambda _, nic: nic.mac),
    ("mode", "NicMode", "modes", "NIC_modes", "mode", lambda row, nic: _params(row, nic).mode.value),
    ("link", "NicLink", "links", "NIC_links", "link", lambda row, nic: _params(row, nic).link),
    ("bridge", "NicBridge", "bridges", "NIC_bridges", "bridge", _bridge),
    ("vlan", "NicVLAN", "vlans", "NIC_VLANs", "VLAN", lambda row, nic: _params(row, nic).vlan or None),
    ("name", "NicName", "names", "NIC_Names", "name", lambda _, nic: nic.name),
    ("uuid", "NicUUID", "uuids", "NIC_UUIDs", "UUID", lambda _, nic: nic.uuid),
    ("network", "NicNetwork", "networks", "NIC_networks", "UUID of the network", lambda _, nic: nic.network),
    ("network.name", "NicNetworkName", "networks.names", "NIC_networks_names", "name of the network", _network_name),
)
# names of old, for the first interface
_OLD: Final = {
    "bridge": "bridge",
    "ip": "ip",
    "mac": "mac",
    "nic_link": "link",
    "nic_mode": "mode",
    "nic_network": "network",
}


def nic_fields() -> Iterable[_Field]:
    """The fields about network interfaces."""
    yield _Field("nic.count", "NICs", Kind.NUMBER, "number of interfaces", lambda row: len(row.object.nics))
    for name, one, plural, every, doc, read in _ASPECTS:
        yield _Field(f"nic.{plural}", every, Kind.OTHER, f"{doc} of each interface", _of_each(read))
        for index in range(_NICS):
            yield _Field(
                f"nic.{name}/{index}", f"{one}/{index}", Kind.TEXT, f"{doc} of interface {index}", _of_one(read, index)
            )
        for old in (old for old, new in _OLD.items() if new == name):
            yield _Field(old, f"{one}/0", Kind.TEXT, f"{doc} of interface 0, under its old name", _of_one(read, 0))


def _of_each(read: _Read) -> Callable[[_Row], object]:
    return lambda row: [read(row, nic) for nic in row.object.nics]


def _of_one(read: _Read, index: int) -> Callable[[_Row], object]:
    def value(row: _Row) -> object:
        nics = row.object.nics
        return or_unavailable(read(row, nics[index])) if index < len(nics) else Status.UNAVAILABLE

    return value
