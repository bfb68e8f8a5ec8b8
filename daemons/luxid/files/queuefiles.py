"""The only place where luxid changes files of the queue, and where other nodes learn of each change.

Theory. Each method asks the replica (`common.replica`), makes a change durable here, and reports it to the replica;
when it returns, the change counts. If other nodes lack the change, that is logged, and it counts nevertheless. If this
node is no longer the master, nothing counts any more: this caller and all later ones are refused, waiting writes are
dropped, and `run` ends luxid.

Before the file of a job, or a history of waits, is removed, the record of removals names it durably, and the record
is copied like any other file: other nodes lose nothing else (`removals`).

`take_up` reports the writes of job processes, when luxid has learned of them and before any client does.
Files that are not durable are handled elsewhere: messages to job processes, log lines of running jobs, and the wait
histories, whose copies follow the changes of their jobs.

Source: DESIGN sections 6, 12 and 14.
"""

import errno
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, Protocol

import attrs
import trio

from common.durable.atomicfile import FileWrite, move_files, remove_files, write_files
from common.durable.durably import durably, settle
from common.durable.folders import NotYetDurable
from common.durable.groupcommit import CommitStatistics, FolderSync, GroupCommit
from common.errors import GantryError, Unavailable
from common.ids import JobId
from common.metrics import Histogram, Metrics, write_times
from common.paths import Paths
from common.replica.replica import (
    FileChange,
    Move,
    NoLongerMaster,
    NotCopied,
    Remove,
    Replace,
    Replica,
    TakeUp,
)
from common.system.inthread import in_thread, try_in_thread
from common.system.log import get_log
from common.system.mastership import OwnMastershipState
from common.system.shortages import retry_pauses
from daemons.luxid.removals import named_by_record, recording

# Move files durably, outside the event loop.
#
# Theory. A failed move has changed nothing. A move whose folder could not be synced has happened, and every process
# sees it: then no error is reported, the fsync is repeated, and the caller waits for it.
#
# Source: common/durable/atomicfile.py, common/durable/durably.py.


async def move_durably(
    moves: Sequence[tuple[Path, Path]], limiter: trio.CapacityLimiter | None = None
) -> frozenset[Path]:
    """Rename each (source, target), and make missing folders of targets.

    Returns: the sources that do not exist; the others have been moved.
    Raises: OSError: a file could not be moved; the moves before it are done, those after it are not.
    Cancellation: only while an fsync is repeated; by then all moves are done.
    Durability: on return the moves survive a loss of power.
    """
    with trio.CancelScope(shield=True):
        try:
            return frozenset(await try_in_thread(move_files, moves, limiter=limiter))
        except NotYetDurable as error:
            unsettled = error
    missing = _not_moved(moves)
    # a faulty disk may hold the thread for any time, which must not keep the daemon from ending
    await in_thread(settle, unsettled, abandon_on_cancel=True)
    return missing


def _not_moved(moves: Sequence[tuple[Path, Path]]) -> frozenset[Path]:
    return frozenset(source for source, target in moves if not os.path.lexists(target))


# Tells in the log that other nodes lack changes: when it begins, now and then while it lasts, and when it is over.
#
# Theory. While a candidate is away every change is one that it lacks; a line for each would drown the log. The seed's
# rule is an error when more than half of the nodes lack a change; fewer are a warning.
#
# Source: noded.md 8; DESIGN section 12.


# seconds between two lines while it lasts
AGAIN_S: Final = 60.0
_EFFECT: Final = "the changes count; they are sent again until all nodes have them"
_log: Final = get_log(__name__)


