"""The opcodes on nodes."""

import ipaddress
import socket
import uuid as uuids
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import attrs

from common.errors import PrerequisiteError, reason_of, wrong_input
from common.locks import LockLevel
from common.nodes.candidates import has_room, missing_candidates, promotable
from common.nodes.roles import FLAGS, RoleRequest, decide_role, with_role
from common.objects.config import Node, PartialNdParams
from common.objects.index import ConfigIndex
from common.objects.kinds import AdminState, GroupUuid, NodeUuid
from common.objects.parameters import changed_node_parameters
from common.opcodes.base import OpCode
from common.opcodes.node import OnNode, OpNodeAdd, OpNodeRemove, OpNodeSetParams
from common.shapes import JsonObject
from daemons.jobproc.configuration import UnitConfig
from daemons.jobproc.context import UnitContext
from daemons.jobproc.units.base import LogicalUnit
from daemons.jobproc.units.objects import GROUP, NODE, ChangeUnit, ObjectKind
from daemons.jobproc.units.sharedfiles import send_shared_files

if TYPE_CHECKING:
    from daemons.jobproc.units.nodecalls import NodeCalls


def _calls(context: UnitContext) -> "NodeCalls":
    """Raises: PrerequisiteError: the installation has one machine."""
    # imported late: see there
    from daemons.jobproc.units.nodecalls import NodeCalls

    return NodeCalls(context.settings)


# Finding the node that an opcode names.
#
# Source: opcodes.md 4.


def node_of(config: ConfigIndex, op: OnNode) -> Node:
    """The node with the opcode's uuid, or with its name; a unique short form of the name is enough.

    Raises: PrerequisiteError: there is no such node.
    """
    if op.node_uuid is None:
        return NODE.named(config, op.node_name)
    found = config.config.nodes.get(NodeUuid(op.node_uuid))
    if found is None:
        raise PrerequisiteError(f"there is no node with the uuid '{op.node_uuid:.80}'", "unknown_entity")
    return found


# Parameters that Ganeti's opcodes have and ours refuse.
#
# Source: opcodes.md 4.


def refuse_states(hv_state: JsonObject | None, disk_state: JsonObject | None) -> None:
    """Refuse states of hypervisors and disks; empty ones, as Ganeti's clients send them, are none.

    Raises: PrerequisiteError.
    """
    for name, value in (("hv_state", hv_state), ("disk_state", disk_state)):
        if value:
            raise wrong_input(f"'{name}' of a node cannot be set here; leave it out")


# The addresses of a node that joins.
#
# Source: opcodes.md 4, NODE_ADD.


def primary_address(name: str, given: str | None, family: int) -> str:
    """The address given, or else the one that the name has.

    Args: family: number of the address family of the cluster.
    Raises: PrerequisiteError: that is no address, or the name has none.
    """
    if given is not None:
        return checked_address(given)
    return addresses_of(name, family, f"node '{name}'", "; name it with --primary-ip")[0]


def addresses_of(name: str, family: int, what: str, advice: str = "") -> Sequence[str]:
    """The addresses that a name has. Args: what, advice: for the error. Raises: PrerequisiteError: it has none."""
    try:
        found = socket.getaddrinfo(name, None, family=family, type=socket.SOCK_STREAM)
    except OSError as error:
        reason = reason_of(error)
        raise PrerequisiteError(f"the address of {what} is not known: {reason}{advice}", "resolver_error") from error
    return [str(each[4][0]) for each in found]


def checked_address(text: str) -> str:
    """Raises: PrerequisiteError: the text is not an IP address."""
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise wrong_input(f"'{text:.60}' is not an IP address") from None


def check_homes(master: Node, name: str, primary_ip: str, secondary_ip: str) -> None:
    """Check that a node has one address if the master has one, and two if it has two.

    Raises: PrerequisiteError: it is otherwise.
    """
    is_single = master.primary_ip == master.secondary_ip
    if is_single == (primary_ip == secondary_ip):
        return
    have = "one address" if is_single else "a secondary address each"
    wrong = "must not have a secondary one" if is_single else "needs one as well (--secondary-ip)"
    raise wrong_input(f"the nodes of this cluster have {have}, so node '{name}' {wrong}")


def check_free(addresses: Iterable[str], others: Iterable[Node]) -> None:
    """Raises: PrerequisiteError: a node has one of the addresses."""
    wanted = set(addresses)
    for node in others:
        if taken := wanted & {node.primary_ip, node.secondary_ip}:
            raise PrerequisiteError(f"node '{node.name}' has the address {min(taken)} already", "resource_not_unique")


