"""The locks on disk: `locks.data`, and beside it the journal of the changes since.

Theory. A change is a line of the journal (`core.locks.encoding`), however many locks are held. From time to time
`locks.data` is made *whole*: written anew, with an empty journal. The steps, each durable
before the next, so that after a crash in between this holds:

1. the new `locks.data` and the new journal, beside their places: nothing has changed
2. in the old journal a line that names the new `locks.data`: the old `locks.data` and all other lines count
3. the new `locks.data` in its place: it alone counts, since the old journal is outdated, and says so
4. the new journal in its place: it continues the new `locks.data`

From step 3 on the change is made, and is not undone: a failed fsync of the folder is repeated. If the new
journal cannot be put in place, or the old one cannot be removed, the next change makes `locks.data` whole again.

No line is appended to a journal that is, or may be, outdated, or in which a write has failed: from then on
each change makes `locks.data` whole, until that succeeds.

Without a journal, as in Ganeti, `locks.data` is made whole at each change.

Source: wconfd.md 6.1 to 6.3; DESIGN section 3, invariant 3.
"""

import contextlib
import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final, Self

import attrs

from common.durable.atomicfile import FileWrite, StagedFiles, remove_file, stage_files, write_file
from common.durable.durably import durably
from common.errors import DamagedFile
from common.locks import Owner
from common.system.livelock import is_alive, livelocks_of_jobs
from common.system.log import get_log
from daemons.wconfd.core.locks.encoding import (
    LockRows,
    Replayed,
    digest,
    encode,
    encode_changes,
    encode_header,
    encode_line,
    encode_next,
    rebuild,
    replay,
)
from daemons.wconfd.core.locks.mayrun import NOTHING_RUNS, MayRun, decode_may_run, encode_may_run
from daemons.wconfd.core.locks.waiting import LockChange, LockState

# The commands that may still run, on disk, in `ghosts.data`, beside `locks.data`.
#
# Theory. Two files cannot be written as one, so the order decides. Before a change of the locks is written, the file
# gets all commands that count before it or after it; so no crash finds locks without their commands. After the change
# the file may still have commands of owners that hold nothing any more. These are *void*: they are dropped when the
# file is read, and are removed when the file is next written, at the latest when `locks.data` is made whole. An owner
# that takes locks again has its void commands removed before. An owner that still holds locks, and has no commands any
# more, as nothing of them runs, has them removed before, too. So a command in the file counts exactly if its owner
# holds locks on disk.
#
# As long as there are no commands, nothing is ever written, nor is there a file.
#
# Source: `protocol.wconfd.locks`; DESIGN section 14.


_log: Final = get_log(__name__)


def read_may_run(path: Path) -> MayRun:
    """Read `ghosts.data`; without a file there are no commands.

    Raises:
        DamagedFile: with the path, the place, and what to do; it is never replaced by an empty file.
        OSError: the file cannot be read.
    """
    try:
        return decode_may_run(path.read_bytes())
    except FileNotFoundError:
        return NOTHING_RUNS
    except DamagedFile as error:
        text = (
            f"'{path}': {error.message}; it says which locks must be kept although their owners died; restore it "
            f"from a backup, or, once no command of a job runs on any node, start without it: rm {path}"
        )
        raise DamagedFile(text, path=str(path), **error.fields) from error


class MayRunFile:
    """Keeps the commands on disk; all methods but `load` are called by one thread at a time.

    Args:
        found: content of the file.
    """

    def __init__(self, path: Path, found: MayRun) -> None:
        self._path = path
        self._on_disk = found

    @classmethod
    def load(cls, path: Path) -> Self:
        """Raises: as `read_may_run`."""
        return cls(path, read_may_run(path))

    @property
    def may_run(self) -> MayRun:
        """What is on disk, void commands included."""
        return self._on_disk

    def is_exactly(self, may_run: MayRun) -> bool:
        return self._on_disk == may_run

    def prepare(self, before: LockState, after: LockState) -> None:
        """Make the commands durable that count before or after a change, which is written next.

        Raises: OSError: this failed; the file has its old content.
        Durability: on return they survive a loss of power.
        Cost: nothing without commands; the whole file if they change.
        """
        if not self._on_disk and not after.may_run:
            return
        wanted = after.may_run.with_others_of(before.may_run)
        for owner, _ in before.may_run:
            if owner not in after.may_run and after.table.modes_of(owner):
                wanted = wanted.without(owner)
        void = [owner for owner, _ in self._on_disk if owner not in wanted]
        are_all_there = all(self._on_disk.of(owner) == known for owner, known in wanted)
        if not are_all_there or any(after.table.modes_of(owner) for owner in void):
            self._write(wanted)

    def tidy(self, may_run: MayRun) -> None:
        """Remove the void commands. Raises, Durability: as `prepare`."""
        if self._on_disk != may_run:
            self._write(may_run)

    def _write(self, may_run: MayRun) -> None:
        durably(lambda: write_file(self._path, encode_may_run(may_run)))
        self._on_disk = may_run
        _log.debug("may_run.written", path=self._path, owners=len(may_run))


