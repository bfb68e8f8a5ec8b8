"""The role of the master: its name for voting, its daemons, its address.

Source: noded.md section 6; masterfailover.md.
"""

import attrs

from common.shapes import Lenient
from protocol.noded.call import FAST_S, URGENT_S, NodeCall


@attrs.frozen
class MasterNodeName(NodeCall[str]):
    """The name of the master, as the node's ssconf has it: its vote."""

    METHOD = "master_node_name"
    LIMIT_S = URGENT_S
    ASKS_OFFLINE = True


@attrs.frozen
class NodeStartMasterDaemons(NodeCall[None]):
    METHOD = "node_start_master_daemons"
    LIMIT_S = FAST_S
    no_voting: bool


@attrs.frozen
class NodeStopMaster(NodeCall[None]):
    """Stop the master's daemons; its address stays."""

    METHOD = "node_stop_master"
    LIMIT_S = FAST_S


@attrs.frozen
class MasterAddress(Lenient):
    """The address of the master."""

    # of the master's node
    uuid: str
    ip: str
    # bits
    netmask: int
    netdev: str
    # number of the address family: 2 or 10
    ip_family: int


@attrs.frozen
class NodeActivateMasterIp(NodeCall[None]):
    METHOD = "node_activate_master_ip"
    LIMIT_S = FAST_S
    master_params: MasterAddress
    use_external_mip_script: bool


@attrs.frozen
class NodeDeactivateMasterIp(NodeCall[None]):
    METHOD = "node_deactivate_master_ip"
    LIMIT_S = FAST_S
    master_params: MasterAddress
    use_external_mip_script: bool


@attrs.frozen
class NodeChangeMasterNetmask(NodeCall[None]):
    METHOD = "node_change_master_netmask"
    LIMIT_S = FAST_S
    old_netmask: int
    netmask: int
    master_ip: str
    master_netdev: str
