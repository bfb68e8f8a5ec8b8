"""A datagram comes in: the reply that goes out, or silence.

Theory. All that decides is a value: the time, the datagram, and a snapshot of key and configuration. Whoever lacks the
key gets nothing, so that nobody can be made to answer a third party, and no work is done for him but the signature.

Source: confd.md 2.
"""

import enum

import attrs

from daemons.confd.core.answers import answer
from daemons.confd.core.catalogue import Catalogue
from protocol.confd.datagrams import MAX_REPLY_BYTES, MAX_REQUEST_BYTES, seal, unseal
from protocol.confd.questions import Reply, Status, read_request


class Silence(enum.Enum):
    """Why there is no reply."""

    NO_KEY = "this node has no key"
    TOO_LONG = "the request is too long"
    NOT_GENUINE = "it is not signed with our key"
    NOT_RECENT = "its time is not ours"
    NOT_A_QUESTION = "it is signed, but no question"
    HUGE_ANSWER = "the answer does not fit into a datagram"


@attrs.frozen
class Snapshot:
    """What is known: it never changes, a new one takes its place."""

    # None: no key could be read
    key: bytes | None
    # why there is no configuration, or the configuration
    catalogue: Catalogue | str


def judge(snapshot: Snapshot, datagram: bytes, now: float) -> bytes | Silence:
    """The reply to a datagram. Args: now: seconds since the epoch."""
    if snapshot.key is None:
        return Silence.NO_KEY
    if len(datagram) > MAX_REQUEST_BYTES:
        return Silence.TOO_LONG
    signed = unseal(snapshot.key, datagram)
    if signed is None:
        return Silence.NOT_GENUINE
    if not signed.is_recent(now):
        return Silence.NOT_RECENT
    request = read_request(signed.text)
    if request is None:
        return Silence.NOT_A_QUESTION
    if isinstance(snapshot.catalogue, str):
        reply = Reply(Status.ERROR, snapshot.catalogue)
    else:
        reply = answer(snapshot.catalogue, request.question, request.argument)
    sealed = seal(snapshot.key, reply.to_text(), request.rsalt)
    return sealed if len(sealed) <= MAX_REPLY_BYTES else Silence.HUGE_ANSWER
