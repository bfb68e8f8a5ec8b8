"""The fields that all objects of the configuration have, and those of the parameters of nodes.

Source: luxid.md 7.6, "common", "ndp/*".
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

from common.objects.entity import Entity
from common.objects.params import NdParams
from daemons.luxid.core.query.fields import Kind, QueryField
from daemons.luxid.core.query.rows import Row

R = TypeVar("R")


def entity_fields(what: str) -> Iterable[QueryField[Row[Entity]]]:
    """Times, id, serial number and tags of `what`."""
    return (
        QueryField("ctime", "CTime", Kind.TIMESTAMP, f"when the {what} was made", lambda row: row.object.ctime),
        QueryField("mtime", "MTime", Kind.TIMESTAMP, f"when the {what} last changed", lambda row: row.object.mtime),
        QueryField("uuid", "UUID", Kind.TEXT, f"UUID of the {what}", lambda row: row.object.uuid),
        QueryField(
            "serial_no",
            "SerialNo",
            Kind.NUMBER,
            f"grows with each change of the {what}",
            lambda row: row.object.serial_no,
        ),
        QueryField("tags", "Tags", Kind.OTHER, f"tags of the {what}, sorted", lambda row: sorted(row.object.tags)),
    )


_ND_PARAMS = (
    ("cpu_speed", "ndp/cpu_speed", Kind.FLOAT, "speed of its processors, as a factor to the usual"),
    ("exclusive_storage", "ExclusiveStorage", Kind.BOOL, "whether no two instances may share a physical disk"),
    ("oob_program", "OutOfBandProgram", Kind.OTHER, "program for power control"),
    ("ovs", "OpenvSwitch", Kind.BOOL, "whether Open vSwitch is set up"),
    ("ovs_link", "OpenvSwitchLink", Kind.OTHER, "interface that connects the virtual switch to outside"),
    ("ovs_name", "OpenvSwitchName", Kind.OTHER, "name of the virtual switch"),
    ("spindle_count", "SpindleCount", Kind.NUMBER, "spindles that the storage is taken to have"),
    ("ssh_port", "ndp/ssh_port", Kind.NUMBER, "port of the SSH daemon"),
)


def nd_param_fields(params: Callable[[R], NdParams]) -> Iterable[QueryField[R]]:
    """A field for each parameter of nodes."""
    return [
        QueryField(f"ndp/{name}", title, kind, f"{doc} (node parameter)", _param_reader(params, name))
        for name, title, kind, doc in _ND_PARAMS
    ]


def _param_reader(params: Callable[[R], NdParams], name: str) -> Callable[[R], object]:
    return lambda row: getattr(params(row), name)
