"""The index of the history: a file of SQLite, derived from the files of ended jobs.

Theory. Nothing rests on it: other nodes do not get it, and a damaged or missing one is made anew from the job files. It
is synced only when its log is moved into it, so a loss of power may cost it its last rows, which are found missing at
the next start, but never mixes old and new pages. Only the rows of jobs whose files were removed since cannot be made
again.

All functions are for threads: one thread at a time writes; each reader has a connection of its own, and sees the index
as it was when it began.

Source: DESIGN section 16; everyday.md section g.
"""

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import orjson

from common.durable.folders import is_odd
from common.ids import JobId
from common.query.qlang import parse_regex
from daemons.luxid.core.past.endedrow import ColumnIndex, PastRow
from daemons.luxid.core.past.queries import (
    DayNames,
    Eyes,
    SqlCondition,
    count_query,
    ended_job,
    list_query,
    past_sums,
    sum_queries,
)
from protocol.luxi.history import EndedJob, PastSum, ReadHistory, SummarizeHistory

# of the tables; an index of another version is made anew
VERSION: Final = 1
# errors that say that the file is no index; all others pass
_DAMAGED: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_BUSY_S: Final = 30.0
_TABLES: Final = """
CREATE TABLE jobs (
    id INTEGER PRIMARY KEY, place INTEGER NOT NULL, status TEXT NOT NULL, name TEXT NOT NULL, summary TEXT NOT NULL,
    public_summary TEXT NOT NULL, user TEXT NOT NULL, uid INTEGER NOT NULL, labels TEXT, received REAL, eligible REAL,
    start REAL, "end" REAL, wait REAL, run REAL, tries INTEGER NOT NULL, exit_code INTEGER, why TEXT NOT NULL,
    public_why TEXT NOT NULL, node TEXT NOT NULL, batch TEXT NOT NULL
);
CREATE INDEX jobs_end ON jobs ("end", id);
CREATE INDEX jobs_place ON jobs (place) WHERE place <> 1;
"""
_INSERT: Final = f"INSERT OR REPLACE INTO jobs VALUES ({', '.join('?' * 21)})"


class DamagedIndex(Exception):
    """The file is no index, or one of another version."""


