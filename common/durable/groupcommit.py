"""Group commit: callers that want files written while a write is under way share the next one.

Theory. Making one file durable or fifty costs nearly the same: the fsync dominates. One task
owns the disk; callers leave their writes with it and sleep. When a write returns, all writes
that were left meanwhile become the next group, one call in one worker thread. So a lone
caller waits for one write, and a crowd for at most two.

A group has a bound, in files and in bytes. In a larger crowd a caller waits for the callers before it; so a
caller that changes a mass of files leaves only a part of them here at a time.

The failure of a group does not tell whose file was the cause. Its members are then written one
by one, so that each caller gets its own result and none suffers for another.

Where changes are committed in the cluster first, that is done once for a group, before its write. What of it cannot
be written then is taken back in the cluster before its callers get the error.

A group whose files are in place but whose folder could not be synced has not failed: the fsync is repeated until it
succeeds, and the callers wait. They also wait while the system cannot start a thread.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

import attrs
import trio

from common.durable.atomicfile import FileWrite, write_files
from common.durable.durably import RETRY_S, tell_durable, tell_not_durable
from common.durable.folders import NotYetDurable, sync_folders
from common.errors import GantryError, InvalidRequest, Unavailable
from common.replica.replica import Replace, Replica
from common.system.inthread import in_thread, tell_no_thread, try_in_thread
from common.system.shortages import NoThread

# bounds of one group; a single commit may exceed them
MOST_FILES: Final = 256
MOST_BYTES: Final = 8 * 2**20


@attrs.frozen
class CommitStatistics:
    # finished commits, and how many of them failed
    commits: int
    failures: int
    # calls of the writer: for groups, and for single commits after their group failed
    groups: int
    retries: int
    files: int
    # commits that wait for the next group
    waiting: int


_CLOSING: Final = "nothing more is written: the daemon is shutting down"


@attrs.define(eq=False)
class _PendingWrites:
    writes: Sequence[FileWrite]
    done: trio.Event = attrs.Factory(trio.Event)
    error: OSError | GantryError | None = None


class GroupCommit:
    """Makes files durable for many concurrent callers, with few writes.

    Args:
        write: called in a worker thread with all writes of a group, in the order of the commits;
            it must be all or nothing for each file and let the last write to a path win.
        replica: commits each group before it is written; its `before` must have an end, and its `take_back` never
            raises. None: nothing is committed elsewhere.
    """

    def __init__(
        self,
        write: Callable[[Sequence[FileWrite]], None] = write_files,
        replica: Replica | None = None,
    ) -> None:
        self._write = write
        self._replica = replica
        self._waiting: list[_PendingWrites] = []
        self._wake = trio.Event()
        self._is_closed = False
        # cause of the present or last retry: a missing fsync, or a thread that could not start
        self._unsettled: NotYetDurable | NoThread | None = None
        # a limiter of its own: a write must not queue behind other work of the daemon's threads
        self._limiter = trio.CapacityLimiter(1)
        self._commits = self._failures = self._groups = self._retries = self._files = 0

    async def commit(self, writes: Sequence[FileWrite]) -> None:
        """Write the files; return when they are durable.

        Writes to the same path take effect in the order of the calls.

        Raises:
            OSError: these files could not be written; they have their old content. NotYetDurable: they have the
                new one; raised only while the writer ends.
            Unavailable: the writer has ended.
            GantryError: as `Replica.before`; nothing was written.
        Cancellation: the wait can be cancelled; the files are still written.
        """
        if self._is_closed:
            raise Unavailable(_CLOSING)
        ticket = _PendingWrites(writes)
        self._waiting.append(ticket)
        self._wake.set()
        await ticket.done.wait()
        if ticket.error is not None:
            raise ticket.error

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the only writer; for `nursery.start`.

        Cancellation: writes left here before it are still carried out, shielded; later
            commits are refused. Where they are committed in the cluster first, they are refused, too.
        """
        task_status.started()
        try:
            while True:
                await self._wake.wait()
                await self._write_waiting()
        finally:
            self._is_closed = True
            with trio.CancelScope(shield=True):
                while self._waiting:
                    await self._write_waiting()

    def statistics(self) -> CommitStatistics:
        return CommitStatistics(
            self._commits, self._failures, self._groups, self._retries, self._files, len(self._waiting)
        )

    async def _write_waiting(self) -> None:
        tickets = self._next_group()
        if not tickets:
            return
        try:
            await self._write_group(tickets)
        except trio.Cancelled:
            left = [ticket for ticket in tickets if not ticket.done.is_set()]
            self._answer(left, self._unsettled or (Unavailable(_CLOSING) if self._replica else None))
            raise

    def _next_group(self) -> Sequence[_PendingWrites]:
        """Take the tickets that wait longest, as many as fit into a group."""
        count = files = size = 0
        for ticket in self._waiting:
            files += len(ticket.writes)
            size += sum(len(write.content) for write in ticket.writes)
            if count and (files > MOST_FILES or size > MOST_BYTES):
                break
            count += 1
        tickets, self._waiting = self._waiting[:count], self._waiting[count:]
        if not self._waiting:
            self._wake = trio.Event()
        return tickets

    async def _write_group(self, tickets: Sequence[_PendingWrites]) -> None:
        """Cancellation: only while an fsync is repeated, no thread can start, or something is taken back."""
        self._groups += 1
        if self._replica is not None:
            tickets = await self._commit_before(self._replica, tickets)
            if not tickets:
                return
        error = await self._try(_change_of(tickets).files)
        if error is None or isinstance(error, NotYetDurable):
            self._answer(tickets, error)
            return
        failed = {tickets[0]: error} if len(tickets) == 1 else await self._write_singly(tickets)
        if self._replica is not None and failed:
            # not before all are written: they may share a file
            await self._replica.take_back(_change_of(failed))
        for ticket, reason in failed.items():
            self._answer([ticket], reason)

    async def _commit_before(self, replica: Replica, tickets: Sequence[_PendingWrites]) -> Sequence[_PendingWrites]:
        """Commit in the cluster; return those that may be written."""
        if self._is_closed:
            self._answer(tickets, Unavailable(_CLOSING))
            return ()
        try:
            # what may be committed must be written, or its callers would hear that it was not
            with trio.CancelScope(shield=True):
                await replica.before(_change_of(tickets))
        except InvalidRequest as error:
            if len(tickets) == 1:
                self._answer(tickets, error)
                return ()
            # one of them is too large, and the others do not suffer for it
            return [each for ticket in tickets for each in await self._commit_before(replica, [ticket])]
        except GantryError as error:
            self._answer(tickets, error)
            return ()
        return tickets

    async def _write_singly(self, tickets: Sequence[_PendingWrites]) -> dict[_PendingWrites, OSError]:
        """Write one by one, and return those that failed; the others have their answer."""
        failed: dict[_PendingWrites, OSError] = {}
        for ticket in tickets:
            self._retries += 1
            error = await self._try(ticket.writes)
            if error is None or isinstance(error, NotYetDurable):
                self._answer([ticket], error)
            else:
                failed[ticket] = error
        return failed

    async def _try(self, writes: Sequence[FileWrite]) -> OSError | None:
        try:
            await self._write_in_thread(writes)
        except NotYetDurable as error:
            if (unsettled := await self._settle(error)) is not None:
                return unsettled
        except OSError as error:
            return error
        self._files += len(writes)
        if self._replica is not None:
            self._replica.made(Replace(writes))
        return None

    async def _write_in_thread(self, writes: Sequence[FileWrite]) -> None:
        """Raises: as the writer; NoThread: no thread could start when the writer ended.

        Cancellation: only while no thread can start; `_write_waiting` sets the result.
        """
        while True:
            try:
                # a writing thread is never abandoned: this returns when the thread is done, even if cancelled
                with trio.CancelScope(shield=True):
                    return await try_in_thread(self._write, writes, limiter=self._limiter)
            except NoThread as error:
                tell_no_thread(error, "a group of writes", RETRY_S)
                if self._is_closed:
                    raise
                self._unsettled = error
            await trio.sleep(RETRY_S)

    async def _settle(self, error: NotYetDurable) -> OSError | None:
        """Repeat the fsync until it succeeds; only once if the writer has ended, as no caller should wait any longer.

        Cancellation: `_write_waiting` sets the result.
        """
        tell_not_durable(error)
        while True:
            self._unsettled = error
            await trio.sleep(RETRY_S)
            try:
                with trio.CancelScope(shield=True):
                    await try_in_thread(error.repeat, limiter=self._limiter)
            except (NotYetDurable, NoThread) as again:
                if isinstance(again, NotYetDurable):
                    error = again
                if self._is_closed:
                    return error
            else:
                tell_durable(error)
                return None

    def _answer(self, tickets: Sequence[_PendingWrites], error: OSError | GantryError | None) -> None:
        self._commits += len(tickets)
        self._failures += len(tickets) if error is not None else 0
        for ticket in tickets:
            ticket.error = error
            ticket.done.set()