# The journal of the locks on disk: lines are appended, and each is durable before it counts.
#
# Theory. Appending to a file changes its size, so the file system must also write its own
# journal; overwriting existing bytes is half the work. So room is allocated ahead, in pieces
# of `ROOM`, and the free part reads as zeros. The file is opened so that a write returns when it is durable:
# one system call for each line.
#
# A line may *lag*: it outlives this process, but a loss of power may undo it. The next line takes its place, and says
# what it said as well; so all lines but the last are durable. A loss of power may leave some sectors of both. So that
# this is never taken for damage, both lie in two sectors at most, and the next one is filled up with blanks to the
# length of the first: then what is left is either of them, or nothing, and behind it at most one end of a line.
#
# Source: DESIGN sections 3 and 8.


ROOM: Final = 64 * 2**10
# bytes of a line that lags, and of one in its place: those of the smallest sector that disks have
LAGGING_BYTES: Final = 512
_WRITE: Final = os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW
_APPEND: Final = _WRITE | os.O_DSYNC


@attrs.frozen
class _Lagging:
    """A line of the journal that lags."""

    # state of the durable lines
    before: LockState
    made: tuple[tuple[Owner, LockChange], ...]
    text: bytes


class LockJournal:
    """A journal that exists on disk, with its header; opened at the first change.

    Args:
        size: bytes of all lines that count; after them come zeros, or an unfinished write.
        crc: checksum of the last of these lines.
        lines: number of these, without the header.
    """

    def __init__(self, path: Path, size: int, crc: int, lines: int = 0) -> None:
        self._path = path
        self._crc = crc
        self._lines = lines
        # a write by the first is durable when it returns, one by the second lags
        self._descriptors: tuple[int, int] | None = None
        # bytes of the file
        self._room = 0
        # behind the durable lines
        self._lagging: _Lagging | None = None
        # bytes of the durable lines
        self.size = size
        # whether lines may be appended: everything ever appended is there, and nothing else
        self.is_sound = True

    @property
    def has_lines(self) -> bool:
        return bool(self._lines or self._lagging)

    @property
    def lags(self) -> bool:
        return self._lagging is not None

    def add(
        self, before: LockState, after: LockState, made: Collection[tuple[Owner, LockChange]], *, may_lag: bool = False
    ) -> bool:
        """Append a change; return False if it is to lag, and its line would be too long for that: nothing is written.

        Args: made: as for `encode_changes`.
        Raises: OSError: it could not be written; the only valid reaction is `give_up`.
        Durability: on return it survives a loss of power, and so does all that lagged; or it may lag, and lags.
        """
        if self._lagging:
            before, made = self._lagging.before, (*self._lagging.made, *made)
        text = encode_changes(before, after, made)
        if not may_lag:
            self._append(text)
            return True
        text = self._filled_up(text)
        line, _ = encode_line(text, self._crc)
        if len(line) > LAGGING_BYTES:
            return False
        self._put(line, is_durable=False)
        self._lagging = _Lagging(before, tuple(made), text)
        return True

    def end(self, name: str) -> None:
        """Append that the `locks.data` of this digest comes next. Raises, Durability: as `add`."""
        if self._lagging:
            self._append(self._lagging.text)
        if self._lines:
            self._append(encode_next(name))

    def give_up(self) -> None:
        """Cut off what a failed write may have left, as far as possible; append nothing after this.

        After an error the kernel may forget what it failed to write, so a later successful sync would prove nothing.
        """
        self.is_sound = False
        with contextlib.suppress(OSError):
            self._cut_off(self._opened()[0])

    def close(self) -> None:
        for descriptor in self._descriptors or ():
            os.close(descriptor)
        self._descriptors = None

    def _append(self, text: bytes) -> None:
        """Write a durable line in place of the one that lags, whose change it contains."""
        line, crc = encode_line(self._filled_up(text), self._crc)
        if self._lagging and len(line) > LAGGING_BYTES:
            # it makes the same change once more
            self._append(self._lagging.text)
            line, crc = encode_line(text, self._crc)
        self._put(line, is_durable=True)
        self.size, self._crc, self._lines, self._lagging = self.size + len(line), crc, self._lines + 1, None

    def _filled_up(self, text: bytes) -> bytes:
        return text.ljust(len(self._lagging.text)) if self._lagging else text

    def _put(self, line: bytes, *, is_durable: bool) -> None:
        """Write a line behind the durable ones."""
        durable, lagging = self._opened()
        if self.size + len(line) > self._room:
            self._make_room(durable, len(line))
        descriptor = durable if is_durable else lagging
        written = os.pwrite(descriptor, line, self.size)
        while written < len(line):
            written += os.pwrite(descriptor, memoryview(line)[written:], self.size + written)

    def _opened(self) -> tuple[int, int]:
        if self._descriptors is None:
            durable = os.open(self._path, _APPEND)
            try:
                self._descriptors = durable, os.open(self._path, _WRITE)
            except OSError:
                os.close(durable)
                raise
            # an earlier process may have left an unfinished line, and zeros; and its last line may lag
            self._cut_off(durable)
        return self._descriptors

    def _cut_off(self, descriptor: int) -> None:
        self._room = self.size
        if is_longer := os.fstat(descriptor).st_size > self.size:
            os.ftruncate(descriptor, self.size)
        if is_longer or self._lines:
            os.fsync(descriptor)

    def _make_room(self, descriptor: int, size: int) -> None:
        room = (self.size + size + ROOM - 1) // ROOM * ROOM
        # if that fails, the line may still fit
        with contextlib.suppress(OSError):
            os.posix_fallocate(descriptor, self._room, room - self._room)
            self._room = room