class PastIndex:
    """The connection that writes. Make one with `open_index`."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        self._identity = _identity(path)

    def check_in_place(self) -> None:
        """Raises: DamagedIndex: somebody has removed or replaced the file. SQLite would go on in the old one."""
        if _identity(self.path) != self._identity:
            raise DamagedIndex("somebody has removed or replaced it")

    def close(self) -> None:
        self._connection.close()

    def add(self, rows: Iterable[tuple[PastRow, ColumnIndex]]) -> None:
        """Add jobs, or replace them. Raises: sqlite3.Error: none of them is added."""
        with damage_told(), self._connection:
            self._connection.executemany(_INSERT, [_values(row, place) for row, place in rows])

    def put(self, job_ids: Iterable[int], place: ColumnIndex) -> None:
        """Note where these jobs lie now. Raises: sqlite3.Error: nothing is noted."""
        with damage_told(), self._connection:
            self._connection.executemany("UPDATE jobs SET place = ? WHERE id = ?", [(place, each) for each in job_ids])

    def forget_removed(self, ended_before: float, most: int) -> int:
        """Delete rows of removed jobs that ended before an instant; return how many. Raises: sqlite3.Error."""
        with damage_told(), self._connection:
            return self._connection.execute(
                'DELETE FROM jobs WHERE id IN (SELECT id FROM jobs WHERE place = ? AND "end" < ? LIMIT ?)',
                (ColumnIndex.REMOVED, ended_before, most),
            ).rowcount

    def folders(self, size: int) -> list[int]:
        """The quotients of all ids by a number. Raises: sqlite3.Error."""
        with damage_told():
            return [row[0] for row in self._connection.execute("SELECT DISTINCT id / ? FROM jobs", (size,))]

    def places(self, job_ids: range) -> Mapping[JobId, ColumnIndex]:
        """Where each of these jobs lies, as far as it is noted. Raises: sqlite3.Error."""
        sql, ids = "SELECT id, place FROM jobs WHERE id >= ? AND id < ?", (job_ids.start, job_ids.stop)
        with damage_told():
            return {JobId(job_id): ColumnIndex(place) for job_id, place in self._connection.execute(sql, ids)}

    def select(self, query: SqlCondition) -> list[tuple[object, ...]]:
        """Raises: sqlite3.Error."""
        with damage_told():
            return self._connection.execute(query.sql, query.params).fetchall()


def open_index(path: Path) -> PastIndex:
    """Open the index; make an empty one where there is none.

    Raises: DamagedIndex: it is damaged. sqlite3.Error, OSError: it cannot be opened now.
    """
    # SQLite would follow links, and wait for pipes
    if any(is_odd(f"{path}{ending}") for ending in ("", "-wal", "-shm")):
        raise DamagedIndex("it, or its log, is neither a file nor a folder")
    # what jobs ran: daemons with users of their own are in the group, and may not read it. First, since the files that
    # SQLite puts beside it get its mode; and without a descriptor, whose end would release locks of SQLite
    path.touch(mode=0o600)
    path.chmod(0o600)
    with damage_told():
        connection = sqlite3.connect(path, timeout=_BUSY_S, check_same_thread=False)
        try:
            _prepare(connection)
        except BaseException:
            connection.close()
            raise
        return PastIndex(path, connection)


def _prepare(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    # synced when the log is moved into the file, not at each step. Without it a loss of power leaves a mixture of old
    # and new pages, in which jobs are missing although the check below finds nothing wrong
    connection.execute("PRAGMA synchronous = NORMAL")
    # otherwise each deleted row is overwritten with zeros
    connection.execute("PRAGMA secure_delete = OFF")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version == 0 and not connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]:
        with connection:
            connection.executescript(f"BEGIN; {_TABLES} PRAGMA user_version = {VERSION}; COMMIT;")
    elif version != VERSION:
        raise DamagedIndex(f"it has version {version}, and this program reads version {VERSION}")
    elif (found := connection.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
        raise DamagedIndex(str(found))


def set_aside(path: Path) -> Path:
    """Move a damaged index away, over an earlier one; return its new place. Raises: OSError."""
    aside = path.with_name(f"{path.name}.damaged")
    with contextlib.suppress(FileNotFoundError):
        path.replace(aside)
    for ending in ("-wal", "-shm"):
        path.with_name(f"{path.name}{ending}").unlink(missing_ok=True)
    return aside


def read_list(index: PastIndex, call: ReadHistory, eyes: Eyes) -> tuple[tuple[EndedJob, ...], int]:
    """The jobs of a call, and how many its choice has.

    Raises: InvalidRequest, FilterError: the choice is malformed. DamagedIndex, sqlite3.Error.
    """
    wanted, counted = list_query(call, eyes), count_query(call, eyes)
    with _reading(index) as connection:
        rows = connection.execute(wanted.sql, wanted.params).fetchall()
        total = connection.execute(counted.sql, counted.params).fetchone()[0]
    return tuple(ended_job(row, orjson.loads(row[-1]) if row[-1] else {}) for row in rows), total


def read_sums(index: PastIndex, call: SummarizeHistory, eyes: Eyes) -> tuple[PastSum, ...]:
    """The sums of a call. Raises: InvalidRequest: the zone is unknown; else as `read_list`."""
    sums, waits, runs = sum_queries(call, eyes)
    days = DayNames(call.zone)
    with _reading(index) as connection:
        connection.create_function("day_of", 1, days.name, deterministic=True)
        found = connection.execute(sums.sql, sums.params).fetchall()
        percentiles = [dict(connection.execute(each.sql, each.params)) for each in (waits, runs)]
    return past_sums(found, *percentiles)


@contextlib.contextmanager
def _reading(index: PastIndex) -> Iterator[sqlite3.Connection]:
    """A connection that sees the index as it is now, whatever is written meanwhile."""
    index.check_in_place()
    with damage_told(), contextlib.closing(sqlite3.connect(index.path, timeout=_BUSY_S)) as connection:
        connection.execute("PRAGMA query_only = ON")
        connection.create_function("matches", 2, _matches, deterministic=True)
        connection.execute("BEGIN")
        yield connection


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _matches(pattern: str, text: str | None) -> bool | None:
    return None if text is None else parse_regex(pattern).is_in(text)


@contextlib.contextmanager
def damage_told() -> Iterator[None]:
    """Raises: DamagedIndex: instead of SQLite's errors that say so."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        # the lowest byte is the kind, the others its variety
        is_damaged = (getattr(error, "sqlite_errorcode", 0) & 0xFF) in _DAMAGED
        if is_damaged or str(error).startswith("no such table"):
            raise DamagedIndex(str(error)) from error
        raise


def _values(row: PastRow, place: ColumnIndex) -> Sequence[object]:
    return (
        *(row.job_id, place, row.state.value, row.name, row.summary, row.public_summary, row.user, row.uid),
        orjson.dumps(dict(row.labels)).decode() if row.labels else None,
        *(row.received_at, row.eligible_at, row.start_at, row.end_at, row.wait_s, row.run_s, row.tries, row.exit_code),
        *(row.why, row.public_why, row.node, row.batch),
    )
