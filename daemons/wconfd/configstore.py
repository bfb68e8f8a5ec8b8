"""The configuration in memory and on disk: one writer, and everybody else reads.

Theory. A change is a *step*, a pure function from the configuration to the next. Steps queue up;
the writer takes all that are waiting, applies one after the other to what is durable, writes
the result once, makes it visible, and answers them. So concurrent changes share a write, a step
that is refused concerns nobody else, and a write that fails has changed nothing: memory never
knows more than the disk. A crowd waits for at most two writes.

Rejected: applying at once and writing later. After a failed write the changes that were built
upon it would have to be taken back as well.

Source: STYLE 2.2; wconfd.md 6.3, 7.4, 7.5; DESIGN section 8.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, Final, Self, TypeVar

import attrs
import trio

from common.errors import Conflict, Unavailable
from common.log import get_log
from common.objects.config import Config
from common.objects.kinds import GroupUuid
from common.paths import Paths
from daemons.wconfd.configfile import ConfigFile, ForeignChange
from daemons.wconfd.core.configstate import ConfigState, is_urgent, nodes_of_group
from daemons.wconfd.distribution import Distribution, LocalDistribution

T = TypeVar("T")
# configuration and time (seconds since the epoch) -> the configuration after, and the answer
Step = Callable[[Config, float], tuple[Config, T]]

_log: Final = get_log(__name__)
_RETRY_S: Final = 5.0


@attrs.define(eq=False)
class _Ticket:
    step: Step[Any]
    # write the file even if nothing has changed
    is_flush: bool = False
    done: trio.Event = attrs.Factory(trio.Event)
    answer: Any = None
    error: Exception | None = None
    # the nodes must be told before the caller is
    is_urgent: bool = False


@attrs.frozen
class ConfigStatistics:
    # changes that were answered, writes of the file they took, and writes that failed
    changes: int
    writes: int
    failures: int


class ConfigStore:
    """The one place that holds the configuration. Make one by `load`; start `run` before any change."""

    def __init__(self, file: ConfigFile, config: Config, distribution: Distribution) -> None:
        self._file = file
        self._state = ConfigState.of(config)
        self._distribution = distribution
        self._waiting: list[_Ticket] = []
        self._in_flight = 0
        self._wake = trio.Event()
        self._changed = trio.Event()
        self._is_closed = False
        self._limiter = trio.CapacityLimiter(1)
        self._changes = self._writes = self._failures = 0

    @classmethod
    def load(cls, paths: Paths, distribution: Distribution | None = None) -> Self:
        """Read the configuration; before trio runs.

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
    def config(self) -> Config:
        return self._state.config

    def statistics(self) -> ConfigStatistics:
        return ConfigStatistics(self._changes, self._writes, self._failures)

    async def change(self, step: Step[T]) -> T:
        """Change the configuration by a step, and return the step's answer.

        The step is run once, in a worker thread, and must be pure; it raises serial number and
        time itself (`configstate.advanced`). What it raises is raised here, and nothing changes.

        Raises:
            Unavailable: the file could not be written; nothing has changed.
            Conflict: the file was changed by another program; nothing has changed.
        Durability: on return the change survives a loss of power.
        Cancellation: the wait can be cancelled; the change is made all the same.
        """
        ticket = await self._submit(_Ticket(step))
        if ticket.is_urgent:
            await self._try_spread()
        answer: T = ticket.answer
        return answer

    async def settled(self) -> ConfigState:
        """The state after all changes begun before this call."""
        if self._waiting or self._in_flight:
            await self._submit(_Ticket(_nothing))
        return self._state

    async def flush(self, group: GroupUuid | None = None) -> None:
        """Write the file and tell the nodes, of one group or all, whether anything has changed or not.

        Nodes that cannot be told are logged, and are no error.

        Raises:
            Unavailable, Conflict: as `change`; or the files of this node could not be written.
        """
        await self._submit(_Ticket(_nothing, is_flush=True))
        try:
            await self._spread(group)
        except OSError as error:
            raise Unavailable(f"the ssconf files could not be written: {error}; repeat the call") from error

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Be the writer, and tell the nodes; for `nursery.start`.

        Cancellation: changes begun by then are still written, shielded; later ones are refused.
        """
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._spread_changes)
                task_status.started()
                while True:
                    await self._wake.wait()
                    await self._write_waiting()
        finally:
            self._is_closed = True
            with trio.CancelScope(shield=True):
                await self._write_waiting()

    async def _submit(self, ticket: _Ticket) -> _Ticket:
        if self._is_closed:
            raise Unavailable("nothing more is written: the daemon is shutting down")
        self._waiting.append(ticket)
        self._wake.set()
        await ticket.done.wait()
        if ticket.error is not None:
            raise ticket.error
        return ticket

    async def _write_waiting(self) -> None:
        tickets, self._waiting, self._wake = self._waiting, [], trio.Event()
        if not tickets:
            return
        self._in_flight = len(tickets)
        # a thread that writes is never abandoned
        with trio.CancelScope(shield=True):
            after = await trio.to_thread.run_sync(self._carry_out, tickets, limiter=self._limiter)
        self._in_flight = 0
        if after is not self._state:
            self._state = after
            self._changed.set()
        self._changes += len(tickets)
        for ticket in tickets:
            ticket.done.set()

    def _carry_out(self, tickets: Sequence[_Ticket]) -> ConfigState:
        """In the worker thread: the state after these steps, durable; the same one if nothing has changed."""
        before = self._state
        config, now = before.config, time.time()
        for ticket in tickets:
            try:
                config, ticket.answer = ticket.step(config, now)
            except Exception as error:
                # also a bug's: it is the caller's to report, and the writer lives on
                ticket.error = error
        after = before if config is before.config else ConfigState.of(config, before)
        if after is before and not any(ticket.is_flush for ticket in tickets):
            return before
        try:
            self._write(after)
        except (Unavailable, Conflict) as error:
            _refuse(tickets, error)
            return before
        urgent = is_urgent(before.config, after.config)
        for ticket in tickets:
            ticket.is_urgent = urgent
        return after

    def _write(self, state: ConfigState) -> None:
        try:
            self._writes += 1
            self._file.write(state.encoded.content)
        except ForeignChange as error:
            self._failures += 1
            _log.error("config.foreign", path=self._file.path, error=error)
            raise Conflict(str(error), path=str(self._file.path)) from error
        except OSError as error:
            self._failures += 1
            _log.error("config.unwritten", path=self._file.path, error=error)
            text = f"the configuration could not be written: {error}; nothing was changed, repeat the call"
            raise Unavailable(text, path=str(self._file.path)) from error

    async def _spread_changes(self) -> None:
        """Tell the nodes of every change, the first time of the state at the start."""
        while True:
            self._changed = trio.Event()
            if await self._try_spread():
                await self._changed.wait()
            else:
                await trio.sleep(_RETRY_S)

    async def _try_spread(self) -> bool:
        try:
            await self._spread(None)
        except OSError as error:
            _log.warning("ssconf.unwritten", error=error, retry_s=_RETRY_S)
            return False
        return True

    async def _spread(self, group: GroupUuid | None) -> None:
        state = self._state
        only = None if group is None else nodes_of_group(state.config, group)
        if left_out := await self._distribution.spread(state, only):
            _log.warning("config.undistributed", nodes=len(left_out), serial=state.config.serial_no)


def _nothing(config: Config, _: float) -> tuple[Config, None]:
    return config, None


def _refuse(tickets: Sequence[_Ticket], error: Exception) -> None:
    for ticket in tickets:
        if ticket.error is None:
            ticket.error = error