# Filling the pool of master candidates, when some leave: other nodes are promoted, those that reply.
#
# Source: opcodes.md 6.2 (`auto_promote`).


@attrs.frozen
class Promotions:
    """The nodes that become candidates."""

    nodes: tuple[Node, ...] = ()
    certificates: Mapping[NodeUuid, str] = attrs.field(factory=dict)

    def tell(self, context: UnitContext) -> None:
        """Tell of them in the job's log."""
        for node in self.nodes:
            context.feedback(f"node '{node.name}' becomes a master candidate")


def fill_pool(context: UnitContext, nodes: Collection[Node], pool_size: int) -> Promotions:
    """Choose the nodes to promote; those that do not reply are passed over, with a line in the job's log.

    Args: nodes: all of the cluster, as they will be otherwise.
    """
    missing, waiting = missing_candidates(nodes, pool_size), list(promotable(nodes))
    if not missing or not waiting:
        return Promotions()
    calls = _calls(context)
    promoted: dict[NodeUuid, tuple[Node, str]] = {}
    while len(promoted) < missing and waiting:
        count = missing - len(promoted)
        asked, waiting = waiting[:count], waiting[count:]
        promoted |= _answering(context, calls, asked)
    return Promotions(
        tuple(attrs.evolve(node, master_candidate=True) for node, _ in promoted.values()),
        {uuid: digest for uuid, (_, digest) in promoted.items()},
    )


def _answering(context: UnitContext, calls: "NodeCalls", nodes: list[Node]) -> Mapping[NodeUuid, tuple[Node, str]]:
    """Those of the nodes that tell their certificates."""
    digests = calls.digests_of(nodes)
    found: dict[NodeUuid, tuple[Node, str]] = {}
    for node in nodes:
        digest = digests[node.name]
        if isinstance(digest, str):
            found[NodeUuid(node.uuid)] = (node, digest)
        else:
            context.feedback(f"warning: node '{node.name}' cannot become a master candidate: {digest.text}")
    return found


# OP_NODE_REMOVE: takes a node out of the cluster, dead or alive.
#
# Theory. The configuration is changed first: from then on nothing is sent to the node, and its certificate is obeyed by
# no other. Only then it is told to forget the cluster, which may fail: nothing is needed of it.
#
# Source: opcodes.md 4 and 6.2, NODE_REMOVE; noded.md 6.


class NodeRemoveUnit(LogicalUnit[OpNodeRemove]):
    """Under the BGL. Other nodes take the node's place among the candidates."""

    OPCODE: ClassVar[type[OpCode]] = OpNodeRemove

    def check_prereq(self, context: UnitContext) -> None:
        config = context.config
        self._node = node_of(config, self.op)
        if self._node.uuid == config.cluster.master_node:
            text = f"node '{self._node.name}' is the master; move the master to another node first"
            raise wrong_input(text)
        if instances := config.node_instances(self._node.uuid):
            raise wrong_input(
                f"node '{self._node.name}' has instances: {', '.join(instances[:5])}; move or remove them first"
            )

    def run(self, context: UnitContext) -> None:
        config = context.config
        others = [node for node in config.nodes if node.uuid != self._node.uuid]
        promoted = fill_pool(context, others, config.cluster.candidate_pool_size)
        config.change_nodes(
            promoted.nodes,
            removed=[NodeUuid(self._node.uuid)],
            certificates=promoted.certificates,
            may_fall_short=True,
        )
        promoted.tell(context)
        if fault := _leave(context, self._node):
            left = f"node '{self._node.name}' has left, but keeps its files of the cluster, keys included"
            context.feedback(f"warning: {left}: {fault}")


def _leave(context: UnitContext, node: Node) -> str | None:
    """Let the node forget the cluster; returns why it did not."""
    if node.offline:
        return "it is marked offline and was not told"
    try:
        return _calls(context).leave(node)
    except PrerequisiteError as error:
        return error.message


