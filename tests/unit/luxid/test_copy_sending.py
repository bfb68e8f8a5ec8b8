"""When a node is asked although nothing has changed, and whose turn it is to be purged."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import cast

import pytest
import trio

from common.paths import Paths
from daemons.luxid.copying.calls import QueueCalls
from daemons.luxid.copying.purgeturn import PurgeTurn
from daemons.luxid.copying.sending import IDLE_S, NodeSender
from protocol.noded.call import AnyCall
from protocol.noded.clients.client import NodeClient
from protocol.noded.clients.nodes import NodeAddress
from protocol.noded.clients.outcomes import Failed, FailureKind, Outcome, Replied
from protocol.noded.virtualpaths import WireNames

NODE = NodeAddress("node2", "192.0.2.2")
REPLIES: Mapping[str, object] = {"node_verify": {"filelist": {}}, "gantry_list_files": (), "version": 1}


class Called:
    """A client whose node has an empty queue; it says at the given call of `version` that it has another master."""

    def __init__(self, other_master_at: int = 0) -> None:
        self.methods: list[str] = []
        self._left = other_master_at

    def silence(self, _: str) -> None:
        return None

    async def call_nodes(self, _: Iterable[NodeAddress], call: AnyCall, __: float) -> Mapping[str, Outcome[object]]:
        await trio.lowlevel.checkpoint()
        self.methods.append(call.METHOD)
        if call.METHOD == "version":
            self._left -= 1
            if self._left == 0:
                return {NODE.name: Failed(FailureKind.OUTDATED, "another master")}
        return {NODE.name: Replied(REPLIES.get(call.METHOD), epoch=0)}


def _sender(root: Path, client: Called) -> NodeSender:
    paths = Paths.under_root(root)
    paths.make_folders()
    paths.serial_file.write_text("0\n")
    calls = QueueCalls(paths, WireNames())
    return NodeSender(NODE, paths, calls, cast(NodeClient, client), PurgeTurn(), is_new=False)


@pytest.mark.trio
async def test_an_idle_node_is_asked_now_and_then_and_tells_of_another_master(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    # the first call finds out whose node daemon it is
    client = Called(other_master_at=4)
    sender = _sender(tmp_path, client)
    began = trio.current_time()

    await sender.run()

    assert sender.is_outdated
    assert client.methods.count("version") == 4
    assert trio.current_time() - began >= 3 * IDLE_S


def test_one_node_is_purged_at_a_time() -> None:
    turn, woken = PurgeTurn(), []
    first, second = object(), object()

    may_begin = [turn.take(each, lambda: woken.append(1)) for each in (first, second, second, first)]
    turn.give_back(second)
    before = list(woken)
    turn.give_back(first)

    assert may_begin == [True, False, False, True]
    assert (before, woken) == ([], [1])
    assert turn.take(second, lambda: None)