def _change_of(tickets: Iterable[_PendingWrites]) -> Replace:
    return Replace([write for ticket in tickets for write in ticket.writes])


# Make durable what other processes have renamed in a folder.
#
# Theory. The reader of a file that was just put in place may not know whether that rename is durable; an fsync of the
# folder makes it so, no matter which process renamed. All callers that arrive during one fsync share the next one. The
# cost is small: if the other process has synced, or does so at the same time, the disk has nothing more to write.


class FolderSync:
    """Syncs one folder for many callers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._turn = trio.Lock()
        # a limiter of its own: a sync does not wait behind other work of the daemon's threads
        self._limiter = trio.CapacityLimiter(1)
        # numbers of calls: the last one so far, and the last one covered by a finished fsync
        self._asked = self._served = 0
        self.fsyncs = 0

    async def sync(self) -> None:
        """Return when all renames in the folder before this call are durable, however long that takes.

        Cancellation: at any time; nothing is lost by it.
        """
        self._asked = number = self._asked + 1
        async with self._turn:
            if self._served < number:
                covered = self._asked
                await self._sync()
                self._served = covered

    async def _sync(self) -> None:
        failed: NotYetDurable | None = None
        while (error := await self._try()) is not None:
            if failed is None:
                tell_not_durable(error)
            failed = error
            await trio.sleep(RETRY_S)
        if failed is not None:
            tell_durable(failed)

    async def _try(self) -> NotYetDurable | None:
        self.fsyncs += 1
        try:
            await in_thread(sync_folders, [self._folder], limiter=self._limiter)
        except NotYetDurable as error:
            return error
        return None