class MissingCopies:
    """Call one of its methods after each change."""

    def __init__(self) -> None:
        # changes that were missing since the last line, and when that was, by trio's clock
        self._count = 0
        self._told_at: float | None = None
        self._was_most = False

    def lacking(self, error: NotCopied) -> None:
        """Other nodes lack a change."""
        self._count += 1
        now, is_worse = trio.current_time(), error.is_most and not self._was_most
        if self._told_at is not None and now < self._told_at + AGAIN_S and not is_worse:
            return
        tell = _log.error if error.is_most else _log.warning
        tell("copies.missing", reason=error, changes=self._count, effect=_EFFECT)
        self._count, self._told_at, self._was_most = 0, now, error.is_most

    def complete(self) -> None:
        """All nodes have a change that was waited for."""
        if self._told_at is not None:
            _log.info("copies.no_longer_missing", changes=self._count)
            self._count, self._told_at, self._was_most = 0, None, False


# The replica as the only writer of the queue sees it.
#
# Theory. What it says of the mastership ends luxid. A refusal loses a caller his change, so it is passed on; what has
# happened already cannot be refused, so it is tried until the cluster takes it: what a job's process has written, and
# that a change could not be made here after all. Only that another node is the master ends such a wait.
#
# Source: DESIGN section 14.


class QueueReplica(Replica):
    """Passes all on to the replica of the settings."""

    def __init__(self, replica: Replica, mastership: OwnMastershipState) -> None:
        self.commits_first = replica.commits_first
        self._replica = replica
        self._mastership = mastership
        self._missing = MissingCopies()

    async def before(self, change: FileChange) -> None:
        """As `Replica.before`; what processes have written is tried until it is committed. Raises: as there."""
        if isinstance(change, TakeUp):
            effect = "what these jobs have done is shown when it is committed"
            await self._until_done(lambda: self._replica.before(change), change, effect)
        else:
            await self._as_master(self._replica.before(change))

    def made(self, change: Replace) -> None:
        self._replica.made(change)

    async def take_back(self, change: FileChange) -> None:
        """As `Replica.take_back`; tries until it is committed, or another node is the master. Never raises."""
        try:
            effect = "their callers wait; they could not be written here"
            await self._until_done(lambda: self._replica.take_back(change), change, effect)
        except NoLongerMaster:
            # the new master has made the change, or will
            return

    async def after(self, change: FileChange) -> None:
        """As `Replica.after`; the log tells what other nodes lack. Raises: NoLongerMaster."""
        try:
            await self._as_master(self._replica.after(change))
        except NotCopied as error:
            self._missing.lacking(error)
            return
        # others may not have been waited for
        if isinstance(change, Replace) or (isinstance(change, TakeUp) and change.has_results):
            self._missing.complete()

    async def _until_done(self, work: Callable[[], Awaitable[None]], change: FileChange, effect: str) -> None:
        """Raises: NoLongerMaster."""
        for pause_s in retry_pauses():
            try:
                return await self._as_master(work())
            except NoLongerMaster:
                raise
            except (GantryError, OSError) as error:
                paths = change.paths
                _log.error("commit.waits", file=paths[0], files=len(paths), reason=error, effect=effect)
            await trio.sleep(pause_s)

    async def _as_master(self, work: Awaitable[None]) -> None:
        try:
            await work
        except NoLongerMaster as error:
            raise self._mastership.lose(error) from error


@attrs.define
class WriteCounts(Metrics):
    # of a group of files each
    times: Histogram = write_times()


