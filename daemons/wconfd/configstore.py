"""The configuration in memory and on disk: one writer, many readers.

The writer is `steps.StepWriter`: memory never knows more than the disk, and waiting changes share
a write. Specific to the configuration: its bytes are kept beside it, and the nodes learn of a change, before it
counts and afterwards. If this node is no longer the master nothing counts any more, and `run` ends
wconfd.

Source: wconfd.md 6.3, 7.4, 7.5; DESIGN section 8.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, Self, TypeVar

import attrs
import trio

from common.errors import Conflict, Unavailable
from common.objects.config import Config
from common.objects.kinds import GroupUuid, NodeUuid
from common.paths import Paths
from common.replica.replica import NoLongerMaster
from common.system.log import get_log
from common.system.mastership import OwnMastershipState
from common.system.watch import EventKind, FolderWatch
from daemons.wconfd.configfile import ConfigFile, ForeignChange
from daemons.wconfd.core.config.configstate import (
    ConfigState,
    Deliveries,
    Delivery,
    Stamp,
    is_urgent,
    nodes_of_group,
    reloaded,
)
from daemons.wconfd.distribution import ConfigChange, ConfigDistribution, LocalDistribution
from daemons.wconfd.steps import StepCounts, StepWriter
from protocol.wconfd.config import NodeBehind
from protocol.wconfd.daemon import ConfigVerdict

# Keeps the nodes up to date with the configuration: each change, in the background, and all of it on request.
#
# Source: wconfd.md 7.5; DESIGN section 12.


_RETRY_S: Final = 5.0
# names of nodes in a line of the log
_MOST_NAMES: Final = 10
_log: Final = get_log(__name__)


class Spreading:
    """Spreads the visible state; start `run`.

    Args:
        state: returns the visible state.
        mastership: is lost when a node says that it has another master.
    """

    def __init__(
        self, distribution: ConfigDistribution, state: Callable[[], ConfigState], mastership: OwnMastershipState
    ) -> None:
        self._distribution = distribution
        self._state = state
        self._mastership = mastership
        self._changed = trio.Event()
        # nodes that were not reached last
        self._left_out: frozenset[NodeUuid] = frozenset()

    def tell(self) -> None:
        """The visible state has changed."""
        self._changed.set()

    async def run(self) -> None:
        """Send every change to the nodes; first the state at the start."""
        while True:
            self._changed = trio.Event()
            if await self.attempt():
                await self._changed.wait()
            else:
                await trio.sleep(_RETRY_S)

    async def attempt(self, *, anew: bool = False) -> bool:
        """Spread to all nodes; return whether this node's own files could be written. Raises: NoLongerMaster."""
        try:
            await self.spread(None, anew=anew)
        except OSError as error:
            _log.warning("ssconf.unwritten", error=error, retry_s=_RETRY_S)
            return False
        return True

    async def spread(self, group: GroupUuid | None, *, anew: bool) -> tuple[str, ...]:
        """Spread to the nodes of a group, or to all; return the names of the nodes that were not reached.

        Raises: OSError: the files of this node could not be written. NoLongerMaster.
        """
        state = self._state()
        only = None if group is None else nodes_of_group(state.config, group)
        try:
            left_out = await self._distribution.spread(state, only, anew=anew)
        except NoLongerMaster as error:
            raise self._mastership.lose(error) from error
        names = tuple(sorted(node.name for uuid, node in state.config.nodes.items() if uuid in left_out))
        # in the background, a node that stays silent is not told of with every change
        if left_out and (anew or left_out != self._left_out):
            serial = state.config.serial_no
            _log.warning(
                "config.undistributed", nodes=len(left_out), names=",".join(names[:_MOST_NAMES]), serial=serial
            )
        if only is None:
            self._left_out = left_out
        return names


T = TypeVar("T")
# (configuration, seconds since the epoch) -> (new configuration, result)
Step = Callable[[Config, float], tuple[Config, T]]
# the same with the result of the first delivery of the same call; None: this is the first
UpdateStep = Callable[[Config, float, Stamp | None], tuple[Config, Stamp]]


_RELOAD_TRIES: Final = 10
_TOUCHED: Final = EventKind.CLOSE_WRITE | EventKind.MOVED_TO | EventKind.MOVED_FROM | EventKind.DELETE


@attrs.frozen
class _Kept:
    config: Config
    deliveries: Deliveries

    def with_config(self, config: Config) -> "_Kept":
        return self if config is self.config else attrs.evolve(self, config=config)