# OP_NODE_ADD: takes a node into the cluster, or takes one that is there anew.
#
# The node's daemon must run with the cluster's certificate. The configuration, ssconf and the queue reach the node
# by the copies that all nodes get; the other files that nodes share are sent by the job.
#
# Source: opcodes.md 4 and 6.2, NODE_ADD; noded.md 3.


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
        check_homes(config.master, self._node.name, self._node.primary_ip, self._node.secondary_ip)
        check_free({self._node.primary_ip, self._node.secondary_ip}, others)
        if self._node.master_capable and has_room(others, config.cluster.candidate_pool_size):
            self._node = attrs.evolve(self._node, master_candidate=True)
        self._calls = _calls(context)
        self._calls.check_member(self._node)
        if self._node.master_candidate:
            self._certificates[NodeUuid(self._node.uuid)] = self._calls.digest_of(self._node)

    def run(self, context: UnitContext) -> None:
        node = self._node
        context.config.change_nodes([node], certificates=self._certificates, may_fall_short=True)
        # such as the key of confd
        for failure in send_shared_files(context, [node.name]):
            context.feedback(f"warning: {failure}; send it again with: gnt-cluster redist-conf")
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
            ndparams=changed_node_parameters(PartialNdParams(), self.op.ndparams or {}),
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
            raise wrong_input("a node that is taken anew keeps its group; leave --node-group out")
        if self.op.vm_capable is False and config.node_instances(known.uuid):
            raise PrerequisiteError(f"node '{known.name}' has instances and must stay vm_capable", "wrong_state")
        if self.op.secondary_ip not in (None, known.secondary_ip):
            text = f"node '{known.name}' has the secondary address {known.secondary_ip}, and keeps it"
            raise wrong_input(text)
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
            ndparams=changed_node_parameters(known.ndparams, self.op.ndparams or {}),
        )

    def _group(self, config: UnitConfig) -> GroupUuid:
        if self.op.group is not None:
            return GroupUuid(GROUP.named(config, self.op.group).uuid)
        if len(config.groups) == 1:
            return GroupUuid(config.groups[0].uuid)
        names = ", ".join(group.name for group in config.groups)
        raise wrong_input(f"there are several node groups, {names}; name one with --node-group")


# Whether the secondary address of a node may be changed.
#
# Source: opcodes.md 6.2, NODE_SET_PARAMS with `secondary_ip`.


def mirrored_instances(config: ConfigIndex, node: NodeUuid) -> Sequence[str]:
    """The names of the instances that mirror disks between this node and another."""
    found = [each for each in config.instances if config.secondary_nodes(each)]
    return tuple(
        each.name for each in found if each.name and node in (each.primary_node, *config.secondary_nodes(each))
    )


def checked_secondary_ip(
    context: UnitContext, node: Node, instances: Collection[str], text: str, *, is_forced: bool
) -> str:
    """The address, in its usual form.

    Args: instances: those that mirror disks over the node's address.
    Raises: PrerequisiteError: it is another node's or not the node's own, or instances use the old one.
    """
    config = context.config
    master = config.master
    address = checked_address(text)
    check_free([address], [other for other in config.nodes if other.uuid != node.uuid])
    _check_homes(node, master, address, is_forced=is_forced)
    if node.offline:
        if instances:
            raise PrerequisiteError(f"node '{node.name}' is offline, and has instances that use its secondary address")
        return address
    running = [each.name for each in config.instances if each.name in instances and each.admin_state is AdminState.UP]
    if running:
        raise PrerequisiteError(f"instance '{running[0]}' uses the secondary address of the node; shut it down first")
    if not _calls(context).has_address(node, address):
        raise PrerequisiteError(f"node '{node.name}' does not have the address {address}", "environment_error")
    return address


def _check_homes(node: Node, master: Node, address: str, *, is_forced: bool) -> None:
    """Refuse to give some nodes a secondary address and others none, but begin with the master if forced."""
    was_single = master.primary_ip == master.secondary_ip
    is_single = node.primary_ip == address
    if was_single == is_single or (is_forced and node.uuid == master.uuid):
        return
    have = "one address each" if was_single else "a secondary address each"
    raise wrong_input(
        f"the nodes of this cluster have {have}; to change that, begin with the master '{master.name}', with --force"
    )


# OP_NODE_SET_PARAMS: changes the role and the parameters of a node.
#
# Theory. A node that becomes a candidate is asked for its certificate before the change, and one that is no longer a
# candidate is told to put its configuration aside after it: then nothing more is sent to it.
#
# Source: opcodes.md 4 and 6.2, NODE_SET_PARAMS.


