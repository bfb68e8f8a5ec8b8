"""The opcodes on nodes."""

import enum
import ipaddress
import socket
import uuid as uuids
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

import attrs

from common.errors import PrerequisiteError
from common.locks import LockLevel, LockMode, LockRequest, group_lock, member_lock
from common.nodes.candidates import has_room, missing_candidates, promotable
from common.objects.config import Node, PartialNdParams
from common.objects.index import ConfigIndex, find_named
from common.objects.kinds import AdminState, GroupUuid, NodeUuid
from common.opcodes.base import OpCode
from common.opcodes.node import OnNode, OpNodeAdd, OpNodeRemove, OpNodeSetParams
from common.shapes import JsonObject
from daemons.jobproc.configuration import UnitConfig
from daemons.jobproc.context import UnitContext
from daemons.jobproc.units.base import LogicalUnit
from daemons.jobproc.units.sharedfiles import send_shared_files
from daemons.jobproc.units.values import Reader, changes_of, number, text, truth, whole

# Finding the node that an opcode names.
#
# Source: opcodes.md 4.


def node_of(config: ConfigIndex, op: OnNode) -> Node:
    """The node with the opcode's uuid, or with its name; a unique short form of the name is enough.

    Raises: PrerequisiteError: there is no such node.
    """
    if op.node_uuid is None:
        return find_named(config.nodes, [op.node_name], "node", is_host=True)[0]
    found = config.config.nodes.get(NodeUuid(op.node_uuid))
    if found is None:
        raise PrerequisiteError(f"there is no node with the uuid '{op.node_uuid:.80}'", "unknown_entity")
    return found


def instances_on(config: ConfigIndex, node: Node) -> list[str]:
    """The names of the instances that have the node as primary or secondary one."""
    return [*config.primaries(node.uuid), *config.secondaries(node.uuid)]


# Parameters that Ganeti's opcodes have and ours refuse.
#
# Source: opcodes.md 4.


def refuse_states(hv_state: JsonObject | None, disk_state: JsonObject | None) -> None:
    """Refuse states of hypervisors and disks; empty ones, as Ganeti's clients send them, are none.

    Raises: PrerequisiteError.
    """
    for name, value in (("hv_state", hv_state), ("disk_state", disk_state)):
        if value:
            raise PrerequisiteError(f"'{name}' of a node cannot be set here; leave it out", "wrong_input")


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
    try:
        found = socket.getaddrinfo(name, None, family=family, type=socket.SOCK_STREAM)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        text = f"the address of node '{name}' is not known: {reason}; name it with --primary-ip"
        raise PrerequisiteError(text, "resolver_error") from error
    return str(found[0][4][0])


def checked_address(text: str) -> str:
    """Raises: PrerequisiteError: the text is not an IP address."""
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise PrerequisiteError(f"'{text:.60}' is not an IP address", "wrong_input") from None


def check_homes(master: Node, name: str, primary_ip: str, secondary_ip: str) -> None:
    """Check that a node has one address if the master has one, and two if it has two.

    Raises: PrerequisiteError: it is otherwise.
    """
    is_single = master.primary_ip == master.secondary_ip
    if is_single == (primary_ip == secondary_ip):
        return
    have = "one address" if is_single else "a secondary address each"
    wrong = "must not have a secondary one" if is_single else "needs one as well (--secondary-ip)"
    raise PrerequisiteError(f"the nodes of this cluster have {have}, so node '{name}' {wrong}", "wrong_input")


def check_free(addresses: Iterable[str], others: Iterable[Node]) -> None:
    """Raises: PrerequisiteError: a node has one of the addresses."""
    wanted = set(addresses)
    for node in others:
        if taken := wanted & {node.primary_ip, node.secondary_ip}:
            raise PrerequisiteError(f"node '{node.name}' has the address {min(taken)} already", "resource_not_unique")


# Filling the pool of master candidates, when some leave: other nodes are promoted, those that reply.
#
# Source: opcodes.md 6.2 (`auto_promote`).


