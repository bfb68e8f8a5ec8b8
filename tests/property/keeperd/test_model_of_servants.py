"""The daemons of the simulated cluster end and come back as the real ones do."""

from daemons.keeperd.core.states import State
from tests.property.keeperd.nodemodel import Node
from tests.property.keeperd.servantsmodel import DeadlineCell
from tests.property.keeperd.torment import Plan, Torment


def the_master(torment: Torment) -> Node:
    torment.world.run(torment.world.now + 60.0)
    (node,) = (node for node in torment.cluster.nodes.values() if node.is_master)
    return node


def test_keeperd_starts_daemons_again_that_the_guard_has_ended() -> None:
    torment = Torment(1, Plan())
    node = the_master(torment)
    ended = node.servants
    assert ended is not None

    # keeperd has renewed its lease, but has moved the deadline on too late for them
    ended.deadline = DeadlineCell()
    torment.world.run(torment.world.now + 10.0)

    assert torment.world.counts["ended by the guard"] == 1
    assert not ended.process.is_alive
    assert node.keeperd is not None
    assert node.keeperd.state is State.MASTER
    assert node.is_master
    assert node.servants is not None
    assert node.servants.fence == ended.fence
