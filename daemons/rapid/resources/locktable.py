"""The lock table over HTTP: who holds each lock, who waits, and since when jobs depend on others.

Source: luxid.md 7.4.
"""

from typing import Final

from common.query.kinds import QueryKind
from daemons.rapid.calls import Asked, Parameter
from daemons.rapid.resources.parameters import words_of
from protocol.luxi.locks import LOCK_FIELDS, read_lock_view
from protocol.luxi.queries import Query
from protocol.rapid.locks import LockGhost, LockList, LockState, LockWaiters
from protocol.wconfd.ghosts import Ghost, ListGhosts

NAMES: Final = Parameter("names", "names of locks with commas between, e.g. `node/web1,job/14`; without: all")


class LockTable:
    """The call that shows locks."""

    async def list_locks(self, asked: Asked) -> LockList:
        names = words_of(asked, NAMES)
        every = read_lock_view(await asked.daemons.luxid(Query(QueryKind.LOCK, LOCK_FIELDS)))
        rows = [row for row in every if names is None or row.name in names]
        holders = {holder for row in rows for holder in row.owners}
        # who may see the holders may see which of them live
        ghosts = await asked.daemons.wconfd(ListGhosts()) if holders else ()
        return LockList(
            tuple(
                LockState(
                    row.name, row.mode, row.owners, tuple(LockWaiters(wanted, owners) for wanted, owners in row.pending)
                )
                for row in rows
            ),
            tuple(_ghost(ghost) for ghost in ghosts if str(ghost.owner) in holders),
        )


def _ghost(ghost: Ghost) -> LockGhost:
    nodes = tuple(sorted({guard.node for guard in ghost.guards}))
    return LockGhost(str(ghost.owner), nodes, ghost.since, ghost.ends_at)
