"""What tests of confd share: the recorded conversation with Ganeti's, and a configuration with all there is to ask."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from common.objects.codec import decode_config
from daemons.confd.core.answers import ConfigSnapshot
from daemons.confd.core.catalogue import Catalogue
from tests.support.configs import disk_json, instance_json, recorded_json

RECORDED: Final = Path(__file__).parents[2] / "data" / "confd"
KEY: Final = (RECORDED / "hmac.key").read_bytes()
NODES: Final = ("node1.test", "node2.test", "node3.test")


def recorded_exchanges() -> list[dict[str, Any]]:
    return [json.loads(line) for line in (RECORDED / "exchanges.jsonl").read_text().splitlines()]


def answered(exchange: Mapping[str, Any]) -> Any:
    """The text of a recorded reply, as a value."""
    return json.loads(json.loads(exchange["reply"][4:])["msg"])


@cache
def recorded_snapshot() -> ConfigSnapshot:
    """What the recorded confd knew: the recorded configuration, at the serial number and with the instances it told."""
    told = next(each for each in recorded_exchanges() if each["name"] == "node-instances")
    document = recorded_json()
    instances = {each["uuid"]: each for each in answered(told)["answer"][0]}
    master = answered(told)["answer"][0][0]["primary_node"]
    (node,) = document["nodes"].values()
    document["nodes"] = {master: {**node, "uuid": master, "serial_no": answered(told)["serial"]}}
    document["cluster"] |= {"master_node": master, "serial_no": 13, "candidate_certs": {}}
    document["instances"] = instances
    return snapshot_of(document)


def snapshot_of(document: Mapping[str, object]) -> ConfigSnapshot:
    return ConfigSnapshot(KEY, Catalogue(decode_config(document), document))


def rich_document() -> dict[str, Any]:
    """Three nodes (the master, an offline one, a drained one), an instance with a mirrored disk and addresses."""
    document = recorded_json()
    (first,) = document["nodes"].values()
    document["nodes"] = {
        f"uuid-{name}": {**first, "name": name, "uuid": f"uuid-{name}", "primary_ip": f"192.0.2.{number}"}
        | {"master_candidate": number == 1, "offline": number == 2, "drained": number == 3, "serial_no": 10 + number}
        for number, name in enumerate(NODES, 1)
    }
    document["cluster"] |= {"master_node": "uuid-node1.test", "serial_no": 7, "candidate_certs": {}}
    mirror = ["uuid-node1.test", "uuid-node2.test", 11000, 0, 4, "secret"]
    disks = [disk_json("plain"), disk_json("mirror", dev_type="drbd", logical_id=mirror)]
    document["disks"] = {disk["uuid"]: disk for disk in disks}
    nics = [
        {"mac": f"aa:00:00:00:00:0{number}", "ip": ip, "nicparams": params, "uuid": f"nic{number}"}
        for number, (ip, params) in enumerate([("198.51.100.1", {}), ("198.51.100.2", {"link": "br7"}), (None, {})])
    ]
    own = {"primary_node": "uuid-node1.test", "disks": ["plain", "mirror"], "nics": nics, "serial_no": 5}
    document["instances"] = {"uuid-web": {**instance_json("uuid-web", **own), "name": "web.test"}}
    return document
