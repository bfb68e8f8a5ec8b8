"""The table of locks from luxid: who holds and who waits for each lock, and which jobs others wait for.

Source: luxid.md 7.4; STYLE section 8.
"""

from typing import Final

import attrs
import orjson

from cli.luxid import Luxid
from common.errors import InvalidRequest, ProtocolError
from common.locks import parse_lock
from common.query.kinds import QueryKind
from common.wire import structure
from protocol.luxi.locks import LOCK_FIELDS, LockRow
from protocol.luxi.queries import Query, QueryResult

JOB: Final = "job/"


def ask_lock_view(client: Luxid) -> tuple[LockRow, ...]:
    """Ask luxid, not wconfd: a user who may list jobs may also see their locks.

    Raises: as `read_lock_view` and `BlockingClient.call`.
    """
    return read_lock_view(client.call(Query(QueryKind.LOCK, LOCK_FIELDS)))


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
