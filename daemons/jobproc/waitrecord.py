"""The job process's part of the job's history: its waits for locks.

Never raises: a history that cannot be written is only missed.

Source: common/queue/waithistory.py; DESIGN section 6, "Explain".
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import attrs

from common.ids import JobId
from common.locks import BGL, LockMode, LockRequest, Owner
from common.queue.files.waitfile import append_spans
from common.queue.waithistory import NAMED, Cause, Span, WaitKind
from common.system.log import get_log
from protocol.wconfd.explain import InTheWay

# function called with the blocking locks, as far as they are known
TellWait = Callable[[Sequence[InTheWay]], None]
# request of nearly every opcode, which hardly ever blocks it
_NO_BIG_LOCK: Final = LockRequest(BGL, LockMode.SHARED)
_log = get_log(__name__)


class WaitRecord:
    """Writes one job's waits for locks.

    Args:
        path: shared with other jobs.
    """

    def __init__(self, path: Path, job_id: JobId) -> None:
        self._path = path
        self._job_id = job_id

    @contextmanager
    def waiting(self, requests: Sequence[LockRequest], blockers: Sequence[Owner]) -> Iterator[TellWait]:
        """Record a wait that lasts until this context ends, also by an error; a very short one is not written.

        Args:
            requests: requested locks; others may hold only some of them.
        Yields: a function to call once when the wait lasts: from then on others see it.
        """
        names = [str(request.lock) for request in requests if request != _NO_BIG_LOCK] or [str(BGL)]
        wait = Span(_cause(names, blockers), time.time(), None)
        told = False

        def tell(in_the_way: Sequence[InTheWay]) -> None:
            nonlocal told, wait
            if in_the_way:
                names, holders = ([str(each.lock) for each in in_the_way], [each.holder for each in in_the_way])
                wait = attrs.evolve(wait, cause=_cause(names, holders))
            self._append(wait)
            told = True

        try:
            yield tell
        finally:
            whole = attrs.evolve(wait, until=time.time())
            if told or not whole.is_short:
                self._append(whole)

    def _append(self, span: Span) -> None:
        try:
            append_spans(self._path, [(self._job_id, span)])
        except (OSError, TypeError) as error:
            _log.warning("waits.not_written", job=self._job_id, error=error, effect="the job's history lacks a wait")


def _cause(names: Sequence[str], owners: Sequence[Owner]) -> Cause:
    idents = list(dict.fromkeys(owner.ident for owner in owners))
    job_ids = [ident for ident in idents if isinstance(ident, int)]
    others = [ident for ident in idents if isinstance(ident, str)]
    locks = tuple(dict.fromkeys(names))
    return Cause(
        WaitKind.LOCKS, tuple(job_ids[:NAMED]), locks[:NAMED], tuple(others[:NAMED]), more=len(job_ids[NAMED:])
    )
