"""The locks in memory and on disk, and the callers that sleep until theirs are granted.

A grant is reported only when it is durable: first to the sleepers of
`wait_granted`, then by SIGHUP to owners of Ganeti's kind, then to the caller whose change freed the locks.

Source: daemons design, "Locking"; wconfd.md 5.4, 6.1, 6.3; DESIGN section 8.
"""

import os
import signal
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Final, Self

import attrs
import orjson
import trio

from common.asciijson import ascii_json
from common.errors import Unavailable
from common.locks import Lock, LockLevel, LockMode, LockRequest, Owner
from common.system.livelock import is_alive
from common.system.log import get_log
from daemons.wconfd.core.locks.pending import LockState
from daemons.wconfd.core.locks.waiting import Change, free_all, free_level, try_update
from daemons.wconfd.lockfiles import LockFiles
from daemons.wconfd.owners import KnownOwners
from daemons.wconfd.since import Since
from daemons.wconfd.steps import StepStatistics, StepWriter
from protocol.stream import Publisher
from protocol.wconfd.subscribe import LOCKS_CHANGED

# small file (up to SMALL_BYTES): rewrite it SOON_S after a change, spending at most 1/PART of the time; larger: after
# QUIET_S without changes, plus a second for each QUIET_BYTES of it
SMALL_BYTES: Final = 2**18
SOON_S: Final = 0.02
PART: Final = 20
QUIET_S: Final = 0.2
QUIET_BYTES: Final = 10 * 2**20
# seconds after a failed rewrite
PAUSE_S: Final = 5.0

_log: Final = get_log(__name__)

# a change of the locks by a function of the core
LockStep = Callable[[LockState], Change]


@attrs.frozen
class _Made:
    """An owner's change of the locks."""

    owner: Owner
    change: Change
    # False: it was refused, or changed nothing
    has_effect: bool


# result of one step of the writer
_Answer = tuple[_Made, ...]


