"""The locks of one opcode after the other: taken level by level, or adopted from the process that began the opcode.

Those of an optimistic unit are judged again once they are held (`redeclaring`).

Source: DESIGN sections 5, 7 and 13.
"""

from collections.abc import Callable

import attrs

from common.errors import ExecutionError, RemoteError
from common.ids import JobId
from common.locks import BGL, LockRequest
from common.opcodes.base import OpCode
from common.system.log import get_log
from daemons.jobproc.context import Abandoned, UnitContext
from daemons.jobproc.jobrecord import JobRecord
from daemons.jobproc.locking import JobLocks
from daemons.jobproc.redeclaring import MOST_ROUNDS, UNIT_LEVELS, covers, declared_again, too_many_rounds
from daemons.jobproc.units.base import LogicalUnit

_log = get_log(__name__)


@attrs.frozen
class OpcodeLocks:
    """Gets an opcode its locks."""

    _job_id: JobId
    _locks: JobLocks
    _record: JobRecord
    # function that tells whether a filter rule holds back the job
    _is_paused: Callable[[], bool]
    # opcode that an earlier process has begun; None: none
    _begun: int | None

    def take(self, index: int, unit: LogicalUnit[OpCode], context: UnitContext) -> None:
        """Acquire the locks of a unit that has expanded its names; the configuration is then read under them.

        Raises: as `JobLocks.acquire`, and of an optimistic unit:
            PrerequisiteError: the configuration keeps changing. As `LogicalUnit.expand_names`.
        """
        for number in range(1, MOST_ROUNDS + 1):
            self._take_declared(index, unit, context)
            # what was read without locks may have changed
            context.forget_config()
            if not unit.is_optimistic or covers(self._locks.held, declared_again(unit, context)):
                return
            _log.info("locks.not_enough", job=self._job_id, opcode=index, round=number, reason="configuration changed")
            self._locks.start_free()
            self._locks.finish_free()
            self._begin_waiting(index)
            self._record.log(index, "the configuration has changed meanwhile: the job needs other locks")
        raise too_many_rounds()

    def _take_declared(self, index: int, unit: LogicalUnit[OpCode], context: UnitContext) -> None:
        """Acquire locks level by level, with as few requests as possible: all that is known goes into one."""
        bgl = unit.declaration.bgl
        requests = [LockRequest(BGL, bgl)] if bgl else []
        for level in UNIT_LEVELS:
            if unit.is_dynamic(level) and requests:
                self._acquire(index, requests)
                requests = []
            requests += unit.declare_locks(level, context)
        if requests:
            self._acquire(index, requests)

    def _acquire(self, index: int, requests: list[LockRequest]) -> None:
        self._locks.acquire(
            requests,
            lambda: self._record.job.ops[index].priority,
            lambda: self._begin_waiting(index),
            lambda: self._is_paused() and index != self._begun,
        )

    def _begin_waiting(self, index: int) -> None:
        # a second request of the same opcode may also have to wait
        if self._record.job.ops[index].start_at is None:
            self._record.begin_waiting(index)
        elif index == self._begun:
            self._record.log(index, "the job is taken up, and waits for its locks, which it had lost")

    def adopt(self, index: int, op: OpCode) -> bool:
        """Go on with an opcode that an earlier process has begun; return whether that one's locks are held now.

        Raises: ExecutionError: it cannot be gone on with. Abandoned: the earlier process may live. JobCanceled.
        """
        if not op.is_resumable:
            raise ExecutionError("the process of the job has died in the middle of the opcode")
        _log.info("job.taken_up", job=self._job_id, opcode=index)
        try:
            return self._locks.adopt()
        except RemoteError as error:
            raise Abandoned(f"wconfd does not give it the locks of the earlier process: {error.message}") from error
