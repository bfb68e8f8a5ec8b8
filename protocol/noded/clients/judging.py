"""What the parts of a call come to: its request before it is sent, its reply, and the end of its time.

Source: noded.md section 4.
"""

from typing import TypeVar

from common.errors import GantryError
from protocol.noded.call import MAX_REQUEST, NodeCall
from protocol.noded.clients.backoff import Silence
from protocol.noded.clients.channel import HttpReply
from protocol.noded.clients.nodes import NodeAddress
from protocol.noded.clients.outcomes import Failed, FailureKind, Outcome, Replied, Skipped
from protocol.noded.replies import CallRefused, read_reply

R = TypeVar("R")


def before_sending(node: NodeAddress, call: NodeCall[R], body: bytes) -> Outcome[R] | None:
    """The outcome of a call that is not sent at all; None: it is sent."""
    if node.offline and not call.ASKS_OFFLINE:
        return Skipped()
    if len(body) > MAX_REQUEST:
        size = f"the request has {len(body)} bytes, at most {MAX_REQUEST} are possible"
        return Failed(FailureKind.UNSENT, f"{call.METHOD} was not sent to {node}: {size}")
    return None


def paused(node: NodeAddress, silence: Silence, now: float) -> Failed:
    """The outcome of a call to a node that is left alone."""
    times = "once" if silence.failures == 1 else f"{silence.failures} times in a row"
    text = f"{node} was not asked: it failed {times}, and is asked again in {silence.until - now:.0f} s; {silence.text}"
    return Failed(FailureKind.PAUSED, text)


def after_reply(node: NodeAddress, call: NodeCall[R], epoch: int | None, reply: HttpReply) -> Outcome[R]:
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


def no_reply(node: NodeAddress, call: NodeCall[R], limit_s: float) -> Failed:
    """The outcome when the time is over after the request was sent, or a part of it."""
    return Failed(FailureKind.TIMEOUT, f"{node} gave no reply to {call.METHOD} within {limit_s:g} s")


def _status(reply: HttpReply) -> str:
    match reply.status:
        case 403:
            return "the certificate of this node is not that of a master candidate (HTTP 403)"
        case 404:
            return "it does not know this procedure (HTTP 404)"
        case 413:
            return "the request is too large for it (HTTP 413)"
        case _:
            return f"HTTP {reply.status} {reply.reason}"
