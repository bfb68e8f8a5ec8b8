"""The table of locks from luxid: who holds and who waits for each lock, and which jobs others wait for.

Source: luxid.md 7.4.
"""

from cli.luxid import Luxid
from common.query.kinds import QueryKind
from protocol.luxi.locks import LOCK_FIELDS, LockRow, read_lock_view
from protocol.luxi.queries import Query


def ask_lock_view(client: Luxid) -> tuple[LockRow, ...]:
    """Ask luxid, not wconfd: a user who may list jobs may also see their locks.

    Raises: as `protocol.luxi.locks.read_lock_view` and `Luxid.call`.
    """
    return read_lock_view(client.call(Query(QueryKind.LOCK, LOCK_FIELDS)))