JOURNAL: Final = ".journal"
# a journal larger than this, and than this multiple of its locks.data, is begun anew
LIMIT: Final = 2**20
LIMIT_FACTOR: Final = 2


def journal_of(path: Path) -> Path:
    """The path of the journal of this `locks.data`."""
    return path.with_name(path.name + JOURNAL)


@attrs.frozen
class FoundLocks:
    """The combined content of the two files."""

    state: LockState
    # False: reading them granted or dropped requests
    is_exact: bool
    snapshot_size: int
    # None: there is no journal
    journal: Replayed | None


def read_locks(path: Path, max_bypass: int | None = None, may_run: MayRun = NOTHING_RUNS) -> FoundLocks:
    """Read `locks.data` and its journal, even while a daemon writes them; changes nothing.

    Raises:
        DamagedFile: with the path, the place, and what to do.
        OSError: `locks.data` is missing, or a file cannot be read.
    """
    content, journal = read_pair(path)
    try:
        rows = LockRows.read(content)
        replayed = None if journal is None else _replay(path, journal, content, rows)
        state = rebuild(rows, max_bypass, may_run)
    except DamagedFile as error:
        if "path" in error.fields:
            raise
        text = (
            f"'{path}': {error.message}; restore it from a backup, or, once no job process is left alive, "
            f"start without locks by: rm -f {journal_of(path)}; echo '[[],[]]' > {path}"
        )
        raise DamagedFile(text, path=str(path), **error.fields) from error
    return FoundLocks(state, rows.is_exactly(state), len(content), replayed)


def _refuse_lost_locks(path: Path, livelocks: Path | None, may_run: MayRun) -> None:
    """The file is made with the cluster, so one that is missing while owners may live was lost with what they hold.

    Raises: DamagedFile. OSError: whether any lives cannot be told.
    """
    of_jobs = livelocks_of_jobs(livelocks) if livelocks is not None else {}
    living = [f"job {job_id}" for job_id, livelock in sorted(of_jobs.items()) if is_alive(livelock)]
    owners = [*living, *(f"{owner}" for owner, _ in may_run)]
    if owners:
        more = f" and {len(owners) - 1} more" if len(owners) > 1 else ""
        text = (
            f"'{path}' is missing, and {owners[0]}{more} may hold locks that nobody knows; restore it from a backup, "
            f"or, once no job process is left alive, and no command of a job runs on any node, "
            f"start without locks by: rm -f {journal_of(path)}; echo '[[],[]]' > {path}"
        )
        raise DamagedFile(text, path=str(path))


