"""The locks in memory and on disk, some of which are kept beyond their owners' deaths for a command that may still run.

A change is told only when it is durable: first as news (`locknews`), then to the caller that made it. One that only
gives back is told as soon as it outlives this daemon. The loss of power that undoes it ends its owner, too, and what a
dead owner holds is free. Two things need more: a grant that comes of it, and locks that outlive their owners.

Source: daemons design, "Locking"; wconfd.md 5.4, 6.1, 6.3; DESIGN sections 8 and 14.
"""

import os
import signal
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Self

import attrs
import orjson
import trio

from common.errors import Unavailable
from common.jsontext import ascii_json
from common.locks import Lock, LockLevel, LockMode, LockRequest, Owner
from common.system.livelock import is_alive
from common.system.log import get_log
from common.wire import unstructure
from daemons.wconfd.core.locks import orphanedlocks
from daemons.wconfd.core.locks.mayrun import NOTHING_RUNS
from daemons.wconfd.core.locks.orphanedlocks import Made, OwnersChange, orphans_of
from daemons.wconfd.core.locks.waiting import LockChange, LockState, free_level, try_update
from daemons.wconfd.locks.lockfiles import LockFiles, MayRunFile
from daemons.wconfd.steps import StepCounts, StepWriter
from protocol.serving.route import Publisher
from protocol.wconfd.locks import LOCKS_CHANGED, ORPHANS_CHANGED, OrphanedLocks

# The owners that have ever requested anything, by livelock: the index by which a death finds its owners.
#
# It contains at least every owner in any table, and forgets one at its death. An owner is entered before
# its request gets its place in the queue of changes. So when a death is noticed, either the owner is
# known, and the change that frees it comes after its request; or it is entered later, as a newcomer, and the
# check of newcomers finds it dead. Without that check a request still unread when its
# sender died would leave locks behind that no event reports any more.
#
# Source: DESIGN section 5.


class KnownOwners:
    """Owners by the path of their livelock, as they gave it."""

    def __init__(self, owners: Iterable[Owner] = ()) -> None:
        self._owners: dict[str, set[Owner]] = {}
        # file name -> paths: one folder may have two paths (/var/run, /run)
        self._paths: dict[str, set[str]] = {}
        self._newcomers: list[str] = []
        self._has_newcomers = trio.Event()
        for owner in owners:
            self._add(owner)

    def meet(self, owner: Owner) -> None:
        """Enter this owner. Cost: O(1)."""
        known = self._owners.get(owner.livelock)
        if known is None:
            self._newcomers.append(owner.livelock)
            self._has_newcomers.set()
        if known is None or owner not in known:
            self._add(owner)

    def restore(self, owners: Iterable[Owner]) -> None:
        """Enter owners again that could not be freed; they are not newcomers."""
        for owner in owners:
            self._add(owner)

    def paths(self) -> tuple[str, ...]:
        return tuple(self._owners)

    def paths_named(self, names: Iterable[str]) -> list[str]:
        """The paths of known livelocks that end in one of these file names. Cost: O(names)."""
        return [path for name in set(names) for path in self._paths.get(name, ())]

    def forget(self, path: str) -> frozenset[Owner]:
        """Remove and return the owners of a livelock; an owner that comes again is a newcomer."""
        name = os.path.basename(path)
        paths = self._paths.get(name, set())
        paths.discard(path)
        if not paths:
            self._paths.pop(name, None)
        return frozenset(self._owners.pop(path, ()))

    def keep(self, owners: frozenset[Owner]) -> None:
        """Forget all other owners. Cost: O(known owners)."""
        for path, known in tuple(self._owners.items()):
            known &= owners
            if not known:
                self.forget(path)

    async def newcomers(self) -> list[str]:
        """Wait for livelocks that were not known before; each is returned once. For one task."""
        await self._has_newcomers.wait()
        found, self._newcomers, self._has_newcomers = self._newcomers, [], trio.Event()
        return found

    def _add(self, owner: Owner) -> None:
        self._owners.setdefault(owner.livelock, set()).add(owner)
        self._paths.setdefault(os.path.basename(owner.livelock), set()).add(owner.livelock)


