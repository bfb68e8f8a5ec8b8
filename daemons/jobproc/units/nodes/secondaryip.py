"""Whether the secondary address of a node may be changed.

Source: opcodes.md 6.2, NODE_SET_PARAMS with `secondary_ip`.
"""

from collections.abc import Sequence

from common.errors import PrerequisiteError
from common.objects.index import ConfigIndex
from common.objects.kinds import AdminState, NodeUuid
from common.objects.node import Node
from daemons.jobproc.context import UnitContext
from daemons.jobproc.units.nodes.addresses import check_free, checked_address


def mirrored_instances(config: ConfigIndex, node: NodeUuid) -> Sequence[str]:
    """The names of the instances that mirror disks between this node and another."""
    found = [each for each in config.instances if config.secondary_nodes(each)]
    return tuple(
        each.name for each in found if each.name and node in (each.primary_node, *config.secondary_nodes(each))
    )


def checked_secondary_ip(context: UnitContext, node: Node, text: str, *, is_forced: bool) -> str:
    """The address, in its usual form.

    Raises: PrerequisiteError: it is another node's or not the node's own, or instances use the old one.
    """
    config = context.config
    master = config.config.nodes[config.cluster.master_node]
    address = checked_address(text)
    check_free([address], [other for other in config.nodes if other.uuid != node.uuid])
    _check_homes(node, master, address, is_forced=is_forced)
    instances = mirrored_instances(config, NodeUuid(node.uuid))
    if node.offline:
        if instances:
            raise PrerequisiteError(f"node '{node.name}' is offline, and has instances that use its secondary address")
        return address
    running = [each.name for each in config.instances if each.name in instances and each.admin_state is AdminState.UP]
    if running:
        raise PrerequisiteError(f"instance '{running[0]}' uses the secondary address of the node; shut it down first")
    # imported late: see there
    from daemons.jobproc.units.nodes.calls import NodeCalls

    if not NodeCalls(context.settings).has_address(node, address):
        raise PrerequisiteError(f"node '{node.name}' does not have the address {address}", "environment_error")
    return address


def _check_homes(node: Node, master: Node, address: str, *, is_forced: bool) -> None:
    """Refuse to give some nodes a secondary address and others none, but begin with the master if forced."""
    was_single = master.primary_ip == master.secondary_ip
    is_single = node.primary_ip == address
    if was_single == is_single or (is_forced and node.uuid == master.uuid):
        return
    have = "one address each" if was_single else "a secondary address each"
    raise PrerequisiteError(
        f"the nodes of this cluster have {have}; to change that, begin with the master '{master.name}', with --force",
        "wrong_input",
    )