def _replay(path: Path, journal: bytes, content: bytes, rows: LockRows) -> Replayed:
    try:
        return replay(journal, content, rows)
    except DamagedFile as error:
        text = (
            f"'{journal_of(path)}': {error.message}; restore both files from one backup, or, if '{path}' alone "
            f"is right, go on without what the journal adds by: rm {journal_of(path)}"
        )
        raise DamagedFile(text, path=str(journal_of(path)), **error.fields) from error


def read_pair(path: Path) -> tuple[bytes, bytes | None]:
    """Read both files as of one moment; None: there is no journal.

    They are read until the journal continues the other file, or neither has changed meanwhile.

    Raises: OSError: `locks.data` is missing, or a file cannot be read.
    """
    pair = (path.read_bytes(), _read_journal(path))
    while not _is_continued(*pair):
        again = (path.read_bytes(), _read_journal(path))
        if again == pair:
            break
        pair = again
    return pair


def _is_continued(content: bytes, journal: bytes | None) -> bool:
    # without a journal, `locks.data` may have been read before a daemon that ends has made it whole
    return journal is not None and encode_header(digest(content))[0] == journal.partition(b"\n")[0] + b"\n"


def _read_journal(path: Path) -> bytes | None:
    try:
        return journal_of(path).read_bytes()
    except FileNotFoundError:
        return None