# Since when locks are held and requests wait: kept in memory, for explanations of waits.


class Since:
    """Instants in seconds since the epoch; None for holds and waits older than this object."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self.started = clock()
        # no empty rows
        self._held: dict[Owner, dict[Lock, float]] = {}
        self._waiting: dict[Owner, float] = {}

    def held(self, owner: Owner, lock: Lock) -> float | None:
        return self._held.get(owner, {}).get(lock)

    def waiting(self, owner: Owner) -> float | None:
        return self._waiting.get(owner)

    def longest_wait_s(self) -> float:
        """Seconds for which the oldest pending request has waited; 0.0: there is none. Cost: linear in those."""
        return max(0.0, self._clock() - min(self._waiting.values())) if self._waiting else 0.0

    def note(self, owner: Owner, change: LockChange, state: LockState) -> None:
        """Record an owner's change, which is durable in `state`. Cost: O(locks changed)."""
        now = self._clock()
        for move in change.moves:
            row = self._held.setdefault(move.owner, {})
            for lock, mode in move.modes.items():
                if mode is None:
                    row.pop(lock, None)
                elif state.table.mode_of(move.owner, lock):
                    row.setdefault(lock, now)
            if not row:
                del self._held[move.owner]
        for each in (owner, *change.granted):
            if state.pending_of(each) is None:
                self._waiting.pop(each, None)
        if change.is_queued:
            self._waiting.setdefault(owner, now)


# The news of durable changes of the locks: to callers that sleep, to subscribers, and by SIGHUP.
#
# A grant is told first to the sleepers of `wait_granted`, then by SIGHUP to owners of Ganeti's kind: they go on at
# once.
# Subscribers only watch, so they are told of all owners that have changed within NEWS_S together, by their newest rows;
# but before any other event, so that the order of events is that of the changes.
#
# Source: daemons design, "Locking"; wconfd.md 5.4; DESIGN section 8.


# seconds for which changed owners are gathered for subscribers
NEWS_S: Final = 0.02

_log: Final = get_log(__name__)


class LockNews:
    """Tells what has changed.

    Args:
        state: returns the durable state.
        ghost_s: seconds that an orphan is given; 0: no end.
    """

    def __init__(self, state: Callable[[], LockState], ghost_s: float = 0.0) -> None:
        self._state = state
        self.ghost_s = ghost_s
        self.since = Since()
        # sends `locksChanged` and `ghostsChanged`, and all other events for subscribers
        self.publisher = Publisher(self._publish)
        # owners that have changed since subscribers were told, in order
        self._changed: dict[Owner, None] = {}
        self._has_changed = trio.Event()
        # owners that sleep until their pending request is gone
        self._sleepers: dict[Owner, trio.Event] = {}
        self._told_may_run = NOTHING_RUNS
        self._told_orphans: tuple[OrphanedLocks, ...] = ()
        self._orphans_have_changed = trio.Event()

    def orphans(self) -> tuple[OrphanedLocks, ...]:
        """All orphans, in owner order."""
        return orphans_of(self._state(), self.ghost_s)

    async def orphans_changed(self) -> None:
        """Wait for the next change of the orphans."""
        await self._orphans_have_changed.wait()

    async def wait_granted(self, owner: Owner, timeout_s: float) -> bool:
        """Sleep until the owner has no pending request; return False if it still has one when the time is over."""
        with trio.move_on_after(timeout_s):
            while self._state().pending_of(owner):
                await self._sleepers.setdefault(owner, trio.Event()).wait()
        return self._state().pending_of(owner) is None

    async def run(self) -> None:
        """Tell subscribers of changes, until cancelled."""
        while True:
            await self._has_changed.wait()
            await trio.sleep(NEWS_S)
            self._has_changed = trio.Event()
            self._publish()

    def tell(self, made: Sequence[Made]) -> None:
        """Tell what was done: who was granted a lock, and whose pending request is given up or dropped."""
        state = self._state()
        changed = [owner for each in made for owner in (each.owner, *each.change.granted)]
        for each in made:
            self.since.note(each.owner, each.change, state)
        for owner in changed:
            self._wake(owner)
        if self.publisher:
            self._changed.update(dict.fromkeys(changed))
            self._has_changed.set()
        for each in made:
            for owner in each.change.granted:
                _log.debug("lock.granted", owner=owner)
                _hang_up(owner)
        if state.may_run is not self._told_may_run:
            self._tell_orphans(state)

    def _tell_orphans(self, state: LockState) -> None:
        self._told_may_run = state.may_run
        orphans = self.orphans()
        if orphans == self._told_orphans:
            return
        self._told_orphans = orphans
        self.publisher.publish(ORPHANS_CHANGED, unstructure(orphans))
        self._orphans_have_changed.set()
        self._orphans_have_changed = trio.Event()

    def _publish(self) -> None:
        if self._changed:
            changed, self._changed = self._changed, {}
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


