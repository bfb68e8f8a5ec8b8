"""A watch of keys: changes as they come, until it ends with an error.

Theory. A watch is a hint to look, and no more: members have lost events, and a watch that was canceled leaves its
connection open, as does a member that was stopped. So a watch that was silent for long ends as well, and whoever
watches reads anew from time to time.

Source: lease.md 1, 4 and 5.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final, Self

import orjson
import trio

from protocol.etcd.asking import ABOUT_TOKENS, Asker, of_own_token
from protocol.etcd.errors import WatchEnded
from protocol.etcd.httpconnection import OK, Connection, HttpReply, closing_unless_done
from protocol.etcd.kv import WatchEvent
from protocol.etcd.member import Member
from protocol.etcd.questions import Question
from protocol.etcd.refusals import Meaning, Refusal, judge, judge_text
from protocol.etcd.replyfields import flag, inner, text
from protocol.etcd.wire import Broken

# a member that has lost the leader ends the watch then
_HEADERS: Final[Mapping[str, str]] = {"Grpc-Metadata-hasleader": "true"}


class Watching:
    """The events of a watch, in order. It never ends by itself.

    Raises:
        Compacted: what happened after the revision is not there any more.
        WatchEnded: any other end; events may have been missed.
    """

    def __init__(self, connection: Connection, question: Question[Sequence[WatchEvent]], silence_s: float) -> None:
        self._connection = connection
        self._question = question
        self._silence_s = silence_s
        self._events: deque[WatchEvent] = deque()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> WatchEvent:
        while not self._events:
            self._events.extend(await self._more())
        return self._events.popleft()

    async def _more(self) -> Sequence[WatchEvent]:
        try:
            with trio.move_on_after(self._silence_s):
                return _read(self._question, await self._connection.line())
        except Broken as broken:
            raise WatchEnded(f"the watch has ended: {broken}") from broken
        raise WatchEnded(f"nothing was heard of the watch for {self._silence_s:g} s")


async def open_watch(
    asker: Asker, question: Question[Sequence[WatchEvent]], silence_s: float
) -> tuple[Connection, Watching]:
    """Begin to watch at whichever member takes the watch.

    Returns: the connection, which the caller closes, and its events.
    Raises: EtcdUnknown: no member takes it. EtcdDenied.
    """

    async def attempt(member: Member) -> Connection:
        token = member.token
        connection = await _created(member, question)
        if not isinstance(connection, Refusal):
            return connection
        await asker.login(member, token, connection)
        again = await _created(member, question)
        if isinstance(again, Refusal):
            raise of_own_token(again)
        return again

    connection = await asker.whichever(attempt, None)
    return connection, Watching(connection, question, silence_s)


async def _created(member: Member, question: Question[Sequence[WatchEvent]]) -> Connection | Refusal:
    """Raises: Broken, EtcdError."""
    connection = await member.open_stream(question.path, question.body, _HEADERS)
    if isinstance(connection, HttpReply):
        refusal = judge(connection.status, connection.body)
    else:
        with closing_unless_done(connection):
            found = _refusal(await connection.line())
        if found is None:
            return connection
        connection.close()
        refusal = found
    if refusal.meaning is Meaning.UNKNOWN:
        raise Broken(refusal.text)
    if refusal.meaning in ABOUT_TOKENS:
        return refusal
    raise refusal.error


def _refusal(line: bytes) -> Refusal | None:
    """What the first line says against the watch; None: it was created."""
    try:
        told = orjson.loads(line)
        if _is_error(told):
            return judge(OK, line)
        result = inner(told, "result")
        if flag(result, "canceled"):
            return judge_text(text(result, "cancel_reason") or "canceled without a reason")
    except ValueError as error:
        raise Broken(f"it replied with something else: {line[:100]!r}") from error
    return None


def _read(question: Question[Sequence[WatchEvent]], line: bytes) -> Sequence[WatchEvent]:
    try:
        told = orjson.loads(line)
        if _is_error(told):
            raise WatchEnded(f"etcd has ended the watch: {judge(OK, line).text}")
        return question.read(told)
    except ValueError as error:
        raise WatchEnded(f"the watch brings something else: {line[:100]!r}") from error


def _is_error(told: object) -> bool:
    return isinstance(told, dict) and "error" in told
