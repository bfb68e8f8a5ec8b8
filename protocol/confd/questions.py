"""Questions and answers: the texts inside the datagrams, typed.

Source: confd.md 2 to 4.
"""

import enum
import hmac
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

import attrs
import orjson

from common.jsontext import ascii_json

PROTOCOL: Final = 1
# of `Terms` on the wire
_KEYS: Final = frozenset("0123")
E = TypeVar("E", bound=enum.IntEnum)


class Question(enum.IntEnum):
    """The kinds of questions; values are those of the wire."""

    PING = 0
    NODE_ROLE = 1
    NODE_BY_INSTANCE_IP = 2
    MASTER = 3
    NODE_IPS = 4
    CANDIDATE_IPS = 5
    INSTANCE_IPS = 6
    NODE_DRBD = 7
    NODE_INSTANCES = 8
    INSTANCE_DISKS = 9
    CONFIG = 10
    COLLECTORS = 11


class ReplyStatus(enum.IntEnum):
    OK = 0
    ERROR = 1
    # never sent
    NOT_IMPLEMENTED = 2


class ConfdFault(enum.IntEnum):
    """Answers of an error that are numbers."""

    UNKNOWN_ENTRY = 0
    INTERNAL = 1
    ARGUMENT = 2


class ConfdRole(enum.IntEnum):
    """The role of a node."""

    MASTER = 0
    CANDIDATE = 1
    OFFLINE = 2
    DRAINED = 3
    REGULAR = 4


class MasterField(enum.IntEnum):
    """What can be asked of the master."""

    NAME = 0
    IP = 1
    NODE_IP = 2


@attrs.frozen
class Terms:
    """An argument with several parts; each may be missing."""

    link: str | None = None
    ip: str | None = None
    ips: tuple[str, ...] = ()
    fields: tuple[MasterField, ...] = ()


# None: nothing
Argument = str | Terms | None


@attrs.frozen
class ConfdRequest:
    question: Question
    # chosen by the client, salt of the reply
    rsalt: str
    argument: Argument = None

    def to_text(self) -> str:
        """The text; with the newline of Ganeti's Python library."""
        given = _terms_to_wire(self.argument) if isinstance(self.argument, Terms) else self.argument
        wire = {"protocol": PROTOCOL, "type": self.question.value, "query": given, "rsalt": self.rsalt}
        return ascii_json(wire).decode() + "\n"


@attrs.frozen
class Reply:
    status: ReplyStatus
    # JSON-able; of an error a number of `ConfdFault` or the reason
    answer: object
    # serial number of the object that was asked about; 0 for errors
    serial: int = 0

    def to_text(self) -> str:
        wire = {"protocol": PROTOCOL, "status": self.status.value, "answer": self.answer, "serial": self.serial}
        return ascii_json(wire).decode()


def read_request(text: str) -> ConfdRequest | None:
    """Read the text of a request; None: it is none."""
    value = _object(text)
    if value is None or not _is_int(value.get("protocol")):
        return None
    question, rsalt = _member(Question, value.get("type")), value.get("rsalt")
    if question is None or not isinstance(rsalt, str):
        return None
    given = value.get("query")
    if given is None or isinstance(given, str):
        return ConfdRequest(question, rsalt, given)
    terms = _terms(given)
    return None if terms is None else ConfdRequest(question, rsalt, terms)


def read_reply(text: str) -> Reply | None:
    """Read the text of a reply; None: it is none."""
    value = _object(text)
    if value is None or "answer" not in value or not _is_int(value.get("protocol")):
        return None
    status, serial = _member(ReplyStatus, value.get("status")), value.get("serial")
    if status is None or not isinstance(serial, int) or isinstance(serial, bool):
        return None
    return Reply(status, value["answer"], serial)


def _object(text: str) -> Mapping[str, object] | None:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def _is_int(value: object) -> bool:
    return type(value) is int


def _member(kind: type[E], value: object) -> E | None:
    # a bool is an int in Python, and equal to 0 or 1
    return next((member for member in kind if _is_int(value) and member == value), None)


def _terms(value: object) -> Terms | None:
    if not isinstance(value, dict) or not value.keys() <= _KEYS:
        return None
    link, ip, ips, fields = (value.get(key) for key in ("0", "1", "2", "3"))
    if not (link is None or isinstance(link, str)) or not (ip is None or isinstance(ip, str)):
        return None
    if not _is_list(ips) or not all(isinstance(each, str) for each in ips or ()):
        return None
    known = [_member(MasterField, _number(each)) for each in fields or ()] if _is_list(fields) else [None]
    if None in known:
        return None
    return Terms(link, ip, tuple(ips or ()), tuple(field for field in known if field is not None))


def _is_list(value: object) -> bool:
    return value is None or isinstance(value, list)


def _number(value: object) -> object:
    """A field's number: Ganeti's server wants integers, its tool sends digits."""
    is_digit = isinstance(value, str) and len(value) == 1 and value.isascii() and value.isdigit()
    return int(value) if is_digit and isinstance(value, str) else value


def _terms_to_wire(terms: Terms) -> dict[str, object]:
    parts: Sequence[tuple[str, object]] = (
        ("0", terms.link),
        ("1", terms.ip),
        ("2", list(terms.ips) or None),
        ("3", [field.value for field in terms.fields] or None),
    )
    return {key: value for key, value in parts if value is not None}


# Signed datagrams: four bytes, then JSON with a text, a salt, and the signature of both.
#
# Theory. The text is a JSON document as a string: exactly this string is signed, so it is never encoded anew. The salt
# of a request is the time, that of a reply is what the client has chosen. What is not genuine is told by None, whatever
# is wrong with it: nobody gets a reply, and a flood of it costs no more than the signature.
#
# Source: confd.md 2.


MAGIC: Final = b"plj0"
# bytes of the longest request that a server takes
MAX_REQUEST_BYTES: Final = 4096
# bytes of the longest reply that clients take
MAX_REPLY_BYTES: Final = 61440
# difference between the clocks of both ends
MAX_SKEW_S: Final = 300
# characters of the longest time that is read
_TIME_CHARACTERS: Final = 20


@attrs.frozen
class Signed:
    """A text of somebody who has the key."""

    text: str
    salt: str

    def is_recent(self, now: float) -> bool:
        """Whether the salt is a time close enough to `now`, in seconds since the epoch."""
        digits = self.salt.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= _TIME_CHARACTERS):
            return False
        return abs(int(self.salt) - now) <= MAX_SKEW_S


def seal(key: bytes, text: str, salt: str) -> bytes:
    """The datagram with a text. Args: key: all bytes of its file, also the last newline."""
    signed = {"hmac": _signature(key, text, salt), "msg": text, "salt": salt}
    return MAGIC + ascii_json(signed)


def unseal(key: bytes, datagram: bytes) -> Signed | None:
    """Read a datagram; None: it is not genuine."""
    if not datagram.startswith(MAGIC):
        return None
    try:
        outer = orjson.loads(memoryview(datagram)[len(MAGIC) :])
    except orjson.JSONDecodeError:
        return None
    if not isinstance(outer, dict):
        return None
    text, salt, given = outer.get("msg"), outer.get("salt"), outer.get("hmac")
    if not (isinstance(text, str) and isinstance(salt, str) and isinstance(given, str)):
        return None
    # bytes, as texts that are not ASCII cannot be compared
    if not hmac.compare_digest(_signature(key, text, salt).encode(), given.lower().encode()):
        return None
    return Signed(text, salt)


def _signature(key: bytes, text: str, salt: str) -> str:
    return hmac.digest(key, (salt + text).encode(), "sha1").hex()
