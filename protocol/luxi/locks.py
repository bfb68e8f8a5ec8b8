"""A row of the lock monitor: luxid makes it, and clients read it.

Source: luxid.md 7.4.
"""

from typing import Final

import attrs
import orjson

from common.errors import InvalidRequest, ProtocolError
from common.locks import parse_lock
from common.shapes import Row
from common.wire import structure
from protocol.luxi.queries import QueryResult

# begins the name of a job in the table
JOB: Final = "job/"

# fields of a Query of locks, in the order of `LockRow`
LOCK_FIELDS: Final = ("name", "mode", "owner", "pending")


@attrs.frozen
class LockRow(Row):
    """One lock, or a job whose end others wait for; owners and pending requests in the order of wconfd."""

    name: str
    # strongest mode in which it is held; None: it is free
    mode: str | None
    owners: tuple[str, ...]
    # pairs of a mode, or of the final states of a job that are wanted, and the owners that wait
    pending: tuple[tuple[str, tuple[str, ...]], ...]


def read_lock_view(answer: QueryResult) -> tuple[LockRow, ...]:
    """Return the locks that are held or waited for, in lock order, then jobs by id.

    Args: answer: reply to a Query of locks with `LOCK_FIELDS`.
    Raises: ProtocolError: the reply has another form. InvalidRequest: a name in it is unknown.
    """
    try:
        rows = [_in_words(structure(row, LockRow)) for row in answer.values()]
    except (InvalidRequest, TypeError, ValueError) as error:
        raise ProtocolError("luxid's answer on locks has an unknown form; is it of another version?") from error
    jobs = sorted((row for row in rows if row.name.startswith(JOB)), key=lambda row: int(row.name.removeprefix(JOB)))
    locks = [row for row in rows if not row.name.startswith(JOB) and (row.owners or row.pending)]
    return (*sorted(locks, key=lambda row: parse_lock(row.name)), *jobs)


def _in_words(row: LockRow) -> LockRow:
    """The row with its owners as people read them. Raises: ValueError: a name is not one of an owner."""
    pending = tuple((wanted, tuple(map(_owner, owners))) for wanted, owners in row.pending)
    return attrs.evolve(row, owners=tuple(map(_owner, row.owners)), pending=pending)


def _owner(text: str) -> str:
    """Convert luxid's form of an owner: a number is a job; another owner is its name in quotes."""
    if text.isdigit():
        return f"{JOB}{text}"
    return str(orjson.loads(text)) if text.startswith('"') else text
