"""Group commit: whoever wants files written while a write is on its way shares the next one.

Theory. Making one file durable or fifty costs nearly the same: the fsync dominates. One task
owns the disk; callers leave their writes with it and sleep. When a write returns, everything
that has gathered meanwhile becomes the next group, one call in one worker thread. So a lone
caller waits for one write, and a crowd for at most two.

A group that fails says nothing about whose file was to blame; its members are then written one
by one, so that each caller gets its own verdict and no one suffers for a neighbour.
"""

from collections.abc import Callable, Sequence

import attrs
import trio

from common.atomicfile import FileWrite, write_files
from common.errors import Unavailable


@attrs.frozen
class CommitStatistics:
    # commits that got their answer, and how many of them failed
    commits: int
    failures: int
    # calls of the writer: shared ones, and single ones after a shared one had failed
    groups: int
    retries: int
    files: int
    # commits that wait for the next group
    waiting: int


@attrs.define(eq=False)
class _Ticket:
    writes: Sequence[FileWrite]
    done: trio.Event = attrs.Factory(trio.Event)
    error: OSError | None = None


class GroupCommit:
    """Makes files durable for many concurrent callers, with few writes.

    Args:
        write: called in a worker thread with all writes of a group, in the order of the commits;
            it must be all or nothing for each file and let the last write to a path win.
    """

    def __init__(self, write: Callable[[Sequence[FileWrite]], None] = write_files) -> None:
        self._write = write
        self._waiting: list[_Ticket] = []
        self._wake = trio.Event()
        self._is_closed = False
        # our own: a write must not queue behind other work of the daemon's threads
        self._limiter = trio.CapacityLimiter(1)
        self._commits = self._failures = self._groups = self._retries = self._files = 0

    async def commit(self, writes: Sequence[FileWrite]) -> None:
        """Write the files; returns when they are durable.

        Writes to the same path take effect in the order of the calls.

        Raises:
            OSError: these files could not be written; they have their old content.
            Unavailable: the writer has ended.
        Cancellation: the wait can be cancelled; the files are written all the same.
        """
        if self._is_closed:
            raise Unavailable("nothing more is written: the daemon is shutting down")
        ticket = _Ticket(writes)
        self._waiting.append(ticket)
        self._wake.set()
        await ticket.done.wait()
        if ticket.error is not None:
            raise ticket.error

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Be the one writer; for `nursery.start`.

        Cancellation: what has been left to it by then is still written, shielded; later
            commits are refused.
        """
        task_status.started()
        try:
            while True:
                await self._wake.wait()
                await self._write_waiting()
        finally:
            self._is_closed = True
            with trio.CancelScope(shield=True):
                await self._write_waiting()

    def statistics(self) -> CommitStatistics:
        return CommitStatistics(
            self._commits, self._failures, self._groups, self._retries, self._files, len(self._waiting)
        )

    async def _write_waiting(self) -> None:
        tickets, self._waiting, self._wake = self._waiting, [], trio.Event()
        if not tickets:
            return
        self._groups += 1
        error = await self._try([write for ticket in tickets for write in ticket.writes])
        if error is None or len(tickets) == 1:
            self._answer(tickets, error)
            return
        for ticket in tickets:
            self._retries += 1
            self._answer([ticket], await self._try(ticket.writes))

    async def _try(self, writes: Sequence[FileWrite]) -> OSError | None:
        try:
            # a thread that writes is never abandoned: cancelled or not, this returns when it is done
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(self._write, writes, limiter=self._limiter)
        except OSError as error:
            return error
        self._files += len(writes)
        return None

    def _answer(self, tickets: Sequence[_Ticket], error: OSError | None) -> None:
        self._commits += len(tickets)
        self._failures += len(tickets) if error is not None else 0
        for ticket in tickets:
            ticket.error = error
            ticket.done.set()
