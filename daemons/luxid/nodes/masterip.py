"""The address of the master, which moves with it: this node's node daemon brings it up when luxid begins to serve.

In a Ganeti cluster that is luxid's task, and nobody else's; a failover waits for it. Without the address the cluster
works all the same, except for who calls it by its name.

Source: masterfailover.md 4.
"""

from typing import Final, assert_never

import trio

from common.errors import GantryError
from common.objects.index import ConfigIndex
from common.paths import Paths
from common.system.log import get_log
from common.system.shortages import retry_pauses
from daemons.luxid.config import ConfigCache
from protocol.noded.call import Failed, NodeAddress, Outcome, Replied, Skipped
from protocol.noded.clients.certificates import CertificateFiles
from protocol.noded.clients.client import NodeClient
from protocol.noded.membership import MasterAddress, NodeActivateMasterIp

# a node daemon first looks whether another node has the address, perhaps the old master
_LIMIT_S: Final = 60.0
_log: Final = get_log(__name__)


async def bring_up(paths: Paths, config: ConfigCache, port: int) -> None:
    """Bring up the address on this node, and return when that is done; what goes wrong is logged, and tried again.

    Args: port: of the node daemon.
    """
    told, pauses = "", retry_pauses()
    async with NodeClient(CertificateFiles.of(paths)) as client:
        while (failure := await _attempt(client, config, port)) is not None:
            if failure != told:
                told, effect = failure, "the cluster cannot be reached by its own address"
                _log.error("masterip.down", reason=failure, effect=effect, going_on="again until it succeeds")
            await trio.sleep(next(pauses))
    _log.info("masterip.up")


async def _attempt(client: NodeClient, config: ConfigCache, port: int) -> str | None:
    """Why it could not be brought up; None: it is up."""
    try:
        index = await config.current()
        node = index.config.nodes[index.cluster.master_node]
        address = NodeAddress(node.name, node.primary_ip, port)
        outcomes = await client.call_nodes([address], activation(index), _LIMIT_S, even_paused=True)
    except GantryError as error:
        return error.message
    return _failure(outcomes[address.name])


def activation(index: ConfigIndex) -> NodeActivateMasterIp:
    """The call with the address of this configuration."""
    cluster = index.cluster
    address = MasterAddress(
        uuid=cluster.master_node,
        ip=cluster.master_ip,
        netmask=cluster.master_netmask,
        netdev=cluster.master_netdev,
        ip_family=cluster.primary_ip_family,
    )
    return NodeActivateMasterIp(address, cluster.use_external_mip_script)


def _failure(outcome: Outcome[None]) -> str | None:
    match outcome:
        case Replied():
            return None
        case Skipped():
            return "the node of the master is marked offline"
        case Failed():
            return outcome.text
        case _:
            assert_never(outcome)
