"""The table of locks, as luxid tells it: who holds what, and who waits for what; and jobs that others wait for.

Source: luxid.md 7.4; STYLE section 8.
"""

from collections.abc import Sequence
from typing import Any, Final

import attrs
import orjson

from common.errors import ProtocolError
from common.locks import parse_lock
from common.query.kinds import QueryKind
from protocol.blocking import BlockingClient
from protocol.luxi.queries import Query, QueryResult

# fields of luxid's Query of locks
FIELDS: Final = ("name", "mode", "owner", "pending")
JOB: Final = "job/"


@attrs.frozen
class LockRow:
    """One lock, or a job whose end others wait for; owners and pending requests in the order of wconfd."""

    name: str
    # strongest mode in which it is held; None: it is free
    mode: str | None
    owners: tuple[str, ...]
    # pairs of a mode, or of the final states of a job that are wanted, and the owners that wait
    pending: tuple[tuple[str, tuple[str, ...]], ...]


def ask_lock_view(client: BlockingClient) -> tuple[LockRow, ...]:
    """Ask luxid, and not wconfd: whoever may list jobs may see their locks.

    Raises: as `read_lock_view` and `BlockingClient.call`.
    """
    return read_lock_view(client.call(Query(QueryKind.LOCK, FIELDS)))


def read_lock_view(answer: QueryResult) -> tuple[LockRow, ...]:
    """The locks that somebody holds or waits for, in lock order, then jobs by id.

    Args: answer: to a Query of locks with `FIELDS`.
    Raises: ProtocolError: it has another form. InvalidRequest: a name in it is unknown.
    """
    try:
        rows = [_row(row) for row in answer.values()]
    except (TypeError, ValueError) as error:
        raise ProtocolError("luxid's answer on locks has an unknown form; is it of another version?") from error
    jobs = sorted((row for row in rows if row.name.startswith(JOB)), key=lambda row: int(row.name.removeprefix(JOB)))
    locks = [row for row in rows if not row.name.startswith(JOB) and (row.owners or row.pending)]
    return (*sorted(locks, key=lambda row: parse_lock(row.name)), *jobs)


def _row(values: Sequence[Any]) -> LockRow:
    """Raises: TypeError, ValueError: other values than those of `FIELDS`."""
    name, mode, owners, pending = values
    requests = tuple((str(wanted), tuple(map(_owner, among))) for wanted, among in pending or ())
    return LockRow(str(name), mode, tuple(map(_owner, owners or ())), requests)


def _owner(text: str) -> str:
    """A number is a job, and so is one who waits for a job; another owner is its name in quotes."""
    if text.isdigit():
        return f"{JOB}{text}"
    return str(orjson.loads(text)) if text.startswith('"') else text