class LockFiles:
    """Keeps the state of the locks on disk; all methods but `load` are called by one thread at a time.

    Args:
        found: content of the files now; None: there is no `locks.data`.
        has_journal: False: `locks.data` is made whole at each change.
    """

    def __init__(self, path: Path, found: FoundLocks | None, *, has_journal: bool) -> None:
        self._path = path
        self._has_journal = has_journal
        self._journal: LockJournal | None = None
        # whether a journal file may exist that does not count
        self._has_outdated = journal_of(path).exists() if found is None else found.journal is not None
        self._limit = LIMIT
        # bytes of `locks.data`, as last read or written
        self.snapshot_size = found.snapshot_size if found else 0
        if found and found.journal and found.journal.is_current:
            self._journal = LockJournal(journal_of(path), found.journal.size, found.journal.crc, found.journal.lines)
            self._has_outdated = False
            self._set_limit()

    @classmethod
    def load(
        cls,
        path: Path,
        *,
        max_bypass: int | None,
        has_journal: bool,
        may_run: MayRun = NOTHING_RUNS,
        livelocks: Path | None = None,
    ) -> tuple[Self, LockState]:
        """Read the locks; without a file no locks are held.

        Args:
            may_run: content of `ghosts.data`.
            livelocks: the folder that tells which job processes live; None: none does.
        Raises:
            DamagedFile: with the path, the place, and what to do; it is never replaced by an empty file.
            OSError: a file cannot be read, or not be written when reading it granted a request.
        """
        try:
            found = read_locks(path, max_bypass, may_run)
        except FileNotFoundError:
            _refuse_lost_locks(path, livelocks, may_run)
            _log.warning("locks.missing", path=path, effect="nobody holds anything")
            return cls(path, None, has_journal=has_journal), LockState.fair(max_bypass)
        files = cls(path, found, has_journal=has_journal)
        if not found.is_exact:
            # reading granted or dropped requests: clients may only learn what is on disk
            files.make_whole(found.state)
        return files, found.state

    @property
    def is_whole(self) -> bool:
        """Whether `locks.data` alone has the whole state, and has an empty journal if it should have one."""
        journal = self._journal
        if journal is None:
            return not self._has_journal and not self._has_outdated
        return self._has_journal and journal.is_sound and not journal.has_lines

    @property
    def lags(self) -> bool:
        """Whether a loss of power may undo the last change."""
        return self._journal is not None and self._journal.lags

    def append(
        self, before: LockState, after: LockState, made: Collection[tuple[Owner, LockChange]], *, may_lag: bool = False
    ) -> bool:
        """Make a change by one line of the journal; return False if that is not possible, or has failed.

        After False the change is to be made by `write`, which also mends the journal.

        Args:
            may_lag: until the next change a loss of power may undo this one. It does not wait for the disk.
        Durability: as `write`, unless it may lag.
        """
        journal = self._journal
        if not self._has_journal or journal is None or not journal.is_sound or journal.size > self._limit:
            return False
        try:
            return journal.add(before, after, made, may_lag=may_lag)
        except OSError as error:
            journal.is_sound = False
            _log.warning("locks.journal_failed", path=journal_of(self._path), reason=error, next="locks.data whole")
            return False

    def write(self, before: LockState, after: LockState, made: Collection[tuple[Owner, LockChange]]) -> None:
        """Make a change durable.

        Args:
            made: as for `encode_changes`.
        Raises: OSError: this failed; the files have their old meaning, as far as can be known.
        Durability: on return the change survives a loss of power.
        Cost: the changed part; the whole state each time the journal has grown by a multiple of it.
        """
        journal = self._journal if self._has_journal else None
        if journal and journal.is_sound and journal.size > self._limit:
            journal = self._begun_anew(after, journal)
            if journal is None:
                return
        if self.append(before, after, made):
            return
        if journal and not journal.is_sound:
            journal.give_up()
        self.make_whole(after)

    def make_whole(self, state: LockState) -> None:
        """Write `locks.data` with an empty journal, or without one if it should have none.

        Raises, Durability: as `write`.
        """
        self._replace(state, has_journal=self._has_journal)

    def finish(self, state: LockState) -> None:
        """Leave only a whole `locks.data`. Raises, Durability: as `write`."""
        if not self.is_whole:
            self._replace(state, has_journal=False)
        elif self._journal:
            self._journal.close()
            self._journal = None
            durably(lambda: remove_file(journal_of(self._path)))

    def _begun_anew(self, state: LockState, journal: LockJournal) -> LockJournal | None:
        """Replace a journal that has grown enough; return it if that fails, to go on with it."""
        try:
            self.make_whole(state)
        except OSError as error:
            _log.warning("locks.not_whole", path=self._path, reason=error, effect="the journal grows")
            self._limit = 2 * journal.size
            return journal
        return None

    def _replace(self, state: LockState, *, has_journal: bool) -> None:
        content = encode(state)
        name = digest(content)
        header, crc = encode_header(name)
        writes = [FileWrite(self._path, content), FileWrite(journal_of(self._path), header)]
        staged = stage_files(writes if has_journal else writes[:1])
        whole, *journals = staged.singly()
        try:
            self._make_outdated(name)
            durably(whole.put_in_place)
        except BaseException:
            staged.discard()
            raise
        self.snapshot_size = len(content)
        self._set_limit()
        old, self._journal = self._journal, None
        if old:
            old.close()
            self._has_outdated = True
        if self._is_replaced(journals):
            self._has_outdated = False
            self._journal = LockJournal(journal_of(self._path), len(header), crc) if has_journal else None

    def _is_replaced(self, journals: Sequence[StagedFiles]) -> bool:
        """Put the new journal, if there is one, in place of the old one; false: the old one stays, outdated."""
        try:
            for journal in journals:
                durably(journal.put_in_place)
            if not journals and self._has_outdated:
                durably(lambda: remove_file(journal_of(self._path)))
        except OSError as error:
            next_step = "locks.data whole with the next change"
            _log.warning("locks.journal_failed", path=journal_of(self._path), reason=error, next=next_step)
            return False
        return True

    def _make_outdated(self, name: str) -> None:
        """Write into the old journal that it ends with the next `locks.data`."""
        if self._has_outdated:
            # it must not count as the journal of a later locks.data that equals an earlier one
            durably(lambda: remove_file(journal_of(self._path)))
            self._has_outdated = False
        if self._journal:
            # if the append fails and a crash follows, the operator must decide which file counts
            with contextlib.suppress(OSError):
                self._journal.end(name)
            self._journal.is_sound = False

    def _set_limit(self) -> None:
        self._limit = max(LIMIT, LIMIT_FACTOR * self.snapshot_size)
