"""The lock table under /3.

Source: luxid.md 7.4.
"""

import attrs


@attrs.frozen
class LockWaiters:
    """Owners that wait for a lock in one mode, or for the end of a job with these states."""

    wanted: str
    # jobs as "job/14", others by their name; in their order
    owners: tuple[str, ...]


@attrs.frozen
class LockState:
    """A lock, or a job whose end others wait for."""

    # "node/web1", "job/14"
    name: str
    # strongest mode in which it is held: "shared" or "exclusive"; null: it is free
    mode: str | None
    # jobs as "job/14", others by their name
    holders: tuple[str, ...]
    waiters: tuple[LockWaiters, ...]


@attrs.frozen
class LockGhost:
    """A holder whose process is gone, and whose command may still run on a node: its locks are kept."""

    # "job/14"
    holder: str
    # names of the nodes, sorted
    nodes: tuple[str, ...]
    # seconds since 1970
    since: float
    # when its locks become free without a word of a node or an operator; null: never
    ends_at: float | None


@attrs.frozen
class LockList:
    # locks in lock order, then jobs by id
    locks: tuple[LockState, ...]
    # those among the holders
    ghosts: tuple[LockGhost, ...] = ()
