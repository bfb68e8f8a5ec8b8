"""Which nodes get which calls (noded.md 8)."""

import attrs

from common.objects.config import Config
from common.objects.kinds import NodeUuid
from protocol.noded.call import NodeAddress
from protocol.noded.clients.recipients import all_nodes, candidates, online_nodes
from tests.support.configs import UUIDS, small_config


def _cluster() -> Config:
    """A master, two candidates, a regular node, a drained and an offline one."""
    config = small_config()
    master = config.nodes[UUIDS.node]
    master_candidate, drained, offline = {"n10", "n2"}, {"drained"}, {"gone"}
    others = {
        NodeUuid(name): attrs.evolve(
            master,
            name=name,
            primary_ip=f"ip-{name}",
            master_candidate=name in master_candidate,
            drained=name in drained,
            offline=name in offline,
        )
        for name in ("n10", "n2", "regular", "drained", "gone")
    }
    return attrs.evolve(config, nodes={**config.nodes, **others})


def test_the_queue_goes_to_the_candidates_but_the_master_in_natural_order() -> None:
    assert candidates(_cluster(), 1900) == [NodeAddress("n2", "ip-n2", 1900), NodeAddress("n10", "ip-n10", 1900)]


def test_under_a_lease_the_master_may_be_another_one_than_in_the_configuration() -> None:
    assert [node.name for node in candidates(_cluster(), master="n2")] == ["n10", "node1.test"]


def test_an_offline_candidate_is_marked() -> None:
    config = _cluster()
    away = {uuid: attrs.evolve(node, offline=node.name == "n2") for uuid, node in config.nodes.items()}

    assert [node.name for node in candidates(attrs.evolve(config, nodes=away)) if not node.offline] == ["n10"]


def test_ssconf_goes_to_all_nodes_that_are_not_offline() -> None:
    assert {node.name for node in online_nodes(_cluster())} == {"node1.test", "n2", "n10", "regular", "drained"}


def test_all_nodes_vote_and_offline_ones_are_marked() -> None:
    nodes = {node.name: node.offline for node in all_nodes(_cluster())}

    assert nodes == {
        "node1.test": False,
        "n2": False,
        "n10": False,
        "regular": False,
        "drained": False,
        "gone": True,
    }
    assert [node.name for node in all_nodes(_cluster(), wanted=lambda node: node.drained)] == ["drained"]