class QueueFiles:
    """Changes files; start `run` before the first change.

    Args:
        replica: of the settings' mode; None: there are no other nodes.
        write: makes a group of files durable, in a thread.
    """

    def __init__(
        self,
        paths: Paths,
        replica: Replica | None = None,
        write: Callable[[Sequence[FileWrite]], None] = write_files,
    ) -> None:
        self._paths = paths
        self._write = write
        self._mastership = OwnMastershipState("luxid")
        self._replica = QueueReplica(replica or Replica(), self._mastership)
        # whether another node may become the master, and must know which jobs have been given to a process
        self.are_copied: Final = replica is not None
        self._commits = GroupCommit(self._write_as_master, self._replica if self._replica.commits_first else None)
        # syncs what job processes have written
        self.folder = FolderSync(paths.queue)
        # the record of removals is read and replaced by one caller at a time
        self._recording = trio.Lock()
        self.counts: Final = WriteCounts()

    @property
    def is_master(self) -> bool:
        """Whether this node may still write."""
        return self._mastership.is_held

    def statistics(self) -> CommitStatistics:
        """The statistics of all writes so far."""
        return self._commits.statistics()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the writer; for `nursery.start`.

        Raises: NoLongerMaster: another node has taken over; with a message for the operator.
        Cancellation: pending writes are still carried out, unless another node has taken over.
        """
        async with trio.open_nursery() as nursery:
            await nursery.start(self._commits.run)
            task_status.started()
            await self._mastership.until_lost()

    async def end_after(self, loss: Callable[[], Awaitable[NoLongerMaster]]) -> None:
        """Let `run` end luxid when a way of copying has learned that another node has taken over."""
        self._mastership.lose(await loss())

    async def replace(self, *groups: Sequence[FileWrite]) -> None:
        """Replace files, group by group; a group may share a write with simultaneous changes of other callers.

        Raises:
            OSError: this group and those after it were not written, and nothing was reported.
            NoLongerMaster: another node has taken over.
            Unavailable: luxid is ending, or the cluster takes no changes now; then as for OSError.
            InvalidRequest: the cluster does not take so large a change; as for OSError.
        Cancellation: the wait can be cancelled; the group is still written, but not reported.
        Durability: on return all of it survives a loss of power.
        """
        self._mastership.check()
        for group in groups:
            await self._commits.commit(group)
        files = groups[0] if len(groups) == 1 else [write for group in groups for write in group]
        await self._replica.after(Replace(files))

    async def take_up(self, job_ids: Iterable[JobId], *, has_results: bool = True, are_dead: bool = False) -> None:
        """Make durable what the processes of these jobs have written to their job files, and report it.

        Args: has_results, are_dead: as in `common.replica.replica.TakeUp`.
        Raises: NoLongerMaster.
        Cancellation: at any time; then it may not be reported.
        """
        self._mastership.check()
        await self.folder.sync()
        paths = [self._paths.job_file(job_id) for job_id in job_ids]
        change = TakeUp(paths, has_results=has_results, are_dead=are_dead)
        await self._replica.before(change)
        await self._replica.after(change)

    async def move(
        self, moves: Sequence[tuple[Path, Path]], limiter: trio.CapacityLimiter | None = None
    ) -> frozenset[Path]:
        """Rename each (source, target), as `move_durably` does; all moves done are reported, even before an error.

        Returns: the sources that do not exist.
        Raises: OSError, NoLongerMaster.
        """
        self._mastership.check()
        await self._replica.before(Move(moves))
        try:
            missing = await move_durably(moves, limiter)
        except OSError:
            await self._replica.take_back(Move([move for move in moves if not _is_moved(*move)]))
            await self._replica.after(Move([move for move in moves if _is_moved(*move)]))
            raise
        if missing:
            await self._replica.take_back(Move([move for move in moves if move[0] in missing]))
        await self._replica.after(Move([move for move in moves if move[0] not in missing]))
        return missing

    async def remove(self, paths: Sequence[Path], *, were_jobs: bool = True) -> None:
        """Remove files, as far as they exist, in order and durably.

        Args: were_jobs: whether the record is to name them; false: such jobs were never acknowledged.
        Raises: OSError: a file still exists, and so may those after it. NoLongerMaster. Unavailable: as `replace`.
        Cancellation: the removal goes on in its thread, and is not reported.
        """
        self._mastership.check()
        if were_jobs:
            await self._record(paths)
        await self._carry_out(Remove(paths), lambda: remove_files(paths))

    async def discard(self, paths: Sequence[Path]) -> None:
        """Remove files that may come back without harm after a loss of power, or of the master; not durable, and cheap.

        Raises, Cancellation: as `remove`.
        """
        self._mastership.check()
        await self._record(paths)
        await _off_the_loop(lambda: _unlink(paths))
        await self._replica.after(Remove(paths))

    async def forget(self, job_ids: Iterable[int]) -> None:
        """Count jobs as removed that have no file here; other nodes lose theirs. Raises: as `replace`."""
        self._mastership.check()
        await self._record([self._paths.job_file(job_id) for job_id in job_ids])

    async def report(self, paths: Sequence[Path]) -> None:
        """Report files that were made durable here by others than this object; nobody waits for their copies.

        Raises: NoLongerMaster.
        """
        await self._replica.after(TakeUp(paths, has_results=False))

    async def _record(self, paths: Sequence[Path]) -> None:
        """Note that these are about to be removed, outside the groups: the loading removes files before `run` begins.

        Raises: as `replace`.
        """
        removed = named_by_record(self._paths, paths)
        if removed.is_empty:
            return
        async with self._recording:
            write = await in_thread(recording, self._paths, removed)
            if write is None:
                return
            await self._carry_out(Replace([write]), lambda: self._write_as_master([write]))

    async def _carry_out(self, change: FileChange, work: Callable[[], None]) -> None:
        """Commit a change, make it durable here, and report it; or none of it. Args: work: makes it, for a thread."""
        await self._replica.before(change)
        try:
            await _off_the_loop(lambda: durably(work))
        except OSError:
            await self._replica.take_back(change)
            raise
        if isinstance(change, Replace):
            self._replica.made(change)
        await self._replica.after(change)

    def _write_as_master(self, writes: Sequence[FileWrite]) -> None:
        """Write in the writer's thread, if this node is still the master."""
        if not self._mastership.is_held:
            raise OSError(errno.EROFS, "this node is no longer the master")
        began = time.perf_counter()
        try:
            self._write(writes)
        finally:
            self.counts.times.add(time.perf_counter() - began)


