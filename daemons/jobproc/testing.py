"""A kit for authors of opcodes: carry out a unit without daemons, job files or a cluster, and find its mistakes.

    def test_a_release_is_put_in_place(tmp_path):
        trial = UnitTrial(tmp_path)

        result = trial.carry_out(SitePublishUnit, {"site": "shop", "source": "/build/shop"})

        assert result == {"release": "1"}
        assert trial.locks == {"cluster/BGL": "shared", "instance/shop": "exclusive"}
        assert trial.feedback == ["100 %: index.html"]

The steps are those of a job process (`life.py`). What would go wrong only in a cluster is a `Mistake` here: an opcode
that its job file does not hold whole; a secret in that file, the job's log or the result; locks other than the opcode
declares, by which luxid foresees who waits for whom; a change or a use of something whose lock is not held; a result
that is not JSON. No time passes in `wait`.
"""

from collections.abc import Mapping
from typing import Any

from common.locks import BGL, LockRequest
from common.opcodes.base import OpCode, read_opcode, write_opcode
from daemons.jobproc.life import UNIT_LEVELS
from daemons.jobproc.trial.checks import Mistake, check_requests, check_result, from_job_file
from daemons.jobproc.trial.context import FakeContext
from daemons.jobproc.trial.record import TrialRecord
from daemons.jobproc.units.base import LogicalUnit

__all__ = ["FakeContext", "Mistake", "UnitTrial"]


class UnitTrial(TrialRecord):
    """The job process of one opcode, played; made as `TrialRecord` tells."""

    def carry_out(self, unit: type[LogicalUnit[OpCode]], parameters: Mapping[str, object]) -> Any:
        """Carry out the opcode of this unit.

        Args:
            parameters: as JSON, as they stand in a file for `gnt-job submit`.
        Returns: the opcode's result; None for a dry run.
        Raises:
            InvalidRequest: the parameters are refused, as luxid would.
            Mistake: see the module.
            Whatever the unit raises.
        """
        op = read_opcode(unit.OPCODE, parameters)
        kept = from_job_file(op)
        context = FakeContext(self, write_opcode(op), op.secret_parameters() or {})
        made = unit(kept)
        made.expand_names(context)
        self._take_locks(made, context)
        made.check_prereq(context)
        result = None if kept.dry_run else made.run(context)
        check_result(result)
        context.check_secrets_in(result, "the result")
        return result

    def _take_locks(self, unit: LogicalUnit[OpCode], context: "FakeContext") -> None:
        """As `life` does: all that is known goes in one request, before a level that needs to be looked at."""
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
