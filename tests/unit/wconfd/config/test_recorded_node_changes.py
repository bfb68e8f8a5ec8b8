"""One change of ours leads where several changes of Ganeti's jobs led on a cluster of three nodes."""

import json
from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from common.objects.codec import decode_config
from common.objects.config import Config
from common.objects.kinds import NodeUuid
from daemons.wconfd.core.config.nodechanges import NodeChange, change_nodes
from tests.support.configs import RECORDED

NODE3 = NodeUuid("bb277d0b-d273-4cfe-af4c-b7394b9e5112")


def configurations(session: str) -> Iterator[Config]:
    """The configurations that a job has read and written, in their order."""
    for row in map(json.loads, (RECORDED / "wconfd-sessions" / f"{session}.jsonl").read_text().splitlines()):
        message = json.loads(row["msg"]) if "msg" in row else {}
        if message.get("method") == "writeConfigAndUnlock":
            yield decode_config(message["args"][1])
        elif isinstance(result := message.get("result"), dict) and "nodes" in result:
            yield decode_config(result)


def compared(config: Config) -> Any:
    """What must be equal: all but numbers of changes and times, of which Ganeti's several changes make more."""
    nodes = {uuid: attrs.evolve(node, serial_no=0, mtime=0.0) for uuid, node in config.nodes.items()}
    return attrs.evolve(
        config,
        serial_no=0,
        mtime=0.0,
        nodes=nodes,
        cluster=attrs.evolve(config.cluster, serial_no=0, mtime=0.0),
    )


@pytest.mark.parametrize("session", ["vc-node-modify", "vc-node-modify-2", "vc-node-remove"])
def test_our_change_leads_to_the_recorded_configuration(session: str) -> None:
    before, *_, after = configurations(session)
    digest = {uuid: text for uuid, text in after.cluster.candidate_certs.items() if uuid == NODE3}
    node = before.nodes[NODE3]
    change = {
        "vc-node-modify": NodeChange(nodes=(attrs.evolve(node, master_candidate=False, drained=True),)),
        "vc-node-modify-2": NodeChange(
            nodes=(attrs.evolve(node, master_candidate=True, drained=False),), certificates=digest
        ),
        "vc-node-remove": NodeChange(removed=(NODE3,)),
    }[session]

    ours, _ = change_nodes(before, change, 2000.0)

    assert compared(ours) == compared(after)
    assert ours.serial_no == before.serial_no + 1
