"""The replies of several candidates to one question: how many are enough, and which one counts.

Theory. Candidates may differ for a moment after a change. The answer from the newest state wins, by its serial number;
an error counts only while nobody has an answer. The serial number is that of the object asked about: two answers with
the same one and different contents are told as inconsistent. No I/O, no clock, no chance.

Source: confd.md 6.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from common.errors import GantryError, NotFound, RemoteError, Unavailable
from protocol.confd.questions import (
    Argument,
    ConfdFault,
    ConfdRequest,
    Question,
    Reply,
    ReplyStatus,
    read_reply,
    seal,
    unseal,
)

# candidates that are asked if the caller does not say how many
USUAL_COVERAGE: Final = 6
_FAULTS: Final = {
    ConfdFault.UNKNOWN_ENTRY: ("not_found", "there is no such entry"),
    ConfdFault.INTERNAL: ("internal", "it has an internal error"),
    ConfdFault.ARGUMENT: ("invalid", "the argument is not one of this question"),
}
# questions whose answers are sets
_UNORDERED: Final = (Question.NODE_IPS, Question.CANDIDATE_IPS, Question.INSTANCE_IPS)


@attrs.frozen(order=True)
class ConfdPeer:
    """Where a confd listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def coverage(peers: int, wanted: int | None) -> int:
    """The number of peers to ask. Args: wanted: None: the usual one."""
    return min(peers, USUAL_COVERAGE if wanted is None else wanted)


def enough(asked: int) -> int:
    """The number of replies to wait for: all of one or two, all but one of three or four, else more than half."""
    if asked <= 2:
        return asked
    return asked - 1 if asked <= 4 else asked // 2 + 1


@attrs.frozen
class GatheredReplies:
    """What the candidates have replied."""

    question: Question
    # the one that counts; None: nobody replied
    best: Reply | None
    # by whom was asked
    replies: Mapping[ConfdPeer, Reply]
    # those that were asked and are silent
    silent: Sequence[ConfdPeer]
    is_consistent: bool

    def answer(self) -> object:
        """The answer that counts.

        Raises: Unavailable: nobody replied. NotFound, RemoteError: the best reply is an error.
        """
        if self.best is None:
            asked = ", ".join(map(str, self.silent))
            raise Unavailable(f"no confd has replied: {asked}; it runs on master candidates, with the same 'hmac.key'")
        if self.best.status is ReplyStatus.OK:
            return self.best.answer
        raise _error_of(self.best.answer)


def _error_of(answer: object) -> GantryError:
    fault = next((fault for fault in ConfdFault if answer == fault), None)
    code, text = _FAULTS[fault] if fault is not None else ("conflict", str(answer).replace("\n", " "))
    message = f"confd replied with an error: {text}"
    if code == "not_found":
        return NotFound(message)
    return RemoteError(message, code=code, wire_name="GenericError", wire_args=[message])


class Gathering:
    """One question, and the replies to it so far.

    Args:
        key: all bytes of its file.
        salts: whom the question is sent to, and the salt of each one's reply. A host with several addresses may
            reply from another one, so the salt says who it is.
        needed: number of replies that are waited for; None: `enough`.
    """

    def __init__(
        self,
        key: bytes,
        question: Question,
        argument: Argument,
        salts: Mapping[ConfdPeer, str],
        needed: int | None = None,
    ) -> None:
        self._key = key
        self._question = question
        self._argument = argument
        self._salts = dict(salts)
        self._peers = {salt: peer for peer, salt in salts.items()}
        self._needed = enough(len(salts)) if needed is None else needed
        self._replies: dict[ConfdPeer, Reply] = {}

    def datagrams(self, now: float) -> Mapping[ConfdPeer, bytes]:
        """The question for each one that is silent, as it is sent at this time, in seconds since the epoch."""
        texts = {
            peer: ConfdRequest(self._question, self._salts[peer], self._argument).to_text() for peer in self.silent
        }
        return {peer: seal(self._key, text, str(int(now))) for peer, text in texts.items()}

    @property
    def silent(self) -> Sequence[ConfdPeer]:
        """Those that have not replied."""
        return [peer for peer in self._salts if peer not in self._replies]

    @property
    def is_complete(self) -> bool:
        return len(self._replies) >= self._needed

    def take(self, datagram: bytes) -> None:
        """Take a datagram; one that is no genuine reply to this question is ignored."""
        signed = unseal(self._key, datagram)
        peer = self._peers.get(signed.salt) if signed is not None else None
        reply = read_reply(signed.text) if signed is not None else None
        if peer is not None and reply is not None:
            self._replies[peer] = reply

    def outcome(self) -> GatheredReplies:
        replies = list(self._replies.values())
        answers = [reply for reply in replies if reply.status is ReplyStatus.OK]
        best = max(answers, key=lambda reply: reply.serial) if answers else (replies[0] if replies else None)
        is_consistent = best is None or all(
            self._content(reply) == self._content(best) for reply in answers if reply.serial == best.serial
        )
        return GatheredReplies(self._question, best, dict(self._replies), self.silent, is_consistent)

    def _content(self, reply: Reply) -> object:
        answer = reply.answer
        is_set = self._question in _UNORDERED and isinstance(answer, list)
        return sorted(map(str, answer)) if is_set and isinstance(answer, list) else answer
