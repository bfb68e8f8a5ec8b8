"""The parts of luxid that call other nodes, made if the settings know any.

TLS and HTTP are imported only then: on one machine luxid neither needs nor loads them.

Source: DESIGN section 12.
"""

import os
from typing import TYPE_CHECKING

from common.nodes.nodesettings import AFTER_ATTEMPT
from common.settings import Settings
from daemons.luxid.configcache import ConfigCache

if TYPE_CHECKING:
    from daemons.luxid.copying.nodecopies import NodeCopies
    from daemons.luxid.livedata.nodesdata import NodesData


def node_copies(settings: Settings) -> "NodeCopies | None":
    """The copies on other nodes; None: the settings want none. Raises: InvalidRequest: as `WireNames`."""
    if not settings.cluster.has_nodes:
        return None
    from daemons.luxid.copying.nodecopies import CopyRules, NodeCopies
    from protocol.noded.virtualpaths import WireNames

    names = WireNames.of_installation(settings.root, os.environ)
    waits = settings.cluster.answer_after == AFTER_ATTEMPT
    return NodeCopies(settings.paths, names, CopyRules(settings.noded.port, settings.cluster.own_name, waits=waits))


def live_data(settings: Settings) -> "NodesData | None":
    """What asks node daemons for queries; None: the settings know no other nodes."""
    if not settings.cluster.has_nodes:
        return None
    from daemons.luxid.livedata.nodesdata import NodesData

    return NodesData(settings.paths, settings.noded.port, settings.luxid.live_data_s)


async def bring_up_address(settings: Settings, config: ConfigCache) -> None:
    """Bring up the master's address, if the settings say that the cluster has one."""
    if not settings.ganeti.master_address:
        return
    from daemons.luxid.nodes.masterip import bring_up

    await bring_up(settings.paths, config, settings.noded.port)
