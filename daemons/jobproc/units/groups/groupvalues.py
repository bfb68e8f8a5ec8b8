"""The values of a group that an opcode sets. Pure.

Source: opcodes.md 4, GROUP_ADD and GROUP_SET_PARAMS.
"""

from collections.abc import Mapping

import attrs

from common.objects.nodegroup import NodeGroup
from common.opcodes.group import GroupParams
from daemons.jobproc.units.nodes.parameters import changed_group_parameters
from daemons.jobproc.units.values.diskparameters import changed_disk_parameters
from daemons.jobproc.units.values.policies import changed_group_policy
from daemons.jobproc.units.values.states import changed_disk_state, changed_hv_state


def with_values(group: NodeGroup, op: GroupParams) -> NodeGroup:
    """The group with the opcode's values; those that are unset or empty stay.

    Raises: PrerequisiteError: an unknown name or a wrong value.
    """
    return attrs.evolve(
        group,
        alloc_policy=op.alloc_policy or group.alloc_policy,
        ndparams=changed_group_parameters(group.ndparams, op.ndparams or {}),
        diskparams=changed_disk_parameters(group.diskparams, op.diskparams or {}),
        ipolicy=changed_group_policy(group.ipolicy, op.ipolicy or {}),
        hv_state_static=changed_hv_state(group.hv_state_static, op.hv_state or {}),
        disk_state_static=changed_disk_state(group.disk_state_static, op.disk_state or {}),
    )


def disk_parameters_json(group: NodeGroup) -> Mapping[str, object]:
    return {template.value: dict(values) for template, values in group.diskparams.items()}
