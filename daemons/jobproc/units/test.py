"""The units for tests of the engine.

Source: opcodes.md, TEST_DELAY and TEST_DUMMY.
"""

from typing import ClassVar

from common.errors import ExecutionError, InvalidRequest, JobCanceled
from common.opcodes.base import OpCode
from common.opcodes.test import OpTestDelay, OpTestDummy, OpTestOsParams
from daemons.jobproc.context import UnitContext
from daemons.jobproc.units.base import LogicalUnit


class TestDelayUnit(LogicalUnit[OpTestDelay]):
    """Sleeps; a request to cancel ends it early only if the opcode says so."""

    OPCODE: ClassVar[type[OpCode]] = OpTestDelay
    # not a test case, despite its name
    __test__ = False

    def run(self, context: UnitContext) -> None:
        for turn in range(max(self.op.repeat, 1)):
            if self.op.repeat:
                context.feedback(f"delay {turn + 1} of {self.op.repeat}")
            context.wait(self.op.duration, until_canceled=self.op.interruptible)
            if self.op.interruptible and context.cancelled:
                raise JobCanceled


class TestDummyUnit(LogicalUnit[OpTestDummy]):
    """Logs, submits, fails or returns, as the parameters say and in this order."""

    OPCODE: ClassVar[type[OpCode]] = OpTestDummy
    __test__ = False

    def run(self, context: UnitContext) -> object:
        for text in _texts(self.op.messages):
            context.feedback(text)
        submitted = context.submit_jobs(_jobs(self.op.submit_jobs)) if self.op.submit_jobs else None
        if self.op.fail:
            raise ExecutionError(self.op.fail if isinstance(self.op.fail, str) else "failed as requested")
        if submitted is None:
            return self.op.result
        return {"jobs": submitted, "value": self.op.result}


class TestOsParamsUnit(LogicalUnit[OpTestOsParams]):
    """Logs the secret parameters, so that a test can trace them."""

    OPCODE: ClassVar[type[OpCode]] = OpTestOsParams
    __test__ = False

    def run(self, context: UnitContext) -> None:
        if not self.op.osparams_secret:
            raise ExecutionError("there are no secret parameters")
        context.feedback(f"secret parameters: {self.op.osparams_secret}")


def _texts(messages: object) -> list[str]:
    if messages is None:
        return []
    return [str(text) for text in messages] if isinstance(messages, list) else [str(messages)]


def _jobs(value: object) -> list[tuple[dict[str, object], ...]]:
    if isinstance(value, list) and all(isinstance(job, list) for job in value):
        return [tuple(job) for job in value]
    raise InvalidRequest(f"submit_jobs is a list of jobs, each a list of opcode objects; got {value!r:.60}")
