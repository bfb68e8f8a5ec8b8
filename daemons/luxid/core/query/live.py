"""What only node daemons know, and why it may be lacking.

Theory. A field that is read from the facts of node daemons names its need. Nodes are asked only if a field that is
shown or filtered by has one, and only for what is needed. Without other machines nobody is asked.

Source: luxid.md 7.6, "live data"; noded.md 6.
"""

import enum
from collections.abc import Sequence
from typing import Generic, TypeVar

import attrs

from common.objects.node import Node
from daemons.luxid.core.query.fields import Status

R = TypeVar("R")


class NoFacts(enum.Enum):
    """Why a node daemon told nothing."""

    # there are no node daemons, or a fault of this machine kept it from asking: that is no verdict about the node
    NOT_ASKED = "not asked"
    # the node is marked offline, so it was not asked
    OFFLINE = "offline"
    # the node gave no reply in time, refused, or replied with something else
    FAILED = "failed"


@attrs.frozen
class Told(Generic[R]):
    """Rows with what node daemons have told."""

    rows: Sequence[R]
    # for people: which nodes have told nothing, and why
    notes: Sequence[str] = ()


def status_without(reason: NoFacts, node: Node | None) -> Status:
    """What the cells of a node, or of what is on it, show without facts."""
    is_marked = reason is NoFacts.NOT_ASKED and node is not None and node.offline
    return Status.OFFLINE if is_marked or reason is NoFacts.OFFLINE else Status.NO_DATA


def or_no_data(value: object) -> object:
    return Status.NO_DATA if value is None else value
