"""OP_TEST_JQUEUE: lets a client observe each step of a job; the job waits for the client.

For each step a socket is made in a folder of its own and announced by a log entry. Then the job waits until the
client has connected and has closed, or has sent something.

Source: opcodes.md 7, TEST_JQUEUE; cli.md 4, test-jobqueue.
"""

import os
import shutil
import socket
import tempfile
import time
from collections.abc import Sequence
from typing import ClassVar, Final

from common.errors import ExecutionError, JobCanceled
from common.locks import LockLevel, LockMode, LockRequest, member_lock
from common.opcodes.base import OpCode
from common.opcodes.test import OpTestJqueue
from daemons.jobproc.context import UnitContext
from daemons.jobproc.units.base import LogicalUnit

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