# The configuration, here and in the cluster.
#
# Theory. A change is committed in the cluster, then written here, then passed to the other nodes; the way of
# distribution decides what each of it means (`distribution`). What was committed and cannot be written here is taken
# back in the cluster before the caller gets the error, so both always have the same.
#
# Source: DESIGN section 14.


class ConfigStore:
    """The only holder of the configuration. Make one with `load`; start `run` before the first change."""

    def __init__(self, file: ConfigFile, config: Config, distribution: ConfigDistribution) -> None:
        self._file = file
        # `_publish` makes the durable state visible
        self._state = ConfigState.found(config, file.content)
        deliveries = Deliveries.decode(file.note)
        self._writer = StepWriter(_Kept(config, deliveries), self._write, self._publish)
        # in the file, and the note beside it as it would be written; of the writer's thread
        self._written = self._state
        self._note = deliveries.encode()
        self._distribution = distribution
        self._told: Callable[[Config, Config], None] = _ignore
        self._mastership = OwnMastershipState("wconfd")
        self._spreading = Spreading(distribution, lambda: self._state, self._mastership)
        # last result of `foreign_change`
        self._foreign: str | None = None

    @classmethod
    def load(cls, paths: Paths, distribution: ConfigDistribution | None = None) -> Self:
        """Read the configuration, before trio runs.

        Raises:
            NotFound: there is none.
            DamagedFile: it is damaged or inconsistent; the message has path, place, reason and what to do.
            OSError: it cannot be read.
        """
        file = ConfigFile(paths.config_data)
        return cls(file, file.read(), distribution or LocalDistribution(paths))

    @property
    def state(self) -> ConfigState:
        """The durable configuration and its bytes."""
        return self._state

    @property
    def path(self) -> Path:
        return self._file.path

    @property
    def config(self) -> Config:
        return self._state.config

    @property
    def counts(self) -> StepCounts:
        return self._writer.counts

    async def change(self, step: Step[T], *, waits_for_nodes: bool = True) -> T:
        """Change the configuration by a step, and return the step's result.

        The step is run once, in a worker thread, and must be pure; it raises serial number and
        time itself (`configstate.advanced`). Its exceptions are raised here, and then nothing changes.

        Args: waits_for_nodes: whether it returns after the nodes were told, if the change is urgent.
        Raises:
            Unavailable: the file could not be written; nothing has changed.
            NoLongerMaster: another node has taken over; for callers of this node nothing has changed.
            Conflict: another program has changed the file; nothing has changed.
        Durability: on return the change survives a loss of power.
        Cancellation: the wait can be cancelled; the change is still made.
        """

        def kept(before: _Kept) -> tuple[_Kept, T]:
            after, answer = step(before.config, time.time())
            return before.with_config(after), answer

        return await self._change(kept, waits_for_nodes=waits_for_nodes)

    async def update(self, delivery: Delivery, step: UpdateStep) -> Stamp:
        """As `change`, for a call whose second delivery is recognized, even by the next daemon."""

        def kept(before: _Kept) -> tuple[_Kept, Stamp]:
            after, stamp = step(before.config, time.time(), before.deliveries.stamp_of(delivery))
            if after is before.config:
                return before, stamp
            return _Kept(after, before.deliveries.with_one(delivery, stamp)), stamp

        return await self._change(kept, waits_for_nodes=True)

    async def _change(self, step: Callable[[_Kept], tuple[_Kept, T]], *, waits_for_nodes: bool) -> T:
        def weighed(before: _Kept) -> tuple[_Kept, tuple[T, bool]]:
            after, answer = step(before)
            return after, (answer, after is not before and is_urgent(before.config, after.config))

        answer, must_be_told = await self._writer.change(weighed)
        if must_be_told and waits_for_nodes:
            await self._spreading.attempt(anew=True)
        return answer

    async def settled(self) -> ConfigState:
        """The state after all changes begun before this call."""
        await self._writer.settled()
        return self._state

    async def flush(self, group: GroupUuid | None = None) -> tuple[str, ...]:
        """Write the file and send it to the nodes, of one group or all, even if nothing has changed.

        Returns: the names of the nodes that were not reached, which is logged too, and is not an error.

        Raises:
            Unavailable, Conflict: as `change`; or the files of this node could not be written.
        """
        await self._writer.flush()
        try:
            return await self._spreading.spread(group, anew=True)
        except OSError as error:
            reason = error.strerror or error
            raise Unavailable(f"the ssconf files could not be written: {reason}; repeat the call") from error

    def nodes_behind(self) -> tuple[NodeBehind, ...]:
        """The online nodes that lack the latest configuration, as far as known."""
        return self._distribution.behind()

    async def check_copies(self, *, asks: bool) -> tuple[ConfigVerdict, ...]:
        """Whether the other nodes have this configuration. Args: asks: now; false: as far as was found before."""
        return await self._distribution.check(asks=asks)

    async def foreign_change(self) -> str | None:
        """What another program has done to the file, and what to do; None: it is unchanged since our last write.

        Raises: Unavailable: the daemon is shutting down.
        """
        # as a step, so that none of our own writes is under way
        found = await self._writer.change(lambda kept: (kept, self._file.foreign_change()))
        if found != self._foreign:
            if found is None:
                _log.info("config.no_longer_foreign", path=self._file.path)
            else:
                _log.error("config.foreign", path=self._file.path, error=found)
            self._foreign = found
        return found

    async def reload(self) -> None:
        """Take over a file that another program has written.

        Raises:
            DamagedFile, NotFound: it is missing, not a configuration, or inconsistent; the message has all problems.
            Unavailable: it cannot be read, or not be written again.
            Conflict: the file, or the configuration, keeps changing.
        Durability: on return the content survives a loss of power.
        """
        for _ in range(_RELOAD_TRIES):
            with contextlib.suppress(Conflict):
                if await self._writer.change(self._reload_step):
                    break
        else:
            raise Conflict(f"'{self._file.path}' or the configuration is being changed; repeat the call")
        await self.foreign_change()

    def _reload_step(self, kept: _Kept) -> tuple[_Kept, bool]:
        if kept.config is not self._written.config:
            # a reload now would lose acknowledged changes of this turn
            return kept, False
        try:
            after = reloaded(kept.config, self._file.read(), time.time())
            # with another configuration, remembered deliveries may be undone
            return kept if after is kept.config else _Kept(after, Deliveries()), True
        except OSError as error:
            raise Unavailable(f"'{self._file.path}' cannot be read: {error}") from error

    async def follow_file(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Notice at once what other programs do to the file, and log it; for `nursery.start`, until cancelled."""
        async with FolderWatch(self._file.path.parent, kinds=_TOUCHED) as watch:
            await self.foreign_change()
            task_status.started()
            while True:
                events = await watch.events()
                if any(event.name == self._file.path.name or event.needs_rescan for event in events):
                    await self.foreign_change()

    async def run(
        self,
        told: Callable[[Config, Config], None] | None = None,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Run the writer, and keep the nodes up to date; for `nursery.start`.

        Args:
            told: called with the configuration before and after, when a change has become visible.
        Raises: NoLongerMaster: another node has taken over; with a message for the operator.
        Cancellation: changes begun before it are still written, shielded; later ones are refused.
        """
        self._told = told or _ignore
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._spreading.run)
            await nursery.start(self._writer.run)
            task_status.started()
            await self._mastership.until_lost()

    def _write(self, kept: _Kept, _: object) -> None:
        """Write in the writer's thread, even if it is the configuration that it was.

        Raises:
            Unavailable: it could not be committed or written; nothing has changed.
            Conflict: another program has changed the file; nothing has changed.
            NoLongerMaster: nothing may be written any more.
        """
        self._mastership.check()
        before, note = self._written, kept.deliveries.encode()
        if kept.config is before.config:
            self._write_file(before, note)
            self._note = note
            return
        after = ConfigState.of(kept.config, before)
        change = ConfigChange(before=before, after=after, note_before=self._note, note=note)
        with self._told_to_callers():
            self._file.check_ours()
        try:
            self._distribution.carry_out(change, lambda: self._write_file(after, note))
        except NoLongerMaster as error:
            raise self._mastership.lose(error) from error
        self._written, self._note = after, note

    def _write_file(self, state: ConfigState, note: bytes) -> None:
        with self._told_to_callers():
            self._file.write(state.content, note)

    @contextlib.contextmanager
    def _told_to_callers(self) -> Iterator[None]:
        """Turn what the file refuses into errors for callers."""
        try:
            yield
        except ForeignChange as error:
            _log.error("config.foreign", path=self._file.path, error=error)
            raise Conflict(str(error), path=str(self._file.path)) from error
        except OSError as error:
            _log.error("config.unwritten", path=self._file.path, error=error)
            reason = error.strerror or error
            text = f"the configuration could not be written: {reason}; nothing was changed, repeat the call"
            raise Unavailable(text, path=str(self._file.path)) from error

    def _publish(self, _: Sequence[object]) -> None:
        before, self._state = self._state.config, self._written
        self._spreading.tell()
        self._told(before, self._state.config)


def _ignore(_: Config, __: Config) -> None:
    pass
