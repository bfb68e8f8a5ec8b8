"""OP_CLUSTER_VERIFY: submits the jobs that verify the configuration, and each node group after that.

Source: opcodes.md 4 and 6.2, CLUSTER_VERIFY.
"""

from typing import ClassVar, Final

from common.opcodes.base import OpCode
from common.opcodes.cluster import OpClusterVerify
from daemons.jobproc.context import UnitContext
from daemons.jobproc.units.base import LogicalUnit
from daemons.jobproc.units.groups.groupnames import group_of
from protocol.luxi.submission import JobInput

_SHARED: Final = ("debug_simulate_errors", "error_codes", "ignore_errors", "verbose")
_OF_GROUPS: Final = (*_SHARED, "skip_checks", "verify_clutter")


class ClusterVerifyUnit(LogicalUnit[OpClusterVerify]):
    OPCODE: ClassVar[type[OpCode]] = OpClusterVerify

    def check_prereq(self, context: UnitContext) -> None:
        config, name = context.config, self.op.group_name
        self._groups = [group_of(config, name).name] if name is not None else [group.name for group in config.groups]

    def run(self, context: UnitContext) -> object:
        """Return the jobs."""
        jobs: list[JobInput] = []
        if self.op.group_name is None:
            jobs.append(({"OP_ID": "OP_CLUSTER_VERIFY_CONFIG", **self._values(_SHARED)},))
        for name in self._groups:
            op = {"OP_ID": "OP_CLUSTER_VERIFY_GROUP", "group_name": name, **self._values(_OF_GROUPS)}
            jobs.append((op if self.op.group_name else {**op, "depends": [[-len(jobs), []]]},))
        return {"jobs": context.submit_jobs(jobs)}

    def _values(self, names: tuple[str, ...]) -> dict[str, object]:
        values = {name: getattr(self.op, name) for name in names}
        skipped = values.pop("skip_checks", None)
        if skipped is not None:
            values["skip_checks"] = [check.value for check in skipped]
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