class NodeSetParamsUnit(ChangeUnit[OpNodeSetParams, Node]):
    OPCODE: ClassVar[type[OpCode]] = OpNodeSetParams
    KIND: ClassVar[ObjectKind[Node]] = NODE
    VALUES: ClassVar[Sequence[str]] = (
        *FLAGS,
        *("master_capable", "vm_capable", "secondary_ip", "ndparams", "powered", "hv_state", "disk_state"),
    )

    def find(self, config: ConfigIndex) -> Node:
        return node_of(config, self.op)

    def expand_names(self, context: UnitContext) -> None:
        super().expand_names(context)
        self._uuid = NodeUuid(self.target.uuid)
        self._instances = mirrored_instances(context.config, self._uuid)
        others = {LockLevel.INSTANCE: self._instances, LockLevel.NODE_RES: [self._uuid]}
        self.lock_names = {**self.lock_names, **others}

    def changed(self, context: UnitContext) -> Node:
        refuse_states(self.op.hv_state, self.op.disk_state)
        config, before = context.config, self.target
        if self.op.vm_capable is False and config.node_instances(before.uuid):
            raise PrerequisiteError(f"node '{before.name}' has instances and must stay vm_capable")
        self._check_power(context)
        self._secondary_ip: str | None = None
        if self.op.secondary_ip:
            self._secondary_ip = checked_secondary_ip(
                context, before, self._instances, self.op.secondary_ip, is_forced=self.op.force
            )
        others = [node for node in config.nodes if node.uuid != self._uuid]
        decision = decide_role(
            before,
            RoleRequest(**{name: getattr(self.op, name) for name in (*FLAGS, "master_capable")}),
            is_master=self._uuid == config.cluster.master_node,
            has_room=has_room(others, config.cluster.candidate_pool_size),
        )
        self.notes += decision.notes
        after = with_role(self._with_values(before), decision.role)
        self._promotions = self._judge_pool(context, after, others)
        self._certificates = {**self._promotions.certificates, **self._asked(context, after)}
        return after

    def write(self, context: UnitContext) -> None:
        before, after = self.target, self.after
        context.config.change_nodes(
            [after, *self._promotions.nodes], certificates=self._certificates, may_fall_short=self.op.force
        )
        self._promotions.tell(context)
        if before.master_candidate and not after.master_candidate and not after.offline:
            self._demote(context)

    def result(self) -> list[list[str]]:
        """What was set, then the flags that have changed, as Ganeti's job tells it."""
        given = ("master_capable", "vm_capable", "secondary_ip")
        values = [[name, str(value)] for name in given if (value := getattr(self.op, name)) is not None]
        changed = [flag for flag in FLAGS if getattr(self.target, flag) != getattr(self.after, flag)]
        return values + [[flag, str(getattr(self.after, flag))] for flag in changed]

    def _check_power(self, context: UnitContext) -> None:
        before = self.target
        if context.config.nd_params(before).oob_program:
            if self.op.offline is False and not (before.powered or self.op.powered):
                raise PrerequisiteError(f"node '{before.name}' is switched off; set --powered=yes when it is on again")
        elif self.op.powered is not None:
            raise PrerequisiteError(
                f"whether node '{before.name}' is powered cannot be set: it has no 'oob_program' among its parameters"
            )

    def _with_values(self, node: Node) -> Node:
        """The node with the parameters that are no roles."""
        given = ("master_capable", "vm_capable", "powered")
        changes = {name: value for name in given if (value := getattr(self.op, name)) is not None}
        if self._secondary_ip is not None:
            changes["secondary_ip"] = self._secondary_ip
        params = changed_node_parameters(node.ndparams, self.op.ndparams or {})
        return attrs.evolve(node, **changes, ndparams=params)

    def _judge_pool(self, context: UnitContext, after: Node, others: Sequence[Node]) -> Promotions:
        """The nodes that are promoted if this one is no candidate any more.

        Whether the node itself could stay one does not count, as in Ganeti.

        Raises: PrerequisiteError: too few candidates would be left.
        """
        if not self.target.master_candidate or after.master_candidate:
            return Promotions()
        size = context.config.cluster.candidate_pool_size
        promotions = fill_pool(context, others, size) if self.op.auto_promote else Promotions()
        missing = missing_candidates(others, size) - len(promotions.nodes)
        if missing and not self.op.force:
            advice = "add --force to accept that" if self.op.auto_promote else "add --auto-promote to promote others"
            raise PrerequisiteError(
                f"without node '{after.name}' {missing} of the {size} master candidates would be missing; {advice}"
            )
        return promotions

    def _asked(self, context: UnitContext, after: Node) -> Mapping[NodeUuid, str]:
        """The digest of its certificate, if the change needs one. Raises: PrerequisiteError: it does not reply."""
        returns = self.target.offline and not after.offline
        is_new = after.master_candidate and not self.target.master_candidate
        if not (returns or is_new):
            return {}
        calls = _calls(context)
        if returns:
            calls.check_member(self.target)
        return {self._uuid: calls.digest_of(self.target)} if is_new else {}

    def _demote(self, context: UnitContext) -> None:
        try:
            fault = _calls(context).demote(self.after)
        except PrerequisiteError as error:
            fault = error.message
        if fault:
            context.feedback(f"warning: node '{self.after.name}' keeps its copy of the configuration: {fault}")