# small file (up to SMALL_BYTES): rewrite it SOON_S after a change, as that costs five durable operations; larger: after
# QUIET_S without changes, plus a second for each QUIET_BYTES of it. At most 1/PART of the time is spent
SMALL_BYTES: Final = 2**18
SOON_S: Final = 2.0
PART: Final = 20
QUIET_S: Final = 0.2
QUIET_BYTES: Final = 10 * 2**20
# seconds after a failed rewrite
PAUSE_S: Final = 5.0

MAY_RUN_DATA: Final = "ghosts.data"


# a change of the locks by a function of the core: of one owner, or of several
LockStep = Callable[[LockState], LockChange]
LockSteps = Callable[[LockState], OwnersChange]


class LockStore:
    """The only holder of the lock state. Make one with `load`; start `run` before the first change."""

    def __init__(
        self, path: Path, state: LockState, files: LockFiles, may_run_file: MayRunFile, *, ghost_s: float = 0.0
    ) -> None:
        self._path = path
        self._files = files
        self._may_run_file = may_run_file
        self._writer = StepWriter(state, self._write, self._tell, self._append)
        self.known = KnownOwners(state.owners())
        self.news = LockNews(lambda: self.state, ghost_s)
        self.since = self.news.since
        self.publisher = self.news.publisher
        self.wait_granted = self.news.wait_granted
        self._is_degraded = False
        # instants on trio's clock of the last change, and of the first since `locks.data` was made whole
        self._changed_at = self._first_changed_at = 0.0
        # set if `_keep_whole` has not seen the last change
        self._has_changed = trio.Event()

    @classmethod
    def load(
        cls,
        path: Path,
        *,
        max_bypass: int | None = None,
        has_journal: bool = True,
        ghost_s: float = 0.0,
        livelocks: Path | None = None,
    ) -> Self:
        """Read the locks, and the commands from `ghosts.data` beside them, before trio runs.

        Args:
            max_bypass: see `core.locks.fairness`; None: exactly as in Ganeti.
            has_journal: False: `locks.data` is made whole at each change.
            ghost_s: seconds that an orphan is given; 0: no end.
            livelocks: as of `LockFiles.load`.

        Raises: as `LockFiles.load` and `MayRunFile.load`.
        """
        may_run_file = MayRunFile.load(path.with_name(MAY_RUN_DATA))
        may_run = may_run_file.may_run
        files, state = LockFiles.load(
            path, max_bypass=max_bypass, has_journal=has_journal, may_run=may_run, livelocks=livelocks
        )
        return cls(path, state, files, may_run_file, ghost_s=ghost_s)

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
                nursery.start_soon(self.news.run)
                task_status.started()
        finally:
            self._finish()

    @property
    def state(self) -> LockState:
        """The durable state."""
        return self._writer.state

    @property
    def counts(self) -> StepCounts:
        return self._writer.counts

    async def change(self, owner: Owner, step: LockStep, *, gives_back: bool = False) -> LockChange:
        """Change the locks of an owner by a function of the core.

        Args: gives_back: whether the step at most releases locks of the owner, and drops its request.
        Raises: Unavailable: the change could not be made durable; nothing has changed.
            LockRuleViolation: as the core's function.
        Durability: on return the change survives a loss of power; but one that only gives back may lag.
        """

        def alone(state: LockState) -> OwnersChange:
            change = step(state)
            return OwnersChange(change.state, (Made(owner, change),))

        self.known.meet(owner)
        # where a request waits it may come to a grant
        may_lag = gives_back and not self.state.waiting_count
        return (await self.carry_out(alone, owner, may_lag=may_lag)).made[0].change

    async def carry_out(self, step: LockSteps, caller: Owner | None = None, *, may_lag: bool = False) -> OwnersChange:
        """Change the locks of several owners by a function of the core. Raises, Durability: as `change`."""

        def stepped(state: LockState) -> tuple[LockState, OwnersChange]:
            outcome = step(state)
            return outcome.state, outcome if outcome.state is not state else attrs.evolve(outcome, has_effect=False)

        return await self._writer.change(stepped, caller, may_lag=may_lag)

    async def release_dead(self, owners: Collection[Owner]) -> tuple[Owner, ...]:
        """Free the locks and requests of dead owners, in one change; return the owners that had any.

        Those whose commands may still run become orphans, and keep them. Its place among the changes is fixed before
        the first checkpoint.

        Raises, Durability: as `change`.
        """
        if self._writer.is_idle and not any(map(self.state.knows, owners)):
            return ()
        now = time.time()
        return tuple(
            made.owner
            for made in (await self.carry_out(lambda state: orphanedlocks.release_dead(state, owners, now))).made
        )

    async def settled(self) -> None:
        """Wait until all changes begun before this call are durable. Raises: as `change`, if there are any."""
        await self._writer.settled()

    def forget_idle(self, others: frozenset[Owner] = frozenset()) -> None:
        """Keep only these owners and those that hold or wait, unless a change is under way."""
        if self._writer.is_idle:
            self.known.keep(self.state.owners() | others)

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

    def _append(self, state: LockState, answers: Sequence[object], may_lag: bool) -> bool:
        """Write a line of the journal, in the event loop; return False if more is to be written, or it failed."""
        if self._is_degraded or not self._may_run_file.is_exactly(NOTHING_RUNS) or state.may_run:
            return False
        made = [(each.owner, each.change) for each in _made(answers)]
        if may_lag and not all(change.only_gives_back for _, change in made):
            return False
        return state.has_locks_of(self.state) or self._files.append(self.state, state, made, may_lag=may_lag)

    def _write(self, state: LockState, answers: Sequence[object]) -> None:
        """Write in the writer's thread."""
        made = [(each.owner, each.change) for each in _made(answers)]
        try:
            self._may_run_file.prepare(self.state, state)
            if not made:
                self._files.make_whole(state)
                self._may_run_file.tidy(state.may_run)
            elif self._files.lags or not state.has_locks_of(self.state):
                # also when commands are noted: what their owner has given back must not outlive it with the rest
                self._files.write(self.state, state, made)
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
        if not self._files.is_whole or not self._may_run_file.is_exactly(self.state.may_run):
            try:
                await self._writer.flush()
            except Unavailable as error:
                _log.warning("locks.not_whole", path=self._path, reason=error, retry_s=PAUSE_S)
                return False
        return True

    def _finish(self) -> None:
        try:
            self._files.finish(self.state)
            self._may_run_file.tidy(self.state.may_run)
        except OSError as error:
            _log.warning("locks.not_whole", path=self._path, reason=error, effect="the journal beside it counts")

    def _tell(self, answers: Sequence[object]) -> None:
        self._changed_at = trio.current_time()
        if not self._has_changed.is_set():
            self._first_changed_at = self._changed_at
            self._has_changed.set()
        self.news.tell(_made(answers))


def _made(answers: Sequence[object]) -> list[Made]:
    """All that was done to owners by the steps that changed anything."""
    return [
        made for answer in answers if isinstance(answer, OwnersChange) and answer.has_effect for made in answer.made
    ]
