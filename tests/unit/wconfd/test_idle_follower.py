"""An idle wconfd learns from a candidate that another node has become the master."""

from collections.abc import Iterable, Mapping
from typing import Any, cast

import pytest
import trio

from common.replica.replica import NoLongerMaster
from daemons.wconfd.core.config.replicas import Part
from daemons.wconfd.nodes.follower import NodeClients, NodeFollower, Numbered
from protocol.noded.call import AnyCall, Failed, FailureKind, NodeAddress, Outcome, Replied
from protocol.noded.clients.client import NodeClient
from protocol.noded.files import WriteSsconfFiles

NODE = NodeAddress("node2", "192.0.2.2")


class Called:
    """A client whose node has another master at its third call of `version`."""

    def __init__(self) -> None:
        self.methods: list[str] = []

    def silence(self, _: str) -> None:
        return None

    async def call_nodes(self, _: Iterable[NodeAddress], call: AnyCall, *__: Any, **___: Any) -> Mapping[str, Any]:
        await trio.lowlevel.checkpoint()
        self.methods.append(call.METHOD)
        outcome: Outcome[object] = Replied({"filelist": {}} if call.METHOD == "node_verify" else None)
        if self.methods.count("version") == 3:
            outcome = Failed(FailureKind.OUTDATED, "another master")
        return {NODE.name: outcome}


@pytest.mark.trio
async def test_a_candidate_is_asked_now_and_then(autojump_clock: trio.testing.MockClock) -> None:
    client = Called()
    follower = NodeFollower(NODE, NodeClients(cast(NodeClient, client), cast(NodeClient, client)))
    content = Numbered(1, WriteSsconfFiles({}))
    follower.aim({Part.SSCONF: content, Part.CONFIG: content})

    with pytest.raises(NoLongerMaster, match="another master"):
        await follower.run()

    assert client.methods.count("version") == 3


@pytest.mark.trio
async def test_a_plain_node_is_left_alone(autojump_clock: trio.testing.MockClock) -> None:
    client = Called()
    follower = NodeFollower(NODE, NodeClients(cast(NodeClient, client), cast(NodeClient, client)))
    follower.aim({Part.SSCONF: Numbered(1, WriteSsconfFiles({}))})

    with trio.move_on_after(600):
        await follower.run()

    assert "version" not in client.methods