class Changes(Protocol):
    """The changes that the loading of the queue makes, in its thread; each method returns when it is done."""

    def move(self, moves: Sequence[tuple[Path, Path]]) -> None: ...

    def remove(self, paths: Sequence[Path]) -> None: ...

    def discard(self, paths: Sequence[Path]) -> None: ...


class ThreadChanges:
    """`QueueFiles` for a thread started by trio; waits while the cluster takes no changes, as nobody else would do it.

    Raises, all methods: as those of `QueueFiles`, but for Unavailable. trio.Cancelled: luxid is ending.
    """

    def __init__(self, files: QueueFiles) -> None:
        self._files = files

    def move(self, moves: Sequence[tuple[Path, Path]]) -> None:
        trio.from_thread.run(_until_taken, lambda: self._files.move(moves), [move[0] for move in moves])

    def remove(self, paths: Sequence[Path]) -> None:
        # nobody was told of a job that is removed here; if it is one of a backup, candidates may have the whole batch
        trio.from_thread.run(_until_taken, lambda: self._files.remove(paths, were_jobs=False), paths)

    def discard(self, paths: Sequence[Path]) -> None:
        trio.from_thread.run(self._files.discard, paths)


class LocalChanges:
    """`Changes` without an event loop and without other nodes."""

    def move(self, moves: Sequence[tuple[Path, Path]]) -> None:
        durably(lambda: _move(moves))

    def remove(self, paths: Sequence[Path]) -> None:
        durably(lambda: remove_files(paths))

    def discard(self, paths: Sequence[Path]) -> None:
        _unlink(paths)


async def _until_taken(change: Callable[[], Awaitable[object]], paths: Sequence[Path]) -> None:
    for pause_s in retry_pauses():
        try:
            await change()
        except NoLongerMaster:
            raise
        except Unavailable as error:
            facts = {"file": paths[0] if paths else "", "files": len(paths), "retry_s": pause_s}
            _log.error("queue.not_settled", reason=error, effect="no job is served until it is", **facts)
        else:
            return
        await trio.sleep(pause_s)


def _move(moves: Sequence[tuple[Path, Path]]) -> None:
    move_files(moves)


def _is_moved(source: Path, target: Path) -> bool:
    return target.exists() and not source.exists()


def _unlink(paths: Iterable[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


async def _off_the_loop(work: Callable[[], None]) -> None:
    # a faulty disk may hold the thread for any time, which must not keep the daemon from ending
    await in_thread(work, abandon_on_cancel=True)
