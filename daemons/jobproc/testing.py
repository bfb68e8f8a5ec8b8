"""A kit for authors of opcodes: carry out a unit without daemons, job files or a cluster, and find its mistakes.

    def test_a_release_is_put_in_place(tmp_path):
        trial = UnitTrial(tmp_path)

        result = trial.carry_out(SitePublishUnit, {"site": "shop", "source": "/build/shop"})

        assert result == {"release": "1"}
        assert trial.locks == {"cluster/BGL": "shared", "instance/shop": "exclusive"}
        assert trial.feedback == ["100 %: index.html"]

The steps are those of a job process (`life.py`). A fault that would show only in a cluster is a `Mistake` here: an
opcode that does not survive its job file; a secret in that file, the job's log or the result; locks other than those
the opcode declares, from which luxid predicts waits; an optimistic unit that does not bear its second call of
`expand_names`; a change or a use of something whose lock is not held; a result that is not JSON. No time passes in
`wait`.
"""

from collections.abc import Mapping
from typing import Any

from common.locks import BGL, LockRequest
from common.opcodes.base import OpCode, read_opcode, write_opcode
from daemons.jobproc.opcodelocks import UNIT_LEVELS, covers, declared_again
from daemons.jobproc.trial.fakecontext import (
    FakeContext,
    Mistake,
    TrialRecord,
    check_requests,
    check_result,
    from_job_file,
)
from daemons.jobproc.units.base import LogicalUnit

__all__ = ["FakeContext", "Mistake", "UnitTrial"]


class UnitTrial(TrialRecord):
    """A simulated job process for one opcode; made like `TrialRecord`."""

    def carry_out(self, unit: type[LogicalUnit[OpCode]], parameters: Mapping[str, object]) -> Any:
        """Carry out the opcode of this unit.

        Args:
            parameters: JSON values, as in a file for `gnt-job submit`.
        Returns: the opcode's result; None for a dry run.
        Raises:
            InvalidRequest: luxid would refuse the parameters.
            Mistake: see the module.
            All exceptions of the unit.
        """
        op = read_opcode(unit.OPCODE, parameters)
        kept = from_job_file(op)
        context = FakeContext(self, write_opcode(op), op.secret_parameters() or {})
        made = unit(kept)
        made.expand_names(context)
        self._take_locks(made, context)
        context.forget_config()
        if made.is_optimistic and not covers(context.locks.held, declared_again(made, context)):
            raise Mistake(f"{op.OP_ID} asks for other locks when it is expanded again, though nothing has changed")
        made.check_prereq(context)
        result = None if kept.dry_run else made.run(context)
        check_result(result)
        context.check_secrets_in(result, "the result")
        return result

    def _take_locks(self, unit: LogicalUnit[OpCode], context: "FakeContext") -> None:
        """Take locks as `life` does: all known ones in one request, before a level that depends on held locks."""
        declared = unit.declaration
        requests = [LockRequest(BGL, declared.bgl)] if declared.bgl else []
        for level in UNIT_LEVELS:
            if unit.is_dynamic(level):
                context.take(requests)
                requests = []
            wanted = unit.declare_locks(level, context)
            check_requests(unit.op, declared, level, wanted)
            requests += wanted
        context.take(requests)
