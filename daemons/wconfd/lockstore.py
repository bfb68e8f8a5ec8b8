"""The locks in memory and in `locks.data`, and those who sleep until theirs are granted.

A grant is told only when the file that says so is durable: first to whoever sleeps in
`wait_granted`, then by SIGHUP to owners of Ganeti's kind, then to the caller whose change made room.

Source: daemons design, "Locking"; wconfd.md 5.4, 6.1, 6.3; DESIGN section 8.
"""

import os
import signal
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Final, Self

import trio

from common.atomicfile import write_file
from common.errors import DamagedFile, Unavailable
from common.livelock import is_alive
from common.locks import Lock, LockLevel, LockMode, LockRequest, Owner
from common.log import get_log
from daemons.wconfd.core.lockstate import decode, encode
from daemons.wconfd.core.pending import LockState
from daemons.wconfd.core.waiting import Change, free_all, free_level, try_update
from daemons.wconfd.owners import KnownOwners
from daemons.wconfd.steps import StepStatistics, StepWriter

_log: Final = get_log(__name__)

# a change of the locks, as the core's functions make it: of the state before
LockStep = Callable[[LockState], Change]
# of one step of the writer: whose locks were changed, and how
_Answer = tuple[tuple[Owner, Change], ...]


class LockStore:
    """The one place that holds the lock state. Make one by `load`; start `run` before any change."""

    def __init__(self, path: Path, state: LockState) -> None:
        self._path = path
        self._writer = StepWriter(state, self._write, self._tell)
        self.known = KnownOwners(state.owners())
        # who sleeps until its pending request is gone
        self._sleepers: dict[Owner, trio.Event] = {}
        self._is_degraded = False
        self.run = self._writer.run

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read the locks; before trio runs.

        Raises:
            DamagedFile: with the path, the place, and what to do; nothing is replaced by an empty file.
            OSError: the file cannot be read.
        """
        try:
            return cls(path, decode(path.read_bytes()))
        except FileNotFoundError:
            _log.warning("locks.missing", path=path, effect="nobody holds anything")
            return cls(path, LockState())
        except DamagedFile as error:
            text = (
                f"'{path}': {error.message}; restore it from a backup, or, once no job process is left alive, "
                f"start without locks by: echo '[[],[]]' > {path}"
            )
            raise DamagedFile(text, path=str(path)) from error

    @property
    def state(self) -> LockState:
        """The durable state."""
        return self._writer.state

    def statistics(self) -> StepStatistics:
        return self._writer.statistics()

    async def change(self, owner: Owner, step: LockStep) -> Change:
        """Change the locks of an owner by a function of the core.

        Raises: Unavailable: `locks.data` could not be written; nothing has changed.
            LockRuleViolation: as the core's function.
        Durability: on return the change survives a loss of power.
        """

        def alone(state: LockState) -> tuple[LockState, _Answer]:
            change = step(state)
            return change.state, ((owner, change),)

        self.known.meet(owner)
        ((_, change),) = await self._writer.change(alone)
        return change

    async def bury(self, owners: Collection[Owner]) -> tuple[Owner, ...]:
        """Free what dead owners hold or wait for, in one change; answers those who had something.

        Its place among the changes is fixed before the first checkpoint.

        Raises, Durability: as `change`.
        """

        def free(state: LockState) -> tuple[LockState, _Answer]:
            changes: list[tuple[Owner, Change]] = []
            for owner in (owner for owner in owners if state.knows(owner)):
                changes.append((owner, free_all(state, owner)))
                state = changes[-1][1].state
            return state, tuple(changes)

        if self._writer.is_idle and not any(map(self.state.knows, owners)):
            return ()
        return tuple(owner for owner, _ in await self._writer.change(free))

    async def settled(self) -> None:
        """Wait until all changes begun before this call are durable. Raises: as `change`, if there are any."""
        await self._writer.settled()

    def forget_idle(self, others: frozenset[Owner] = frozenset()) -> None:
        """Know only these and the owners that hold or wait, unless some change is under way."""
        if self._writer.is_idle:
            self.known.keep(self.state.owners() | others)

    async def wait_granted(self, owner: Owner, timeout_s: float) -> bool:
        """Sleep until the owner has no pending request; False when the time is over and it still has."""
        with trio.move_on_after(timeout_s):
            while self.state.pending_of(owner):
                await self._sleepers.setdefault(owner, trio.Event()).wait()
        return self.state.pending_of(owner) is None

    # what the configuration's handlers need

    def held_by(self, owner: Owner) -> Mapping[Lock, LockMode]:
        return self.state.table.held_by(owner)

    async def try_update(self, owner: Owner, requests: Sequence[LockRequest]) -> Sequence[Owner]:
        return (await self.change(owner, lambda state: try_update(state, owner, requests))).blocked_on

    async def free_level(self, owner: Owner, level: LockLevel) -> None:
        await self.change(owner, lambda state: free_level(state, owner, level))

    def _write(self, state: LockState) -> None:
        """In the writer's thread."""
        try:
            write_file(self._path, encode(state))
        except OSError as error:
            self._is_degraded = True
            _log.error("locks.unwritten", path=self._path, reason=error, effect="no lock can be taken or released")
            raise Unavailable(f"'{self._path}' could not be written: {error}; nothing was changed") from error
        if self._is_degraded:
            self._is_degraded = False
            _log.info("locks.recovered", path=self._path)

    def _tell(self, answers: Sequence[_Answer | None]) -> None:
        """Wake those whose pending requests are gone: granted, or given up by themselves or their burial."""
        changes = [each for answer in answers if answer for each in answer]
        for owner, change in changes:
            self._wake(owner)
            for granted in change.granted:
                self._wake(granted)
        for _, change in changes:
            for granted in change.granted:
                _log.debug("lock.granted", owner=granted)
                _hang_up(granted)

    def _wake(self, owner: Owner) -> None:
        if owner in self._sleepers and self.state.pending_of(owner) is None:
            self._sleepers.pop(owner).set()


def _hang_up(owner: Owner) -> None:
    """Tell an owner of Ganeti's kind by SIGHUP to the pid it gave; a dead owner's pid may be someone else's now."""
    # zero and less would be whole groups of processes
    if owner.pid is None or owner.pid <= 1 or owner.pid == os.getpid() or not is_alive(owner.livelock):
        return
    try:
        os.kill(owner.pid, signal.SIGHUP)
    except (OSError, OverflowError) as error:
        _log.debug("owner.not_signalled", owner=owner, pid=owner.pid, reason=error)
