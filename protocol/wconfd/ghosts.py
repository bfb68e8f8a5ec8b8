"""Guards and ghosts: locks that outlive their owner, because what they guard may still run on a node; methods of ours.

Theory. A *guard* says that a command of a living owner is about to run on a node, under a key. When an owner with
guards dies, its pending request is dropped, and what it holds stays held: it is a *ghost*. A ghost ends in three
ways. A new process of the same job adopts all that it has, guards included. Or its last guard is laid: by the word
of the node's daemon, of an operator, or of a fence that nothing of it runs. Or the time is over that ghosts are
given, if any is set. A guard does not bind a living owner: when it releases all its locks, its guards are gone
with them.

Guards lie in `ghosts.data` beside `locks.data`, which stays as Ganeti knows it.

Source: DESIGN sections 13 and 14.
"""

from typing import Final

import attrs

from common.locks import Lock, LockMode, Owner
from common.shapes import Row
from protocol.messages import Request
from protocol.wconfd.locks import Owned, Unit

GHOSTS_CHANGED: Final = "ghostsChanged"


@attrs.frozen
class Guard(Row):
    """`[node, key]`."""

    # name of the node
    node: str
    # see `protocol.noded.commands`
    key: str


@attrs.frozen
class GuardLocks(Request[Unit]):
    """Keep the owner's locks beyond his death, until these guards are laid.

    Durability: on return the guards survive a loss of power.
    """

    METHOD = "guardLocks"
    owner: Owner
    guards: tuple[Guard, ...]


@attrs.frozen
class LayGuards(Request[Unit]):
    """Say that nothing of these keys runs any more; a ghost without guards releases everything.

    Unknown keys are no error. Durability: on return the release survives a loss of power.
    """

    METHOD = "layGuards"
    keys: tuple[str, ...]
    # for the log, and for the events: "node web2: ended", "fenced by an operator"
    word: str


@attrs.frozen
class AdoptLocks(Request[tuple[Owned, ...]]):
    """Give all that the ghosts of the owner's job hold, with their guards, to the owner; returns what it holds then.

    The owner is a new process of the job. Delivered twice, it returns the same. Refused while an earlier owner of
    the job lives.
    """

    METHOD = "adoptLocks"
    owner: Owner


@attrs.frozen
class Claim(Row):
    """What a job held under an earlier master: `[owner, [[lock, mode], ...], [guard, ...]]`."""

    owner: Owner
    locks: tuple[tuple[Lock, LockMode], ...]
    guards: tuple[Guard, ...]


@attrs.frozen
class RaiseGhosts(Request[tuple[Owner, ...]]):
    """Make ghosts of owners whose locks this wconfd does not know, before others get them; returns the refused owners.

    For a new master. A claim is refused if another owner's lock conflicts with it; one of a known ghost changes
    nothing.
    """

    METHOD = "raiseGhosts"
    claims: tuple[Claim, ...]


@attrs.frozen
class Ghost(Row):
    """A dead owner whose locks are held: `[owner, since, ends at or null, guards, locks]`."""

    owner: Owner
    # seconds since 1970
    since: float
    # when it ends without any word; null: never
    ends_at: float | None
    guards: tuple[Guard, ...]
    locks: tuple[Owned, ...]


@attrs.frozen
class ListGhosts(Request[tuple[Ghost, ...]]):
    """All ghosts, by owner."""

    METHOD = "listGhosts"
