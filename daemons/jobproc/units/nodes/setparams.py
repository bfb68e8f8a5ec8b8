"""OP_NODE_SET_PARAMS: changes the role and the parameters of a node.

Theory. A node that becomes a candidate is asked for its certificate before the change, and one that is no longer a
candidate is told to put its configuration aside after it: then nothing more is sent to it.

Source: opcodes.md 4 and 6.2, NODE_SET_PARAMS.
"""

from collections.abc import Sequence
from typing import ClassVar, Final

import attrs

from common.errors import PrerequisiteError
from common.locks import LockLevel, LockMode, LockRequest, group_lock, member_lock
from common.nodes.candidatepool import has_room, missing_candidates
from common.objects.kinds import NodeUuid
from common.objects.node import Node
from common.opcodes.base import OpCode
from common.opcodes.node import OpNodeSetParams
from daemons.jobproc.context import UnitContext
from daemons.jobproc.units.base import LogicalUnit
from daemons.jobproc.units.nodes.filling import Promotions, fill_pool
from daemons.jobproc.units.nodes.finding import instances_on, node_of
from daemons.jobproc.units.nodes.parameters import changed_parameters
from daemons.jobproc.units.nodes.roles import FLAGS, NodeRole, RoleWishes, decide_role, role_of, with_role
from daemons.jobproc.units.nodes.secondaryip import checked_secondary_ip, mirrored_instances
from daemons.jobproc.units.nodes.unsupported import refuse_states

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
        from daemons.jobproc.units.nodes.calls import NodeCalls

        calls = NodeCalls(context.settings)
        if returns:
            calls.check_member(self._before)
        if is_new:
            self._certificates[self._uuid] = calls.digest_of(self._before)

    def _demote(self, context: UnitContext) -> None:
        # imported late: see there
        from daemons.jobproc.units.nodes.calls import NodeCalls

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