class LockStore:
    """The only holder of the lock state. Make one with `load`; start `run` before the first change."""

    def __init__(self, path: Path, state: LockState, files: LockFiles) -> None:
        self._path = path
        self._files = files
        self._writer = StepWriter(state, self._write, self._tell)
        self.known = KnownOwners(state.owners())
        self.since = Since()
        # sends `locksChanged`, and all other events for subscribers
        self.publisher = Publisher()
        # owners that sleep until their pending request is gone
        self._sleepers: dict[Owner, trio.Event] = {}
        self._is_degraded = False
        # instants on trio's clock of the last change, and of the first since `locks.data` was made whole
        self._changed_at = self._first_changed_at = 0.0
        # set if `_keep_whole` has not seen the last change
        self._has_changed = trio.Event()

    @classmethod
    def load(cls, path: Path, *, max_bypass: int | None = None, has_journal: bool = True) -> Self:
        """Read the locks, before trio runs.

        Args:
            max_bypass: see `core.fairness`; None: exactly as in Ganeti.
            has_journal: False: `locks.data` is made whole at each change.

        Raises: as `LockFiles.load`.
        """
        files, state = LockFiles.load(path, max_bypass=max_bypass, has_journal=has_journal)
        return cls(path, state, files)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the writer; for `nursery.start`.

        Cancellation: changes begun before it are still made, shielded; later ones are refused. At the end
        `locks.data` is whole, and has no journal.
        """
        try:
            async with trio.open_nursery() as nursery:
                await nursery.start(self._writer.run)
                if not await self._try_make_whole():
                    self._has_changed.set()
                nursery.start_soon(self._keep_whole)
                task_status.started()
        finally:
            self._finish()

    @property
    def state(self) -> LockState:
        """The durable state."""
        return self._writer.state

    def statistics(self) -> StepStatistics:
        return self._writer.statistics()

    async def change(self, owner: Owner, step: LockStep) -> Change:
        """Change the locks of an owner by a function of the core.

        Raises: Unavailable: the change could not be made durable; nothing has changed.
            LockRuleViolation: as the core's function.
        Durability: on return the change survives a loss of power.
        """

        def alone(state: LockState) -> tuple[LockState, _Answer]:
            change = step(state)
            return change.state, (_Made(owner, change, change.state is not state),)

        self.known.meet(owner)
        (made,) = await self._writer.change(alone)
        return made.change

    async def bury(self, owners: Collection[Owner]) -> tuple[Owner, ...]:
        """Free the locks and requests of dead owners, in one change; return the owners that had any.

        Its place among the changes is fixed before the first checkpoint.

        Raises, Durability: as `change`.
        """

        def free(state: LockState) -> tuple[LockState, _Answer]:
            made: list[_Made] = []
            for owner in (owner for owner in owners if state.knows(owner)):
                change = free_all(state, owner)
                made.append(_Made(owner, change, True))
                state = change.state
            return state, tuple(made)

        if self._writer.is_idle and not any(map(self.state.knows, owners)):
            return ()
        return tuple(made.owner for made in await self._writer.change(free))

    async def settled(self) -> None:
        """Wait until all changes begun before this call are durable. Raises: as `change`, if there are any."""
        await self._writer.settled()

    def forget_idle(self, others: frozenset[Owner] = frozenset()) -> None:
        """Keep only these owners and those that hold or wait, unless a change is under way."""
        if self._writer.is_idle:
            self.known.keep(self.state.owners() | others)

    async def wait_granted(self, owner: Owner, timeout_s: float) -> bool:
        """Sleep until the owner has no pending request; return False if it still has one when the time is over."""
        with trio.move_on_after(timeout_s):
            while self.state.pending_of(owner):
                await self._sleepers.setdefault(owner, trio.Event()).wait()
        return self.state.pending_of(owner) is None

    def rows(self) -> list[orjson.Fragment]:
        """`[owner, [[lock, mode], ...]]` of all owners with locks, in owner order."""
        return [orjson.Fragment(holdings.row) for holdings in self.state.table.all_holdings()]

    # methods for the configuration's handlers

    def held_by(self, owner: Owner) -> Mapping[Lock, LockMode]:
        return self.state.table.held_by(owner)

    async def try_update(self, owner: Owner, requests: Sequence[LockRequest]) -> Sequence[Owner]:
        return (await self.change(owner, lambda state: try_update(state, owner, requests))).blocked_on

    async def free_level(self, owner: Owner, level: LockLevel) -> None:
        await self.change(owner, lambda state: free_level(state, owner, level))

    def _write(self, state: LockState, answers: Sequence[object]) -> None:
        """Write in the writer's thread."""
        made = [(each.owner, each.change) for each in _with_effect(answers)]
        try:
            if made:
                self._files.write(self.state, state, made)
            else:
                self._files.make_whole(state)
        except OSError as error:
            if made:
                self._is_degraded = True
                _log.error("locks.unwritten", path=self._path, reason=error, effect="no lock can be taken or released")
            reason = error.strerror or error
            raise Unavailable(f"'{self._path}' could not be written: {reason}; nothing was changed") from error
        if self._is_degraded:
            self._is_degraded = False
            _log.info("locks.recovered", path=self._path)

    async def _keep_whole(self) -> None:
        """Make `locks.data` whole soon after a change; a large one after a while without changes."""
        not_before = 0.0
        while True:
            await self._has_changed.wait()
            due_at = max(self._whole_at(), not_before)
            if due_at > trio.current_time():
                await trio.sleep_until(due_at)
                continue
            self._has_changed = trio.Event()
            if await self._try_make_whole():
                not_before = trio.current_time() + (trio.current_time() - due_at) * PART
            else:
                self._has_changed.set()
                not_before = trio.current_time() + PAUSE_S

    def _whole_at(self) -> float:
        """The instant at which `locks.data` should be made whole after the changes so far."""
        if self._files.snapshot_size <= SMALL_BYTES:
            return self._first_changed_at + SOON_S
        return self._changed_at + QUIET_S + self._files.snapshot_size / QUIET_BYTES

    async def _try_make_whole(self) -> bool:
        if not self._files.is_whole:
            try:
                await self._writer.flush()
            except Unavailable as error:
                _log.warning("locks.not_whole", path=self._path, reason=error, retry_s=PAUSE_S)
                return False
        return True

    def _finish(self) -> None:
        try:
            self._files.finish(self.state)
        except OSError as error:
            _log.warning("locks.not_whole", path=self._path, reason=error, effect="the journal beside it counts")

    def _tell(self, answers: Sequence[object]) -> None:
        """Wake callers whose pending requests are gone: granted, given up, or dropped with a dead owner."""
        self._changed_at = trio.current_time()
        if not self._has_changed.is_set():
            self._first_changed_at = self._changed_at
            self._has_changed.set()
        made = _with_effect(answers)
        for each in made:
            self.since.note(each.owner, each.change, self.state)
            for owner in (each.owner, *each.change.granted):
                self._wake(owner)
        self._publish(dict.fromkeys(owner for each in made for owner in (each.owner, *each.change.granted)))
        for owner in (owner for each in made for owner in each.change.granted):
            _log.debug("lock.granted", owner=owner)
            _hang_up(owner)

    def _publish(self, changed: Collection[Owner]) -> None:
        if self.publisher and changed:
            self.publisher.publish(LOCKS_CHANGED, [self._row(owner) for owner in changed])

    def _row(self, owner: Owner) -> orjson.Fragment:
        holdings = self.state.table.holdings_of(owner)
        return orjson.Fragment(holdings.row if holdings else ascii_json([owner.to_wire(), []]))

    def _wake(self, owner: Owner) -> None:
        if owner in self._sleepers and self.state.pending_of(owner) is None:
            self._sleepers.pop(owner).set()


def _with_effect(answers: Sequence[object]) -> list[_Made]:
    changes = (each for answer in answers if isinstance(answer, tuple) for each in answer)
    return [each for each in changes if isinstance(each, _Made) and each.has_effect]


def _hang_up(owner: Owner) -> None:
    """Send SIGHUP to the pid of an owner of Ganeti's kind; a dead owner's pid may belong to another process now."""
    # 0 and negative numbers would mean whole groups of processes
    if owner.pid is None or owner.pid <= 1 or owner.pid == os.getpid() or not is_alive(owner.livelock):
        return
    try:
        os.kill(owner.pid, signal.SIGHUP)
    except (OSError, OverflowError) as error:
        _log.debug("owner.not_signalled", owner=owner, pid=owner.pid, reason=error)
