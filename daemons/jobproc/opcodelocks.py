"""The locks of one opcode after the other: taken level by level, or adopted from the process that began the opcode.

Those of an optimistic unit are judged again once they are held (`redeclaring`).

Source: DESIGN sections 5, 7 and 13.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import attrs

from common.errors import ExecutionError, PrerequisiteError, RemoteError
from common.ids import JobId
from common.locks import BGL, Lock, LockLevel, LockMode, LockRequest
from common.opcodes.base import OpCode
from common.system.log import get_log
from daemons.jobproc.context import Abandoned, UnitContext
from daemons.jobproc.jobrecord import JobRecord
from daemons.jobproc.locking import JobLocks
from daemons.jobproc.units.base import LogicalUnit

# Optimistic locking: locks that a unit has chosen by what it read before it held any.
#
# Theory. Such a unit reads the configuration, declares its locks and waits for them; meanwhile others may change what
# it has read. So with the locks held it declares again, by the configuration as it is now. What it holds protects what
# it declares if it covers that; then nobody can change it any more, and the unit goes on. If not, it frees everything,
# since locks may only be added in lock order, and begins again with the new declaration. Under changes that never end
# this would not either; so it is tried a limited number of times.
#
# Source: DESIGN section 7.


# levels on which units request locks
UNIT_LEVELS: Final = tuple(level for level in LockLevel if level not in (LockLevel.CLUSTER, LockLevel.CONFIG))
# times that a unit gets its locks, and finds that it needs others
MOST_ROUNDS: Final = 5


def declared_again(unit: LogicalUnit[OpCode], context: UnitContext) -> tuple[LockRequest, ...]:
    """What the unit declares by the configuration as it is now, below the BGL.

    Raises: as `LogicalUnit.expand_names`: what the opcode names may be gone.
    """
    unit.expand_names(context)
    return tuple(request for level in UNIT_LEVELS for request in unit.declare_locks(level, context))


def covers(held: Mapping[Lock, LockMode], requests: Iterable[LockRequest]) -> bool:
    """Whether the held locks are at least those that are requested; the lock of a group covers all its members."""
    return all(_is_held(held, request) for request in requests)


def too_many_rounds() -> PrerequisiteError:
    return PrerequisiteError(
        f"the configuration has changed {MOST_ROUNDS} times while the job waited for its locks, so that it needed "
        "others each time; submit it again when fewer changes are made",
        "temp_insufficient_resources",
    )


def _is_held(held: Mapping[Lock, LockMode], request: LockRequest) -> bool:
    places = (request.lock, request.lock.group)
    return request.mode is None or any(
        mode.covers(request.mode) for place in places if place is not None and (mode := held.get(place)) is not None
    )


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
