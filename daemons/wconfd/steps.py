"""One writer for a state: steps queue up, share a write, and return when it is durable.

Theory. A change is a *step*, a pure function from the state to the next state and a result. The
writer takes all waiting steps, applies one after the other to the durable state, writes
the final state once, makes it visible, and returns the results. So concurrent changes share a write, a refused
step concerns no other one, and a failed write has changed nothing: memory never knows
more than the disk. A crowd waits for at most two writes.

Applying and writing happen in the writer's own thread. They begin where a step is queued or the
previous write ends, with no task in between: each turn of the event loop would cost a tenth of the
disk's time, and so would a thread from a pool.

Steps that recently came at the same time will do so again, because callers that got their results together go on
together: one frees a lock, and another one, which has just got its own, does so as well. In that case a step waits for
two turns of the loop, in which the other comes; that costs less than a second write.

A lone caller never waits. Where a state has a *quick* write, one short append, his step is applied and written in the
event loop itself, since waking a thread costs as much as such a write. Only while nobody else has come for ALONE_S, so
that a crowd shares its writes as before; and only while writes take less than QUICK_S on a moving mean: a disk that
stalls holds the loop up once, and then has the thread again. A step whose quick write does not wait for the disk is
carried out so as soon as the thread is idle.

Rejected: applying at once and writing later. After a failed write the changes that were built
upon it would have to be undone as well.

Source: wconfd.md 6.3; DESIGN section 8.
"""

import time
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from threading import Thread
from typing import Final, Generic, TypeVar

import attrs
import trio

from common.errors import Unavailable
from common.metrics import STORE, Histogram, Metrics, counter, write_times
from common.system.shortages import start_thread

# turns of the event loop for which a step waits for others, if there may be any
_TURNS: Final = 2
# number of writes after which the writer counts as uncrowded again
_MEMORY: Final = 4
# seconds after a step of one caller in which a step of another one is not alone
ALONE_S: Final = 0.003
# seconds that a write takes on the mean, up to which it may be made in the event loop
QUICK_S: Final = 0.005
# share of the last write in that mean
_WEIGHT: Final = 0.25

S = TypeVar("S")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Step = Callable[[S], tuple[S, T]]


@attrs.define(eq=False)
class _Ticket(Generic[S, T_co]):
    step: Callable[[S], tuple[S, T_co]]
    # whether to write even if nothing has changed
    is_flush: bool = False
    # whether its quick write does not wait for the disk
    may_lag: bool = False
    done: trio.Event = attrs.Factory(trio.Event)
    # result of the step; absent before it was run, and if it failed
    answer: T_co = attrs.field(init=False)
    error: Exception | None = None


@attrs.define
class StepCounts(Metrics):
    """The steps since the start of a writer."""

    # finished ones
    steps: int = counter("state_changes", "Changes of a state file, of which several may share a write.", STORE)
    writes: int = 0
    # writes that failed
    failures: int = counter("state_write_failures", "Writes of a state file that failed.", STORE)
    times: Histogram = write_times()


