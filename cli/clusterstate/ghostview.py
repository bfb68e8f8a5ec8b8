"""Ghosts as people read them: locks kept for commands on nodes, whose jobs' processes are gone.

Source: DESIGN section 14.
"""

from collections.abc import Iterator, Sequence

from cli.connection import open_wconfd
from common.errors import GantryError
from common.locks import LockMode
from common.words.times import clock
from protocol.wconfd.ghosts import Ghost, ListGhosts
from protocol.wconfd.locks import Owned


def known_ghosts() -> tuple[Ghost, ...]:
    """All ghosts, for a command that tells them beside other things; none if wconfd does not tell this user."""
    try:
        with open_wconfd(is_patient=False) as client:
            return client.call(ListGhosts(), timeout_s=10.0)
    except (GantryError, OSError):
        return ()


def ghosts_line(ghosts: Sequence[Ghost]) -> str:
    """One line for `gantry status`; there is at least one ghost."""
    nodes = ", ".join(sorted({guard.node for ghost in ghosts for guard in ghost.guards}))
    oldest = clock(min(ghost.since for ghost in ghosts))
    return f"ghosts: {len(ghosts)} since {oldest}, of nodes {nodes}; see 'gantry ghosts'"


def ghost_sentences(ghosts: Sequence[Ghost]) -> Iterator[str]:
    """For each ghost a sentence for the reader of a table of locks."""
    for ghost in ghosts:
        nodes = ", ".join(f"'{node}'" for node in sorted({guard.node for guard in ghost.guards}))
        by_time = "" if ghost.ends_at is None else f", it is {clock(ghost.ends_at)},"
        yield (
            f"{ghost.owner} is a ghost: its process is gone, and its command may still run on node {nodes}; "
            f"its locks are kept until the node answers{by_time} or an operator says: gantry fenced NODE"
        )


def owner_text(ghost: Ghost) -> str:
    """The number of a job, or another owner's name."""
    return str(ghost.owner.ident)


def locks_text(locks: tuple[Owned, ...]) -> str:
    """Locks in lock order; the mode is named if it is exclusive."""
    return ",".join(f"{lock}{'=exclusive' if mode is LockMode.EXCLUSIVE else ''}" for lock, mode in locks)


def as_json(ghost: Ghost) -> dict[str, object]:
    return {
        "job": ghost.owner.ident,
        "livelock": ghost.owner.livelock,
        "since": ghost.since,
        "ends_at": ghost.ends_at,
        "guards": [{"node": guard.node, "key": guard.key} for guard in ghost.guards],
        "locks": {str(lock): mode.value for lock, mode in ghost.locks},
    }
