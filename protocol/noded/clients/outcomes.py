"""What a call came to at one node: a reply, a failure, or nothing because the node is offline.

A call to many nodes returns one of these for each node, and never raises for one of them.

Source: noded.md section 4.
"""

import enum
from typing import Generic, TypeVar

import attrs

R = TypeVar("R")


class FailureKind(enum.Enum):
    # no connection was made
    UNREACHABLE = "unreachable"
    # the certificates of the two do not fit
    UNTRUSTED = "untrusted"
    # not sent, because the node has failed and its pause is not over
    PAUSED = "paused"
    # not sent, because of a fault here: our certificate cannot be read, or the request is too large
    UNSENT = "unsent"
    # no reply in time
    TIMEOUT = "timeout"
    # the connection broke before the whole reply was there
    LOST = "lost"
    # the reply is not one of a node daemon
    GARBLED = "garbled"
    # another node has become the master: the caller must stop
    OUTDATED = "outdated"
    # a node daemon's own failure: `[false, text]`, or a page with a status other than 200
    REFUSED = "refused"
    # it does not know this procedure: one of Ganeti's gets a call of ours, or an older one a newer call
    UNKNOWN = "unknown"

    @property
    def may_have_acted(self) -> bool:
        """Whether the node may have carried out the call, or a part of it."""
        return self in _MAY_HAVE_ACTED

    @property
    def is_silence(self) -> bool:
        """Whether no node daemon was heard that could have replied: it is asked less often then."""
        return self in _SILENCE

    @property
    def is_sign_of_life(self) -> bool:
        """Whether the node replied, if badly."""
        return self in (FailureKind.GARBLED, FailureKind.OUTDATED, FailureKind.REFUSED, FailureKind.UNKNOWN)


_MAY_HAVE_ACTED = frozenset({FailureKind.TIMEOUT, FailureKind.LOST, FailureKind.GARBLED, FailureKind.REFUSED})
_SILENCE = frozenset({FailureKind.UNREACHABLE, FailureKind.UNTRUSTED, FailureKind.TIMEOUT, FailureKind.LOST})


class Breakdown(Exception):
    """A call to one node has failed; clients turn it into that node's outcome."""

    def __init__(self, kind: FailureKind, text: str) -> None:
        super().__init__(text)
        self.kind = kind
        self.text = text

    @property
    def failed(self) -> "Failed":
        return Failed(self.kind, self.text)


@attrs.frozen
class Replied(Generic[R]):
    """The node has carried out the call; `value` is its reply."""

    value: R
    # highest epoch of a master that the node has seen; None: it knows none, as Ganeti's
    epoch: int | None = attrs.field(default=None, eq=False)


@attrs.frozen
class Failed:
    """The node has not replied, or has refused."""

    kind: FailureKind
    # for users; names the node and its address
    text: str
    # HTTP status of the reply, if it is not 200
    status: int | None = None


@attrs.frozen
class Skipped:
    """The node is marked offline and was not asked."""


Outcome = Replied[R] | Failed | Skipped
