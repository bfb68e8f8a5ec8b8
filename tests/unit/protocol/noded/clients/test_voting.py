"""The nodes are asked until they have decided, or for long enough (masterfailover.md 2)."""

from collections.abc import Iterable, Mapping
from typing import cast

import pytest
import trio

from common.errors import Unavailable
from common.replica.replica import NoLongerMaster
from protocol.noded.call import Failed, FailureKind, NodeAddress, Outcome, Replied
from protocol.noded.clients.client import NodeClient
from protocol.noded.clients.voting import PAUSE_S, REPEATS, Contender, ask_once, win_vote
from protocol.noded.membership import NO_MASTER, MasterNodeName

OWN = Contender("n1", 4)
# what a node says in each round, the last for ever; None: it hangs
Says = list["str | None"]


class Nodes:
    """A client of nodes that say what a test wants."""

    def __init__(self, **says: Says) -> None:
        self.says = says
        self.asked = 0
        self.voters = [NodeAddress(name, "127.0.0.1") for name in says]

    @property
    def client(self) -> NodeClient:
        return cast(NodeClient, self)

    async def call_nodes(
        self, nodes: Iterable[NodeAddress], __: MasterNodeName, limit_s: float, *, even_paused: bool
    ) -> Mapping[str, Outcome[str]]:
        (node,) = nodes
        self.asked += 1
        said = self.says[node.name]
        word = said.pop(0) if len(said) > 1 else said[0]
        if word is None:
            await trio.sleep(limit_s)
            return {node.name: Failed(FailureKind.TIMEOUT, "no reply")}
        await trio.sleep(0.1)
        if not word:
            return {node.name: Failed(FailureKind.REFUSED, f"{node.name} (127.0.0.1): {NO_MASTER}: a file is missing")}
        name, _, epoch = word.partition("@")
        return {node.name: Replied(name, int(epoch) if epoch else None)}


@pytest.mark.trio
async def test_a_hanging_node_is_not_waited_for_once_the_others_have_decided(
    autojump_clock: trio.testing.MockClock,
) -> None:
    nodes, began = Nodes(n1=["n1@4"], n2=["n1@3"], n3=[None]), trio.current_time()

    await win_vote(nodes.client, nodes.voters, OWN)

    assert trio.current_time() - began < 1


@pytest.mark.trio
@pytest.mark.parametrize("second", ["n2", "n2@5", "n1@5"])
async def test_the_master_is_who_has_most_votes_and_the_others_are_told_its_name(
    autojump_clock: trio.testing.MockClock, second: str
) -> None:
    nodes = Nodes(n1=["n1@4"], n2=[second], n3=[second])

    with pytest.raises(NoLongerMaster) as refusal:
        await win_vote(nodes.client, nodes.voters, OWN)

    told = "n2 is (by 2 of 3 nodes)" if second.startswith("n2") else "another node has claimed it since"
    assert refusal.value.message == f"this node is not the master; {told}"


@pytest.mark.trio
async def test_open_votes_are_asked_for_again_until_they_decide(autojump_clock: trio.testing.MockClock) -> None:
    nodes, began = Nodes(n1=["n1"], n2=[None, None, None, "n1"], n3=[None]), trio.current_time()

    await win_vote(nodes.client, nodes.voters, OWN)

    assert 3 * PAUSE_S < trio.current_time() - began < 5 * PAUSE_S


@pytest.mark.trio
async def test_votes_that_stay_open_are_given_up_with_what_to_do(autojump_clock: trio.testing.MockClock) -> None:
    nodes = Nodes(n1=["n1"], n2=[None])

    with pytest.raises(Unavailable, match=r"1 of 2 nodes are for this one, and 1 gave no vote.*--no-voting"):
        await win_vote(nodes.client, nodes.voters, OWN)

    assert nodes.asked == 2 * (REPEATS + 1)


@pytest.mark.trio
async def test_a_node_that_has_never_heard_of_a_master_has_no_vote(autojump_clock: trio.testing.MockClock) -> None:
    nodes = Nodes(n1=["n1"], n2=[""])

    assert (await ask_once(nodes.client, nodes.voters, OWN)).voters == 1