if TYPE_CHECKING:
    from daemons.jobproc.units.nodecalls import NodeCalls


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
    # imported late: see there
    from daemons.jobproc.units.nodecalls import NodeCalls

    calls = NodeCalls(context.settings)
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
            raise PrerequisiteError(text, "wrong_input")
        if instances := instances_on(config, self._node):
            raise PrerequisiteError(
                f"node '{self._node.name}' has instances: {', '.join(instances[:5])}; move or remove them first",
                "wrong_input",
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
    # imported late: see there
    from daemons.jobproc.units.nodecalls import NodeCalls

    try:
        return NodeCalls(context.settings).leave(node)
    except PrerequisiteError as error:
        return error.message


# Changing the parameters of nodes, of one node or of a group's. Pure.
#
# Source: wconfd.md 7.3, "Parameter groups"; cli.md.


# parameter that all nodes of a group have in common
_OF_GROUPS: Final = "exclusive_storage"


def changed_parameters(before: PartialNdParams, given: Mapping[str, object]) -> PartialNdParams:
    """The node's own parameters with these changes.

    Raises: PrerequisiteError: an unknown name, a wrong value, or a parameter of the whole cluster.
    """
    if _OF_GROUPS in given:
        raise PrerequisiteError(f"'{_OF_GROUPS}' is for whole groups or the cluster, not for one node", "wrong_input")
    return _changed(before, given, {name: read for name, read in _READERS.items() if name != _OF_GROUPS})


def changed_group_parameters(before: PartialNdParams, given: Mapping[str, object]) -> PartialNdParams:
    """The same for a group's own parameters of its nodes."""
    return _changed(before, given, _READERS)


def _changed(before: PartialNdParams, given: Mapping[str, object], readers: Mapping[str, Reader]) -> PartialNdParams:
    changes = changes_of(given, readers, "node parameter")
    return attrs.evolve(before, **changes)  # type: ignore[arg-type]  # the readers give the types of the fields


_READERS: Final[Mapping[str, Reader]] = {
    "oob_program": text,
    "spindle_count": whole,
    _OF_GROUPS: truth,
    "ovs": truth,
    "ovs_name": text,
    "ovs_link": text,
    "ssh_port": whole,
    "cpu_speed": number,
}


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
        check_homes(_master(config), self._node.name, self._node.primary_ip, self._node.secondary_ip)
        check_free({self._node.primary_ip, self._node.secondary_ip}, others)
        if self._node.master_capable and has_room(others, config.cluster.candidate_pool_size):
            self._node = attrs.evolve(self._node, master_candidate=True)
        # imported late: see there
        from daemons.jobproc.units.nodecalls import NodeCalls

        self._calls = NodeCalls(context.settings)
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


# The role that OP_NODE_SET_PARAMS gives a node: candidate, drained, offline, or none of these. Pure.
#
# Theory. A node has one role at most; a flag that is set to true takes the place of the others, and one that is set to
# false ends its role. A node that returns, since it is no longer offline or drained, or is capable now, becomes a
# candidate by itself if the pool has room. The master's role changes only by moving the master.
#
# Source: opcodes.md 4, NODE_SET_PARAMS.


class NodeRole(enum.Enum):
    """A role, by the name of its flag."""

    CANDIDATE = "master_candidate"
    DRAINED = "drained"
    OFFLINE = "offline"
    REGULAR = "regular"


# flags in the order of Ganeti's result
FLAGS = ("master_candidate", "drained", "offline")


@attrs.frozen(kw_only=True)
class RoleWishes:
    """The flags of the opcode; None: as it is."""

    master_candidate: bool | None = None
    drained: bool | None = None
    offline: bool | None = None
    master_capable: bool | None = None

    @property
    def changes_role(self) -> bool:
        return any(getattr(self, flag) is not None for flag in FLAGS)


@attrs.frozen
class RoleDecision:
    role: NodeRole
    # lines for the job's log
    notes: Sequence[str] = ()


def role_of(node: Node) -> NodeRole:
    """The role that the node has now."""
    return next((NodeRole(flag) for flag in FLAGS if getattr(node, flag)), NodeRole.REGULAR)


def with_role(node: Node, role: NodeRole) -> Node:
    """The node with this role, and no other."""
    return attrs.evolve(
        node,
        master_candidate=role is NodeRole.CANDIDATE,
        drained=role is NodeRole.DRAINED,
        offline=role is NodeRole.OFFLINE,
    )


def decide_role(node: Node, wishes: RoleWishes, *, is_master: bool, has_room: bool) -> RoleDecision:
    """Decide on the role of a node.

    Args:
        has_room: whether the pool has room for one more candidate beside the other nodes.
    Raises: PrerequisiteError: the wishes contradict each other or the node's flags.
    """
    _check(node, wishes, is_master=is_master)
    notes: list[str] = []
    now = role_of(node)
    effective = {flag: wish for flag in FLAGS if (wish := getattr(wishes, flag)) is not None}
    for flag, wish in list(effective.items()):
        if not wish and not getattr(node, flag):
            del effective[flag]
            notes.append(f"'{flag}' is not set, so it is not unset")
    asked = next((NodeRole(flag) for flag, wish in effective.items() if wish), None)
    if wishes.master_capable is False and now is NodeRole.CANDIDATE and asked is None:
        notes.append(f"node '{node.name}' is no longer a master candidate")
        return RoleDecision(NodeRole.REGULAR, notes)
    if asked is not None:
        return RoleDecision(asked, notes)
    # what is left ends the role that the node has
    role = NodeRole.REGULAR if effective else now
    is_capable = node.master_capable if wishes.master_capable is None else wishes.master_capable
    if role is NodeRole.REGULAR and has_room and is_capable and _returns(node, effective, wishes):
        notes.append(f"node '{node.name}' becomes a master candidate")
        return RoleDecision(NodeRole.CANDIDATE, notes)
    return RoleDecision(role, notes)


def _check(node: Node, wishes: RoleWishes, *, is_master: bool) -> None:
    asked = [flag for flag in FLAGS if getattr(wishes, flag)]
    if len(asked) > 1:
        raise PrerequisiteError(f"a node cannot be {' and '.join(asked)} at once; name one of them", "wrong_input")
    if is_master and wishes.changes_role:
        raise PrerequisiteError(
            f"node '{node.name}' is the master; its role changes only with the master: gnt-cluster master-failover",
            "wrong_input",
        )
    if is_master and wishes.master_capable is False:
        raise PrerequisiteError(f"node '{node.name}' is the master and must stay master capable")
    is_capable = node.master_capable if wishes.master_capable is None else wishes.master_capable
    if wishes.master_candidate and not is_capable:
        raise PrerequisiteError(f"node '{node.name}' is not master capable, and cannot be a master candidate")


def _returns(node: Node, effective: dict[str, bool], wishes: RoleWishes) -> bool:
    """Whether the node may be a candidate from now on, and was not allowed to before."""
    if wishes.master_candidate is False:
        return False
    has_ended = "drained" in effective or "offline" in effective
    return has_ended or (wishes.master_capable is True and not node.master_capable)


# Whether the secondary address of a node may be changed.
#
# Source: opcodes.md 6.2, NODE_SET_PARAMS with `secondary_ip`.


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
    from daemons.jobproc.units.nodecalls import NodeCalls

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


# OP_NODE_SET_PARAMS: changes the role and the parameters of a node.
#
# Theory. A node that becomes a candidate is asked for its certificate before the change, and one that is no longer a
# candidate is told to put its configuration aside after it: then nothing more is sent to it.
#
# Source: opcodes.md 4 and 6.2, NODE_SET_PARAMS.


_CHANGES: Final = (
    *FLAGS,
    *("master_capable", "vm_capable", "secondary_ip", "ndparams", "powered", "hv_state", "disk_state"),
)


class NodeSetParamsUnit(LogicalUnit[OpNodeSetParams]):
    """Everything is checked before the one change of the configuration."""

    OPCODE: ClassVar[type[OpCode]] = OpNodeSetParams
    is_optimistic: ClassVar[bool] = True

    def expand_names(self, context: UnitContext) -> None:
        if all(getattr(self.op, name) is None for name in _CHANGES):
            raise PrerequisiteError("there is nothing to change; name at least one parameter", "wrong_input")
        config = context.config
        self._uuid = NodeUuid(node_of(config, self.op).uuid)
        self._instances = mirrored_instances(config, self._uuid) if self.op.secondary_ip else ()

    def is_dynamic(self, level: LockLevel) -> bool:
        return False

    def declare_locks(self, level: LockLevel, context: UnitContext) -> Sequence[LockRequest]:
        if level is LockLevel.INSTANCE:
            return [LockRequest(member_lock(level, name), LockMode.SHARED) for name in self._instances]
        if level not in (LockLevel.NODE, LockLevel.NODE_RES):
            return ()
        lock = group_lock(level) if self.op.may_promote_others else member_lock(level, self._uuid)
        return [LockRequest(lock, LockMode.EXCLUSIVE)]

    def check_prereq(self, context: UnitContext) -> None:
        refuse_states(self.op.hv_state, self.op.disk_state)
        config = context.config
        self._before = before = self._current(context)
        if self.op.vm_capable is False and instances_on(config, before):
            raise PrerequisiteError(f"node '{before.name}' has instances and must stay vm_capable")
        self._check_power(context)
        self._secondary_ip: str | None = None
        if self.op.secondary_ip:
            if mirrored_instances(config, self._uuid) != self._instances:
                raise PrerequisiteError(f"instances of node '{before.name}' have changed meanwhile; try again")
            self._secondary_ip = checked_secondary_ip(context, before, self.op.secondary_ip, is_forced=self.op.force)
        others = [node for node in config.nodes if node.uuid != self._uuid]
        decision = decide_role(
            before,
            RoleWishes(**{name: getattr(self.op, name) for name in (*FLAGS, "master_capable")}),
            is_master=self._uuid == config.cluster.master_node,
            has_room=has_room(others, config.cluster.candidate_pool_size),
        )
        self._notes = decision.notes
        self._after = with_role(self._with_values(before), decision.role)
        self._promotions = self._judge_pool(context, others)
        self._certificates = dict(self._promotions.certificates)
        self._ask_node(context)

    def run(self, context: UnitContext) -> list[list[str]]:
        for note in self._notes:
            context.feedback(note)
        context.config.change_nodes(
            [self._after, *self._promotions.nodes], certificates=self._certificates, may_fall_short=self.op.force
        )
        self._promotions.tell(context)
        if self._before.master_candidate and not self._after.master_candidate and not self._after.offline:
            self._demote(context)
        return self._changes()

    def _current(self, context: UnitContext) -> Node:
        found = context.config.config.nodes.get(self._uuid)
        if found is None:
            raise PrerequisiteError(f"node '{self.op.node_name}' was removed meanwhile", "unknown_entity")
        return found

    def _check_power(self, context: UnitContext) -> None:
        before = self._before
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
        params = changed_parameters(node.ndparams, self.op.ndparams or {})
        return attrs.evolve(node, **changes, ndparams=params)

    def _judge_pool(self, context: UnitContext, others: Sequence[Node]) -> Promotions:
        """The nodes that are promoted if this one is no candidate any more.

        Whether the node itself could stay one does not count, as in Ganeti.

        Raises: PrerequisiteError: too few candidates would be left.
        """
        if not self._before.master_candidate or self._after.master_candidate:
            return Promotions()
        size = context.config.cluster.candidate_pool_size
        promotions = fill_pool(context, others, size) if self.op.auto_promote else Promotions()
        missing = missing_candidates(others, size) - len(promotions.nodes)
        if missing and not self.op.force:
            advice = "add --force to accept that" if self.op.auto_promote else "add --auto-promote to promote others"
            raise PrerequisiteError(
                f"without node '{self._before.name}' {missing} of the {size} master candidates would be missing; "
                f"{advice}"
            )
        return promotions

    def _ask_node(self, context: UnitContext) -> None:
        """Ask the node for what the change needs of it. Raises: PrerequisiteError: it does not reply."""
        returns = role_of(self._before) is NodeRole.OFFLINE and not self._after.offline
        is_new = self._after.master_candidate and not self._before.master_candidate
        if not (returns or is_new):
            return
        # imported late: see there
        from daemons.jobproc.units.nodecalls import NodeCalls

        calls = NodeCalls(context.settings)
        if returns:
            calls.check_member(self._before)
        if is_new:
            self._certificates[self._uuid] = calls.digest_of(self._before)

    def _demote(self, context: UnitContext) -> None:
        # imported late: see there
        from daemons.jobproc.units.nodecalls import NodeCalls

        try:
            fault = NodeCalls(context.settings).demote(self._after)
        except PrerequisiteError as error:
            fault = error.message
        if fault:
            context.feedback(f"warning: node '{self._after.name}' keeps its copy of the configuration: {fault}")

    def _changes(self) -> list[list[str]]:
        """The result of the opcode, in Ganeti's form: what was set, then the flags that have changed."""
        given = ("master_capable", "vm_capable", "secondary_ip")
        values = [[name, str(value)] for name in given if (value := getattr(self.op, name)) is not None]
        changed = [flag for flag in FLAGS if getattr(self._before, flag) != getattr(self._after, flag)]
        return values + [[flag, str(getattr(self._after, flag))] for flag in changed]
