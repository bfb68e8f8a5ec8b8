"""The units for tests of the engine.

Source: opcodes.md, TEST_DELAY and TEST_DUMMY.
"""

import os
import shutil
import socket
import tempfile
import time
from collections.abc import Sequence
from typing import ClassVar, Final

from common.errors import ExecutionError, InvalidRequest, JobCanceled
from common.locks import LockLevel, LockMode, LockRequest, member_lock
from common.opcodes.base import OpCode
from common.opcodes.test import OpTestDelay, OpTestDummy, OpTestJqueue, OpTestOsParams
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


# OP_TEST_JQUEUE: lets a client observe each step of a job; the job waits for the client.
#
# For each step a socket is made in a folder of its own and announced by a log entry. Then the job waits until the
# client has connected and has closed, or has sent something.
#
# Source: opcodes.md 7, TEST_JQUEUE; cli.md 4, test-jobqueue.


KIND: Final = "jqueue-test"
MESSAGE_PREFIX: Final = "TESTMSG="
CONNECT_S: Final = 20.0
ANSWER_S: Final = 60.0


class TestJqueueUnit(LogicalUnit[OpTestJqueue]):
    """Notifies, logs, and ends as the parameters say, under the lock of the master node."""

    OPCODE: ClassVar[type[OpCode]] = OpTestJqueue
    # not a test case, despite its name
    __test__ = False

    def expand_names(self, context: UnitContext) -> None:
        if self.op.notify_waitlock:
            context.begin_waiting()
            _notify(context, "expandnames", None)

    def is_dynamic(self, level: LockLevel) -> bool:
        return False

    def declare_locks(self, level: LockLevel, context: UnitContext) -> Sequence[LockRequest]:
        if level is not LockLevel.NODE:
            return ()
        master = context.config.cluster.master_node
        return (LockRequest(member_lock(level, master), LockMode.EXCLUSIVE),)

    def run(self, context: UnitContext) -> bool:
        if self.op.notify_exec:
            _notify(context, "exec", None)
        if self.op.log_messages:
            _notify(context, "startmsg", len(self.op.log_messages))
            for count, text in enumerate(self.op.log_messages, 1):
                context.feedback(MESSAGE_PREFIX + text)
                _notify(context, "logmsg", count)
        if self.op.fail:
            raise ExecutionError("failed as requested")
        return True


def _notify(context: UnitContext, what: str, argument: object) -> None:
    """Raises: ExecutionError: no client came, or it did not react. JobCanceled."""
    folder = tempfile.mkdtemp(prefix="gantry-jqueue-")
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            path = os.path.join(folder, "notify")
            listener.bind(path)
            listener.listen(1)
            context.log(KIND, [path, what, argument])
            _wait(context, listener, CONNECT_S, f"no client connected to tell it of '{what}'")
            connection, _ = listener.accept()
        with connection:
            _wait(context, connection, ANSWER_S, f"the client did not answer to '{what}'")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait(context: UnitContext, sock: socket.socket, patience_s: float, complaint: str) -> None:
    deadline = time.monotonic() + patience_s
    while not context.signals.wait(deadline - time.monotonic(), sock.fileno()):
        if context.cancelled:
            raise JobCanceled
        if time.monotonic() >= deadline:
            raise ExecutionError(f"{complaint} within {patience_s:g} s")
