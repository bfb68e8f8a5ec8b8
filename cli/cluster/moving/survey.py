"""Ask the nodes what they know of the master, before it is moved."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs

from common.nodes.epochs import SeenEpoch
from common.nodes.failover import CopiesHeld, NodeSays, Situation
from common.nodes.ownaddress import own_address
from common.nodes.ssconffiles import candidate_names, master_name, node_ips, offline_nodes
from common.settings import Settings
from protocol.noded.clients.blocking import BlockingNodeClient
from protocol.noded.clients.certificates import CertificateFiles
from protocol.noded.clients.nodes import NodeAddress
from protocol.noded.clients.outcomes import Outcome, Replied
from protocol.noded.mastership import GetStanding, MasterNodeName, Standing

# limit of one question to all nodes
LIMIT_S: Final = 10.0


@attrs.frozen
class Nodes:
    """The nodes of the cluster by this node's files of ssconf, and a client for calls to them."""

    client: BlockingNodeClient
    own: NodeAddress
    # all nodes, this one too
    addresses: Sequence[NodeAddress]

    def named(self, name: str) -> NodeAddress | None:
        return next((node for node in self.addresses if node.name == name), None)

    @property
    def others(self) -> Sequence[NodeAddress]:
        return [node for node in self.addresses if node.name != self.own.name]


def nodes_of(settings: Settings) -> Nodes:
    """Raises: OSError: a file of ssconf cannot be read."""
    paths, own_name = settings.paths, settings.cluster.own_name
    offline = offline_nodes(paths)
    addresses = [
        NodeAddress(name, ip, settings.noded.port, offline=name in offline) for name, ip in node_ips(paths).items()
    ]
    own = next((node for node in addresses if node.name == own_name), None)
    return Nodes(
        # no epoch: the calls before one is claimed are nobody's
        BlockingNodeClient(CertificateFiles.of(paths)),
        own or NodeAddress(own_name, own_address(settings), settings.noded.port),
        addresses,
    )


def survey(settings: Settings, nodes: Nodes, *, with_offline: bool) -> Situation:
    """Ask all nodes at once. Args: with_offline: whether nodes that are marked offline count too. Raises: OSError."""
    asked = [node for node in nodes.addresses if with_offline or not node.offline or node.name == nodes.own.name]
    votes = nodes.client.call_nodes(asked, MasterNodeName(), LIMIT_S, even_paused=True)
    heard = [node for node in asked if MasterNodeName.named_by(votes[node.name]) is not None]
    standings = nodes.client.call_nodes(heard, GetStanding(), LIMIT_S, even_paused=True)
    return Situation(
        settings.cluster.own_name,
        master_name(settings.paths),
        candidate_names(settings.paths),
        tuple(_says(asked, votes, standings)),
    )


def _says(
    asked: Iterable[NodeAddress], votes: Mapping[str, Outcome[str]], standings: Mapping[str, Outcome[Standing]]
) -> Iterable[NodeSays]:
    for node in asked:
        vote, standing = votes[node.name], standings.get(node.name)
        master = MasterNodeName.named_by(vote)
        if isinstance(standing, Replied):
            told = standing.value
            copies = CopiesHeld(told.config_serial, told.queue_serial)
            yield NodeSays(node.name, master, SeenEpoch(told.epoch, told.epoch_master), copies)
        else:
            epoch = vote.epoch if isinstance(vote, Replied) else None
            yield NodeSays(node.name, master, SeenEpoch(epoch or 0))