class StepWriter(Generic[S]):
    """Holds one durable state; start `run` before the first change.

    Args:
        state: the state on disk.
        write: makes a state durable, given the results of the steps that led to it; called in the
            writer's thread. After any exception of it the old state is still on disk.
        published: called when a state has become visible, before the callers continue,
            with the results of the steps that led to it.
        write_quickly: as `write`, but called in the event loop, with one short write, and whether a loss of power may
            undo it; returns False if the state must be written by `write`, also after an error. None: there is no
            such way.
    """

    def __init__(
        self,
        state: S,
        write: Callable[[S, Sequence[object]], None],
        published: Callable[[Sequence[object]], None] = lambda _: None,
        write_quickly: Callable[[S, Sequence[object], bool], bool] | None = None,
    ) -> None:
        self._state = state
        self._write = write
        self._published = published
        self._write_quickly = write_quickly
        self._waiting: list[_Ticket[S, object]] = []
        self._in_flight: list[_Ticket[S, object]] = []
        # None: there will be no more work
        self._work: SimpleQueue[list[_Ticket[S, object]] | None] = SimpleQueue()
        self._is_closed = False
        # greater than 0: steps came at the same time a few writes ago
        self._company = 0
        # who has left the last step, and when
        self._last_caller: object = None
        self._last_at = 0.0
        # seconds, a moving mean of the writes; the first ones are made by the thread
        self._mean_s = 2 * QUICK_S
        self.counts: Final = StepCounts()

    @property
    def state(self) -> S:
        """The durable state."""
        return self._state

    @property
    def is_idle(self) -> bool:
        """Whether no change is under way."""
        return not self._waiting and not self._in_flight

    async def change(self, step: Step[S, T], caller: object = None, *, may_lag: bool = False) -> T:
        """Change the state by a step, and return the step's result.

        The step is run in the writer's thread or at once, and must be pure. It returns the very same state if
        it changes nothing. Its exceptions are raised here, and then nothing changes. Its place among the
        steps is fixed before the first checkpoint.

        Args:
            caller: whose step this is; steps of different callers are not written singly. None: not known.
            may_lag: whether its quick write does not wait for the disk.
        Raises: the exceptions of `write`: the state could not be made durable, nothing has changed.
            Unavailable: the writer has ended.
        Durability: on return the change survives a loss of power, unless it may lag: then it outlives this process.
        Cancellation: the wait can be cancelled; the change is still made.
        """
        is_alone = self._is_alone(caller)
        return await self._submit(_Ticket(step, may_lag=may_lag), is_alone=is_alone)

    async def flush(self) -> None:
        """Write the state, even if it has not changed, separately from all changes.

        Raises, Durability, Cancellation: as `change`.
        """
        await self._submit(_Ticket(_nothing, is_flush=True))

    async def settled(self) -> S:
        """Return the state after all changes begun before this call. Raises: as `change`, if there are any."""
        if not self.is_idle:
            await self._submit(_Ticket(_nothing))
        return self._state

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the writer; for `nursery.start`.

        Raises: NoThread: the thread cannot be started.
        Cancellation: changes begun before it are still made, shielded; later ones are refused.
        """
        thread = Thread(target=self._work_off, args=(trio.lowlevel.current_trio_token(),), daemon=True)
        start_thread(thread)
        task_status.started()
        try:
            await trio.sleep_forever()
        finally:
            self._is_closed = True
            with trio.CancelScope(shield=True):
                for ticket in (*self._in_flight, *self._waiting):
                    await ticket.done.wait()
            self._work.put(None)
            # the thread has nothing left to do
            thread.join()

    async def _submit(self, ticket: _Ticket[S, T], *, is_alone: bool = False) -> T:
        if self._is_closed:
            raise Unavailable("nothing more is written: the daemon is shutting down")
        is_here = self.is_idle if ticket.may_lag else is_alone and self._mean_s <= QUICK_S
        if not is_here or not self._is_carried_out_here(ticket):
            self._waiting.append(ticket)
            for _ in range(_TURNS if self._company else 0):
                await trio.lowlevel.cancel_shielded_checkpoint()
            self._begin()
            await ticket.done.wait()
        if ticket.error is not None:
            raise ticket.error
        return ticket.answer

    def _is_alone(self, caller: object) -> bool:
        """Note a caller; return whether nobody else has come lately."""
        if self._write_quickly is None:
            return False
        now = time.perf_counter()
        is_same, pause_s = caller is not None and caller == self._last_caller, now - self._last_at
        self._last_caller, self._last_at = caller, now
        return self.is_idle and not self._company and (is_same or pause_s > ALONE_S)

    def _is_carried_out_here(self, ticket: _Ticket[S, T]) -> bool:
        """Carry out a step in the event loop; return False if the thread is to do so, as if nothing had been."""
        if self._write_quickly is None:
            return False
        try:
            after, ticket.answer = ticket.step(self._state)
        except Exception as error:
            ticket.error = error
            after = self._state
        if after is not self._state:
            began = time.perf_counter()
            is_written = self._write_quickly(after, [ticket.answer], ticket.may_lag)
            if not ticket.may_lag:
                self._note_time(time.perf_counter() - began)
            if not is_written:
                return False
            self.counts.writes += 1
            self._state = after
            self._published([ticket.answer])
        self.counts.steps += 1
        return True

    def _note_time(self, seconds: float, *, is_flush: bool = False) -> None:
        self.counts.times.add(seconds)
        if not is_flush:
            self._mean_s += _WEIGHT * (seconds - self._mean_s)

    def _begin(self) -> None:
        """Pass the waiting steps to the thread, unless it is busy; those in front that may lag need it not."""
        if self._in_flight:
            return
        while self._waiting and self._waiting[0].may_lag and self._is_carried_out_here(self._waiting[0]):
            self._waiting.pop(0).done.set()
        if not self._waiting:
            return
        # a flush has a write of its own
        flush = next((at for at, ticket in enumerate(self._waiting) if ticket.is_flush), len(self._waiting))
        count = max(flush, 1)
        tickets, self._waiting = self._waiting[:count], self._waiting[count:]
        self._in_flight = tickets
        self._work.put(tickets)

    def _work_off(self, token: trio.lowlevel.TrioToken) -> None:
        """Work in the writer's thread, until there is no more."""
        while (tickets := self._work.get()) is not None:
            token.run_sync_soon(self._end, self._carry_out(tickets))

    def _end(self, after: S) -> None:
        tickets, self._in_flight = self._in_flight, []
        self._company = _MEMORY if len(tickets) > 1 or self._waiting else max(self._company - 1, 0)
        if after is not self._state:
            self._state = after
            self._published(_answers(tickets))
        self.counts.steps += len(tickets)
        for ticket in tickets:
            ticket.done.set()
        self._begin()

    def _carry_out(self, tickets: Sequence[_Ticket[S, object]]) -> S:
        """In the writer's thread: return the durable state after these steps; the same one if nothing has changed."""
        after = self._state
        for ticket in tickets:
            try:
                after, ticket.answer = ticket.step(after)
            except Exception as error:
                # also for a bug: the caller must report it, and the writer lives on
                ticket.error = error
        is_flush = any(ticket.is_flush for ticket in tickets)
        if after is self._state and not is_flush:
            return after
        self.counts.writes += 1
        began = time.perf_counter()
        try:
            self._write(after, _answers(tickets))
        except Exception as error:
            # also for a bug, as above
            self.counts.failures += 1
            for ticket in tickets:
                ticket.error = ticket.error or error
            return self._state
        finally:
            self._note_time(time.perf_counter() - began, is_flush=is_flush)
        return after


def _answers(tickets: Sequence[_Ticket[S, object]]) -> list[object]:
    return [ticket.answer for ticket in tickets if ticket.error is None]


def _nothing(state: S) -> tuple[S, None]:
    return state, None
