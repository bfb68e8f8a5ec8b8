"""OP_NODE_ADD: takes a node into the cluster, or takes one that is there anew.

The node's daemon must run with the cluster's certificate. The configuration, ssconf and the queue reach the node
by the copies that all nodes get; the other files that nodes share are sent by the job.

Source: opcodes.md 4 and 6.2, NODE_ADD; noded.md 3.
"""

import uuid as uuids
from typing import ClassVar

import attrs

from common.errors import PrerequisiteError
from common.nodes.candidatepool import has_room
from common.objects.index import find_named
from common.objects.kinds import GroupUuid, NodeUuid
from common.objects.node import Node
from common.objects.params import PartialNdParams
from common.opcodes.base import OpCode
from common.opcodes.node import OpNodeAdd
from daemons.jobproc.configuration import UnitConfig
from daemons.jobproc.context import UnitContext
from daemons.jobproc.units.base import LogicalUnit
from daemons.jobproc.units.nodes.addresses import check_free, check_homes, checked_address, primary_address
from daemons.jobproc.units.nodes.parameters import changed_parameters
from daemons.jobproc.units.nodes.unsupported import refuse_states
from daemons.jobproc.units.sharedfiles import send_shared_files


class NodeAddUnit(LogicalUnit[OpNodeAdd]):
    """Under the BGL. Everything is checked before the one change of the configuration."""

    OPCODE: ClassVar[type[OpCode]] = OpNodeAdd

    def __init__(self, op: OpNodeAdd) -> None:
        super().__init__(op)
        self._certificates: dict[NodeUuid, str] = {}

    def check_prereq(self, context: UnitContext) -> None:
        refuse_states(self.op.hv_state, self.op.disk_state)
        config = context.config
        known = next((node for node in config.nodes if node.name == self.op.node_name), None)
        self._node = self._again(config, known) if self.op.readd else self._new(config, known)
        others = [node for node in config.nodes if node.uuid != self._node.uuid]
        check_homes(_master(config), self._node.name, self._node.primary_ip, self._node.secondary_ip)
        check_free({self._node.primary_ip, self._node.secondary_ip}, others)
        if self._node.master_capable and has_room(others, config.cluster.candidate_pool_size):
            self._node = attrs.evolve(self._node, master_candidate=True)
        # imported late: see there
        from daemons.jobproc.units.nodes.calls import NodeCalls

        self._calls = NodeCalls(context.settings)
        self._calls.check_member(self._node)
        if self._node.master_candidate:
            self._certificates[NodeUuid(self._node.uuid)] = self._calls.digest_of(self._node)

    def run(self, context: UnitContext) -> None:
        node = self._node
        context.config.change_nodes([node], certificates=self._certificates, may_fall_short=True)
        # such as the key of confd
        for text in send_shared_files(context, [node.name]):
            context.feedback(f"warning: {text}; send it again with: gnt-cluster redist-conf")
        if node.master_candidate:
            context.feedback(f"node '{node.name}' becomes a master candidate")
        elif self.op.readd and (fault := self._calls.demote(node)):
            context.feedback(f"warning: node '{node.name}' may have kept an old configuration: {fault}")

    def _new(self, config: UnitConfig, known: Node | None) -> Node:
        if known is not None:
            raise PrerequisiteError(
                f"node '{known.name}' is in the cluster already; take it anew with --readd", "already_exists"
            )
        primary_ip = primary_address(self.op.node_name, self.op.primary_ip, config.cluster.primary_ip_family)
        return Node(
            name=self.op.node_name,
            primary_ip=primary_ip,
            secondary_ip=checked_address(self.op.secondary_ip or primary_ip),
            master_candidate=False,
            offline=False,
            drained=False,
            group=self._group(config),
            master_capable=self.op.master_capable is not False,
            vm_capable=self.op.vm_capable is not False,
            ndparams=changed_parameters(PartialNdParams(), self.op.ndparams or {}),
            powered=True,
            uuid=str(uuids.uuid4()),
            serial_no=0,
        )

    def _again(self, config: UnitConfig, known: Node | None) -> Node:
        """The node that is there, without its flags."""
        if known is None:
            text = f"node '{self.op.node_name}' is not in the cluster; add it without --readd"
            raise PrerequisiteError(text, "unknown_entity")
        if known.uuid == config.cluster.master_node:
            raise PrerequisiteError(f"node '{known.name}' is the master, which cannot be taken anew", "wrong_state")
        if self.op.group is not None:
            raise PrerequisiteError("a node that is taken anew keeps its group; leave --node-group out", "wrong_input")
        if self.op.vm_capable is False and (config.primaries(known.uuid) or config.secondaries(known.uuid)):
            raise PrerequisiteError(f"node '{known.name}' has instances and must stay vm_capable", "wrong_state")
        if self.op.secondary_ip not in (None, known.secondary_ip):
            text = f"node '{known.name}' has the secondary address {known.secondary_ip}, and keeps it"
            raise PrerequisiteError(text, "wrong_input")
        primary_ip = known.primary_ip if self.op.primary_ip is None else checked_address(self.op.primary_ip)
        is_single = known.primary_ip == known.secondary_ip
        return attrs.evolve(
            known,
            primary_ip=primary_ip,
            secondary_ip=primary_ip if is_single else known.secondary_ip,
            master_candidate=False,
            offline=False,
            drained=False,
            powered=True,
            master_capable=known.master_capable if self.op.master_capable is None else self.op.master_capable,
            vm_capable=known.vm_capable if self.op.vm_capable is None else self.op.vm_capable,
            ndparams=changed_parameters(known.ndparams, self.op.ndparams or {}),
        )

    def _group(self, config: UnitConfig) -> GroupUuid:
        if self.op.group is not None:
            by_uuid = config.config.nodegroups.get(GroupUuid(self.op.group))
            found = by_uuid or find_named(config.groups, [self.op.group], "node group", is_host=False)[0]
            return GroupUuid(found.uuid)
        if len(config.groups) == 1:
            return GroupUuid(config.groups[0].uuid)
        names = ", ".join(group.name for group in config.groups)
        raise PrerequisiteError(f"there are several node groups, {names}; name one with --node-group", "wrong_input")


def _master(config: UnitConfig) -> Node:
    return config.config.nodes[config.cluster.master_node]
