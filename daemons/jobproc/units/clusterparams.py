"""OP_CLUSTER_SET_PARAMS: changes the size of the candidate pool, and how many jobs may run.

All other parameters of Ganeti's opcode are refused. A larger pool is filled at once; a smaller one keeps its
candidates, as in Ganeti.

Source: opcodes.md 4 and 6.2, CLUSTER_SET_PARAMS.
"""

from typing import ClassVar, Final

import attrs

from common.errors import PrerequisiteError
from common.opcodes.base import OpCode
from common.opcodes.cluster import OpClusterSetParams
from daemons.jobproc.context import UnitContext
from daemons.jobproc.units.base import LogicalUnit
from daemons.jobproc.units.nodes.filling import fill_pool

_LIMITS: Final = ("max_running_jobs", "max_tracked_jobs")
_KNOWN: Final = ("candidate_pool_size", *_LIMITS)
# parameters that all opcodes have, and one that changes nothing
_COMMON: Final = frozenset({*(field.name for field in attrs.fields(OpCode)), "force"})


class ClusterSetParamsUnit(LogicalUnit[OpClusterSetParams]):
    OPCODE: ClassVar[type[OpCode]] = OpClusterSetParams

    def check_prereq(self, context: UnitContext) -> None:
        given = [field.name for field in attrs.fields(OpClusterSetParams) if _is_given(getattr(self.op, field.name))]
        names = [name for name in given if name not in _COMMON]
        if foreign := [name for name in names if name not in _KNOWN]:
            raise PrerequisiteError(
                f"'{foreign[0]}' of the cluster cannot be changed by a job here; known are {', '.join(_KNOWN)}",
                "wrong_input",
            )
        if not names:
            raise PrerequisiteError(f"there is nothing to change; known are {', '.join(_KNOWN)}", "wrong_input")

    def run(self, context: UnitContext) -> None:
        limits = {name: value for name in _LIMITS if (value := getattr(self.op, name)) is not None}
        if limits:
            context.config.update(attrs.evolve(context.config.cluster, **limits))
        if self.op.candidate_pool_size is not None:
            _resize_pool(context, self.op.candidate_pool_size)


def _resize_pool(context: UnitContext, size: int) -> None:
    nodes = context.config.nodes
    promoted = fill_pool(context, nodes, size)
    context.config.change_nodes(promoted.nodes, certificates=promoted.certificates, candidate_pool_size=size)
    promoted.tell(context)
    count = sum(node.master_candidate for node in nodes)
    if count > size:
        context.feedback(f"warning: there are {count} master candidates; end some with: gnt-node modify -C no NODE")


def _is_given(value: object) -> bool:
    """Whether a parameter has a value; Ganeti's clients send empty objects for those that are left out."""
    return bool(value) and not (attrs.has(type(value)) and value == type(value)())
