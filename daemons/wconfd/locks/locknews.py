"""The news of durable changes of the locks: to callers that sleep, to subscribers, and by SIGHUP.

A grant is told first to the sleepers of `wait_granted`, then to subscribers, then by SIGHUP to owners of
Ganeti's kind.

Source: daemons design, "Locking"; wconfd.md 5.4; DESIGN section 8.
"""

import os
import signal
from collections.abc import Callable, Collection, Sequence
from typing import Final

import orjson
import trio

from common.asciijson import ascii_json
from common.locks import Owner
from common.system.livelock import is_alive
from common.system.log import get_log
from common.wire import unstructure
from daemons.wconfd.core.locks.ghostrules import Made, ghosts_of
from daemons.wconfd.core.locks.guards import NO_GUARDS
from daemons.wconfd.core.locks.pending import LockState
from daemons.wconfd.locks.since import Since
from protocol.stream import Publisher
from protocol.wconfd.ghosts import GHOSTS_CHANGED, Ghost
from protocol.wconfd.subscribe import LOCKS_CHANGED

_log: Final = get_log(__name__)


class LockNews:
    """Tells what has changed.

    Args:
        state: returns the durable state.
        ghost_s: seconds that a ghost is given; 0: no end.
    """

    def __init__(self, state: Callable[[], LockState], ghost_s: float = 0.0) -> None:
        self._state = state
        self.ghost_s = ghost_s
        self.since = Since()
        # sends `locksChanged` and `ghostsChanged`, and all other events for subscribers
        self.publisher = Publisher()
        # owners that sleep until their pending request is gone
        self._sleepers: dict[Owner, trio.Event] = {}
        self._told_guards = NO_GUARDS
        self._told_ghosts: tuple[Ghost, ...] = ()
        self._ghosts_have_changed = trio.Event()

    def ghosts(self) -> tuple[Ghost, ...]:
        """All ghosts, in owner order."""
        return ghosts_of(self._state(), self.ghost_s)

    async def ghosts_changed(self) -> None:
        """Wait for the next change of the ghosts."""
        await self._ghosts_have_changed.wait()

    async def wait_granted(self, owner: Owner, timeout_s: float) -> bool:
        """Sleep until the owner has no pending request; return False if it still has one when the time is over."""
        with trio.move_on_after(timeout_s):
            while self._state().pending_of(owner):
                await self._sleepers.setdefault(owner, trio.Event()).wait()
        return self._state().pending_of(owner) is None

    def tell(self, made: Sequence[Made]) -> None:
        """Tell what was done: who was granted a lock, and whose pending request is given up or dropped."""
        state = self._state()
        for each in made:
            self.since.note(each.owner, each.change, state)
            for owner in (each.owner, *each.change.granted):
                self._wake(owner)
        self._publish(dict.fromkeys(owner for each in made for owner in (each.owner, *each.change.granted)))
        for owner in (owner for each in made for owner in each.change.granted):
            _log.debug("lock.granted", owner=owner)
            _hang_up(owner)
        if state.guards is not self._told_guards:
            self._tell_ghosts(state)

    def _tell_ghosts(self, state: LockState) -> None:
        self._told_guards = state.guards
        ghosts = self.ghosts()
        if ghosts == self._told_ghosts:
            return
        self._told_ghosts = ghosts
        self.publisher.publish(GHOSTS_CHANGED, unstructure(ghosts))
        self._ghosts_have_changed.set()
        self._ghosts_have_changed = trio.Event()

    def _publish(self, changed: Collection[Owner]) -> None:
        if changed:
            self.publisher.publish(LOCKS_CHANGED, [self._row(owner) for owner in changed])

    def _row(self, owner: Owner) -> orjson.Fragment:
        holdings = self._state().table.holdings_of(owner)
        return orjson.Fragment(holdings.row if holdings else ascii_json([owner.to_wire(), []]))

    def _wake(self, owner: Owner) -> None:
        if owner in self._sleepers and self._state().pending_of(owner) is None:
            self._sleepers.pop(owner).set()


def _hang_up(owner: Owner) -> None:
    """Send SIGHUP to the pid of an owner of Ganeti's kind; a dead owner's pid may belong to another process now."""
    # 0 and negative numbers would mean whole groups of processes
    if owner.pid is None or owner.pid <= 1 or owner.pid == os.getpid() or not is_alive(owner.livelock):
        return
    try:
        os.kill(owner.pid, signal.SIGHUP)
    except (OSError, OverflowError) as error:
        _log.debug("owner.not_signalled", owner=owner, pid=owner.pid, reason=error)
