"""Builders for configuration tests: the recorded configuration, a small one, and objects for it."""

from pathlib import Path
from typing import Any

import attrs
import orjson

from common.objects.codec import decode_object
from common.objects.config import AnyDisk, AnyInstance, Config, Node
from common.objects.initial import NewUuids, initial_config
from common.objects.kinds import GroupUuid, NodeUuid

RECORDED = Path(__file__).parents[1] / "data" / "ganeti-3.0.2"
UUIDS = NewUuids(cluster="uuid-cluster", node=NodeUuid("uuid-node"), group=GroupUuid("uuid-group"))


def recorded_json() -> dict[str, Any]:
    """The recorded `config.data`, a fresh copy."""
    value: dict[str, Any] = orjson.loads((RECORDED / "config.data").read_bytes())
    return value


def small_config() -> Config:
    """What a new cluster starts with, at time 1000."""
    return initial_config("cluster.test", "node1.test", primary_ip="192.0.2.1", now=1000.0, uuids=UUIDS)


def instance_json(uuid: str, **changes: Any) -> dict[str, Any]:
    """A settled instance with the required keys alone."""
    return {
        "name": f"{uuid}.test",
        "primary_node": UUIDS.node,
        "os": "noop",
        "hypervisor": "fake",
        "admin_state": "up",
        "admin_state_source": "admin",
        "disks_active": True,
        "uuid": uuid,
        "serial_no": 1,
        **changes,
    }


def instance(uuid: str, **changes: Any) -> AnyInstance:
    value: AnyInstance = decode_object(instance_json(uuid, **changes), AnyInstance, "instance")  # type: ignore[arg-type]
    return value


def disk_json(uuid: str, **changes: Any) -> dict[str, Any]:
    """A settled disk with the required keys alone."""
    return {
        "dev_type": "plain",
        "logical_id": ["xenvg", uuid],
        "size": 1024,
        "uuid": uuid,
        "serial_no": 1,
        **changes,
    }


def disk(uuid: str, **changes: Any) -> AnyDisk:
    value: AnyDisk = decode_object(disk_json(uuid, **changes), AnyDisk, "disk")  # type: ignore[arg-type]
    return value


def node(name: str, *, candidate: bool = False, **changes: Any) -> Node:
    """An online node of the small configuration's group."""
    values = {"master_candidate": candidate, "offline": False, "drained": False, "master_capable": True, **changes}
    (first,) = small_config().nodes.values()
    return attrs.evolve(first, name=name, uuid=f"uuid-{name}", **values)
