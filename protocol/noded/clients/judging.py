"""What the parts of a call come to: its request before it is sent, its reply, and the end of its time.

Source: noded.md section 4.
"""

from collections.abc import Mapping
from typing import Final, Self, TypeVar

import attrs

from common.errors import GantryError
from protocol.noded.call import (
    MAX_REQUEST,
    CallRefused,
    Failed,
    FailureKind,
    NodeAddress,
    NodeCall,
    Outcome,
    Replied,
    Skipped,
    read_reply,
)
from protocol.noded.clients.connection import NodedHttpReply

# Which silent nodes are left alone for now, and until when.
#
# Theory. A node that gives no sign of life costs each caller its whole limit of time. So after a failure it is left
# alone for a pause that doubles, up to a minute, and calls to it fail at once. Any sign of life ends that. Calls that
# were under way together fail together, which counts as one failure.
#
# Pure: time comes in as `now`, seconds of any clock that does not jump.


FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 60.0


@attrs.frozen
class NodeFailures:
    """A node's failures in a row."""

    failures: int
    # when the last one was counted; calls that began before do not count again
    since: float
    # when the node is asked again
    until: float
    # text of the last failure
    text: str


@attrs.frozen
class BackOff:
    """The silent nodes, by name; a node that is not in it may be asked."""

    silences: Mapping[str, NodeFailures] = attrs.field(factory=dict)

    def pause(self, node: str, now: float) -> NodeFailures | None:
        """The silence because of which the node is not asked now; None: it may be asked."""
        silence = self.silences.get(node)
        return silence if silence is not None and now < silence.until else None

    def after(self, node: str, outcome: object, began: float, now: float) -> Self:
        """The state after a call that came to this outcome.

        Args: began: when the call began.
        """
        if isinstance(outcome, Failed) and outcome.kind.is_silence:
            return self._silent(node, outcome.text, began, now)
        if isinstance(outcome, Skipped) or (isinstance(outcome, Failed) and not outcome.kind.is_sign_of_life):
            return self
        if node not in self.silences:
            return self
        return attrs.evolve(self, silences={name: each for name, each in self.silences.items() if name != node})

    def _silent(self, node: str, text: str, began: float, now: float) -> Self:
        before = self.silences.get(node)
        if before is not None and began < before.since:
            return self
        failures = 1 if before is None else before.failures + 1
        # the exponent is bounded: floats are not without end
        pause_s = min(FIRST_PAUSE_S * 2.0 ** min(failures - 1, 30), LONGEST_PAUSE_S)
        return attrs.evolve(self, silences={**self.silences, node: NodeFailures(failures, now, now + pause_s, text)})


R = TypeVar("R")


def before_sending(node: NodeAddress, call: NodeCall[R], body: bytes) -> Outcome[R] | None:
    """The outcome of a call that is not sent at all; None: it is sent."""
    if node.offline and not call.ASKS_OFFLINE:
        return Skipped()
    if len(body) > MAX_REQUEST:
        size = f"the request has {len(body)} bytes, at most {MAX_REQUEST} are possible"
        return Failed(FailureKind.UNSENT, f"{call.METHOD} was not sent to {node}: {size}")
    return None


def paused(node: NodeAddress, silence: NodeFailures, now: float) -> Failed:
    """The outcome of a call to a node that is left alone."""
    times = "once" if silence.failures == 1 else f"{silence.failures} times in a row"
    text = f"{node} was not asked: it failed {times}, and is asked again in {silence.until - now:.0f} s; {silence.text}"
    return Failed(FailureKind.PAUSED, text)


def after_reply(node: NodeAddress, call: NodeCall[R], epoch: int | None, reply: NodedHttpReply) -> Outcome[R]:
    """The outcome that a reply means. Args: epoch: the caller's."""
    if reply.status != 200:
        kind = FailureKind.UNKNOWN if reply.status == 404 else FailureKind.REFUSED
        return Failed(kind, f"{node} refused {call.METHOD}: {_status(reply)}", reply.status)
    try:
        return Replied(read_reply(call, reply.body), reply.epoch)
    except CallRefused as refusal:
        is_outdated = epoch is not None and reply.epoch is not None and reply.epoch > epoch
        kind = FailureKind.OUTDATED if is_outdated else FailureKind.REFUSED
        return Failed(kind, f"{node} refused {call.METHOD}: {refusal.message}")
    except GantryError as error:
        return Failed(FailureKind.GARBLED, f"{node} replied to {call.METHOD} with something else: {error.message}")


def no_turn(node: NodeAddress, call: NodeCall[R], limit_s: float) -> Failed:
    """The outcome when the time is over before the call was begun."""
    reason = "too many other calls were under way"
    return Failed(FailureKind.UNSENT, f"{call.METHOD} was not sent to {node} within {limit_s:g} s: {reason}")


def not_connected(node: NodeAddress, limit_s: float) -> Failed:
    """The outcome when connecting takes too long."""
    return Failed(FailureKind.UNREACHABLE, f"{node} is not reached within {limit_s:g} s")


def given_up(node: NodeAddress, call: NodeCall[R]) -> Failed:
    """The outcome when the caller gives the call up while connection and handshake are not done."""
    return Failed(FailureKind.UNREACHABLE, f"{node} was not reached when {call.METHOD} was given up")


def no_reply(node: NodeAddress, call: NodeCall[R], limit_s: float) -> Failed:
    """The outcome when the time is over after the request was sent, or a part of it."""
    return Failed(FailureKind.TIMEOUT, f"{node} gave no reply to {call.METHOD} within {limit_s:g} s")


def _status(reply: NodedHttpReply) -> str:
    match reply.status:
        case 403:
            return "the certificate of this node is not that of a master candidate (HTTP 403)"
        case 404:
            return "it does not know this procedure (HTTP 404)"
        case 413:
            return "the request is too large for it (HTTP 413)"
        case _:
            return f"HTTP {reply.status} {reply.reason}"
