"""The locks of a job, held at wconfd: requested, awaited, released.

Theory. A request is sent as `updateLocksWaiting`: it is granted at once, or becomes pending. A pending one is
awaited by `waitLocks`, and then sent again: the second delivery of a granted request changes
nothing and says so. The same is done after a broken connection, whether or not wconfd acted on the request or forgot
it; so restarts of wconfd have no effect, and if it stays away the job waits for it.

A request to cancel ends every wait. If the reply to a lock request is abandoned for it, the locks
may be granted nevertheless, after our `freeLocks`; the process then ends, and its death frees them.

A new priority of a pending request needs a new request. `intersectLocks` with all held locks drops the old
request, and touches nothing else.

A wait is written to the job's history once it lasts, and again when it is over, for any reason. The first
`waitLocks` is no longer than the shortest reported wait, so that a short wait costs nothing more.

Locks under which a command may still run on a node (`protocol.wconfd.locks`) are freed only when it is
known that nothing of it does; if this process ends before, they stay held, and a later process of the job adopts them.

Source: wconfd.md 5.3, 8.3; DESIGN sections 4, 9 and 13.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, TypeVar

from common.errors import ConnectionLost, GantryError, JobCanceled, Unavailable
from common.locks import Lock, LockLevel, LockMode, LockRequest, Owner
from common.queue.explanation import SHORTEST_S
from common.system.log import get_log
from common.system.signals import ProcessSignals
from daemons.jobproc.jobrecord import TellWait, WaitRecord
from protocol.blocking import BlockingClient
from protocol.messages import Request
from protocol.unixsocket import pauses
from protocol.wconfd.locks import (
    AdoptLocks,
    CommandOnNode,
    DownGradeLocksLevel,
    ExplainWait,
    FreeLocks,
    IntersectLocks,
    InTheWay,
    KeepLocks,
    TryUpdateLocks,
    UpdateLocksWaiting,
    WaitLocks,
)

# limit of one `waitLocks`, in seconds; only so that an unnoticed broken connection is found
WAIT_S: Final = 60.0
REPLY_S: Final = 60.0
# seconds at the end of an opcode; after that the death of the process must free the locks
FREE_S: Final = 30.0

R = TypeVar("R")
_log = get_log(__name__)


def _never() -> bool:
    return False


class Paused(Exception):
    """A filter rule holds back the opcode that waits for its locks."""


class JobLocks:
    """The locks of one job process.

    Args:
        socket_path: wconfd's.
    """

    def __init__(self, socket_path: Path, owner: Owner, signals: ProcessSignals, waits: WaitRecord) -> None:
        self._owner = owner
        self._waits = waits
        self._signals = signals
        self._client = BlockingClient(
            socket_path, connect_timeout_s=0.0, reply_timeout_s=REPLY_S, daemon="the lock daemon"
        )
        self._held: dict[Lock, LockMode] = {}
        # whether anything was requested since the last `freeLocks` with a reply
        self._is_in_use = False
        # whether a `freeLocks` got no reply; it must be repeated before any other request
        self._is_unsettled = False
        self._freeing: FreeLocks | None = None
        self._is_sent = False
        # whether something may run on a node under the locks: then they are not freed, and outlive this process
        self.may_run = False

    @property
    def held(self) -> dict[Lock, LockMode]:
        """The locks held now, as a copy."""
        return dict(self._held)

    def acquire(
        self,
        requests: Sequence[LockRequest],
        priority: Callable[[], int],
        on_blocked: Callable[[], None],
        is_paused: Callable[[], bool] = _never,
    ) -> None:
        """Acquire these locks in addition to those held, however long it takes.

        Args:
            priority: called again after a signal; smaller is more urgent.
            on_blocked: called once if the request was not granted at once.
            is_paused: called while it waits, again after a signal.
        Raises:
            JobCanceled: a cancel was requested; the caller frees the acquired locks, which also drops the request.
            Paused: the same for `is_paused`.
            LockRuleViolation and others of wconfd, as RemoteError: the request is refused.
        """
        if self._is_unsettled:
            self._ask(FreeLocks(self._owner), self._is_canceled)
            self._is_unsettled = False
        self._is_in_use = True
        request = UpdateLocksWaiting(self._owner, priority(), tuple(requests))
        if blockers := self._ask(request, self._is_canceled):
            with self._waits.waiting(requests, blockers) as lasts:
                on_blocked()
                self._wait_granted(request, priority, lasts, is_paused)
        self._held |= {item.lock: item.mode for item in requests if item.mode is not None}

    def _wait_granted(
        self,
        request: UpdateLocksWaiting,
        priority: Callable[[], int],
        lasts: TellWait,
        is_paused: Callable[[], bool],
    ) -> None:
        """Args: lasts: called when the wait is long enough to be recorded."""
        wait_s = SHORTEST_S

        def must_look() -> bool:
            return self._is_canceled() or priority() != request.priority or is_paused()

        while True:
            self._try_ask(WaitLocks(self._owner, wait_s), must_look, wait_s + REPLY_S)
            self._check_canceled()
            if is_paused():
                self._client.close()
                raise Paused
            if priority() != request.priority:
                self._ask(IntersectLocks(self._owner, tuple(self._held)), self._is_canceled)
                request = UpdateLocksWaiting(self._owner, priority(), request.requests)
            if not self._ask(request, self._is_canceled):
                return
            if wait_s < WAIT_S:
                lasts(self._in_the_way())
            wait_s = WAIT_S

    def _in_the_way(self) -> tuple[InTheWay, ...]:
        """The locks that block the pending request; empty if it was granted meanwhile, or wconfd cannot tell."""
        try:
            explanation = self._try_ask(ExplainWait(self._owner), self._is_canceled, REPLY_S)
        except GantryError as error:
            _log.debug("locks.not_explained", job=self._owner.ident, error=error)
            return ()
        return explanation.waits[0].in_the_way if explanation is not None and explanation.waits else ()

    def keep_for(self, command: CommandOnNode) -> None:
        """Keep the held locks beyond the death of this process, as long as this command may still run.

        Durability: on return that survives a loss of power.
        Raises: JobCanceled: a cancel was requested; wconfd may know it or not. Errors of wconfd, as RemoteError.
        """
        self.may_run = True
        self._ask(KeepLocks(self._owner, (command,)), self._is_canceled)

    def adopt(self) -> bool:
        """Take over the locks of an earlier process of the job; return whether there were any.

        Raises: JobCanceled: the job is killed. RemoteError: the earlier process may live.
        """
        # until it is known
        self.may_run = True
        owned = self._ask(AdoptLocks(self._owner), lambda: self._signals.kill_asked)
        self._held |= dict(owned)
        self.may_run = self._is_in_use = bool(owned)
        return self.may_run

    def settle(self) -> None:
        """Nothing runs on a node under the locks any more: they may be freed."""
        self.may_run = False

    def release(self, locks: Iterable[Lock]) -> None:
        """Release some of the held locks; the rest stays."""
        requests = tuple(LockRequest(lock, None) for lock in locks)
        self._ask(TryUpdateLocks(self._owner, requests), _never)
        for request in requests:
            self._held.pop(request.lock, None)

    def downgrade(self, level: LockLevel) -> None:
        """Turn the exclusive locks of a level into shared ones."""
        self._ask(DownGradeLocksLevel(self._owner, level), _never)
        self._held = {lock: LockMode.SHARED if lock.level is level else mode for lock, mode in self._held.items()}

    def start_free(self) -> None:
        """Send the request to free everything; the caller can work until `finish_free`."""
        self._held.clear()
        if not (self._is_in_use or self._is_unsettled):
            return
        self._freeing = FreeLocks(self._owner)
        try:
            self._client.start(self._freeing)
            self._is_sent = True
        except GantryError:
            # wconfd restarted, or closed an idle connection: `finish_free` tries again
            self._is_sent = False

    def finish_free(self) -> None:
        """Wait until everything is free. Never raises: if wconfd does not receive it, our death frees the locks."""
        request, self._freeing = self._freeing, None
        if request is None:
            return
        self._is_in_use = False
        try:
            self._finish(request)
            self._is_unsettled = False
        except GantryError as error:
            self._is_unsettled = True
            _log.warning("locks.not_freed", job=self._owner.ident, error=error, next="when this process ends")

    def _finish(self, request: FreeLocks) -> None:
        if self._is_sent:
            try:
                self._client.finish(request, timeout_s=FREE_S)
                return
            except ConnectionLost:
                pass
        self._client.call(request, timeout_s=FREE_S)

    def close(self) -> None:
        self._client.close()

    def _is_canceled(self) -> bool:
        return self._signals.cancel_asked

    def _check_canceled(self) -> None:
        if self._is_canceled():
            self._client.close()
            raise JobCanceled("the job was canceled while it waited for locks")

    def _ask(self, request: Request[R], stop: Callable[[], bool]) -> R:
        """Raises: JobCanceled: `stop()` became true; errors of wconfd."""
        reply = self._try_ask(request, stop, REPLY_S)
        if reply is None:
            raise JobCanceled("the job was canceled while it asked for locks")
        return reply

    def _try_ask(self, request: Request[R], stop: Callable[[], bool], patience_s: float) -> R | None:
        """Return the reply, after as many attempts as needed; None, with nothing sent, as soon as `stop()` is true."""
        is_quiet = True
        for pause in pauses():
            if stop():
                return None
            try:
                return self._attempt(request, stop, patience_s)
            except Unavailable as error:
                if is_quiet:
                    _log.warning("wconfd.unreachable", job=self._owner.ident, error=error, next="keep trying")
                is_quiet = False
            if stop():
                return None
            self._signals.wait(pause)
        raise AssertionError("pauses() has no end")

    def _attempt(self, request: Request[R], stop: Callable[[], bool], patience_s: float) -> R | None:
        self._client.start(request)
        deadline = time.monotonic() + patience_s
        while not stop():
            left_s = deadline - time.monotonic()
            if self._signals.wait(left_s, self._client.fileno()):
                return self._client.finish(request)
            if left_s <= 0:
                self._client.close()
                raise Unavailable(f"no answer to {request.METHOD} within {patience_s:g} s")
        self._client.close()
        return None
