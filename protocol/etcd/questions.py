"""Requests to the JSON gateway of etcd, and how their replies are read; no I/O.

Keys and values are base64, numbers of 64 bits are strings, and what is zero, false or empty is left out, both ways.

Source: lease.md 4.
"""

import enum
import re
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Generic, TypeVar, assert_never

import attrs
import orjson

from protocol.etcd.kv import (
    Compacted,
    ComparedField,
    Delete,
    Equals,
    EtcdCorrupt,
    EtcdDenied,
    EtcdError,
    EtcdFull,
    Get,
    GetReply,
    Header,
    KeyValue,
    LeaseGone,
    LeaseId,
    Nested,
    Operation,
    Put,
    TooLarge,
    Transaction,
    TransactionReply,
    WatchEnded,
    WatchEvent,
)
from protocol.etcd.replyfields import (
    Json,
    content,
    flag,
    inner,
    lease_seconds,
    needed_text,
    number,
    rows,
    text,
    texts,
    token,
)

R = TypeVar("R")
# keys of others need not be text
_FOREIGN: Final = "surrogateescape"
# a put is left out, as the first of the enumeration
_EVENTS: Final = ("", "PUT", "DELETE")
_TARGETS: Final = {ComparedField.CREATED: "CREATE", ComparedField.MODIFIED: "MOD", ComparedField.LEASE: "LEASE"}


@attrs.frozen
class EtcdQuestion(Generic[R]):
    """A request, and what makes a value of its reply.

    `read` raises ValueError for a reply that is none of etcd's.
    """

    path: str
    body: bytes
    read: Callable[[Json], R]
    # whether a member may take all the time that the caller has
    takes_long: bool = False


@attrs.frozen
class Granted:
    lease: LeaseId
    # seconds; may be more than asked for
    ttl_s: float


def get(asked: Get) -> EtcdQuestion[GetReply]:
    return EtcdQuestion("/v3/kv/range", orjson.dumps(_range(asked)), _found)


def transact(transaction: Transaction) -> EtcdQuestion[TransactionReply]:
    body = {
        "compare": [_comparison(each) for each in transaction.when],
        "success": [_operation(each) for each in transaction.then],
        "failure": [_operation(each) for each in transaction.otherwise],
    }
    return EtcdQuestion("/v3/kv/txn", orjson.dumps(body), lambda reply: _outcome(transaction, reply))


def grant(ttl_s: int) -> EtcdQuestion[Granted]:
    return EtcdQuestion("/v3/lease/grant", orjson.dumps({"TTL": str(ttl_s)}), _granted)


def renew(lease: LeaseId) -> EtcdQuestion[float]:
    """The reply is the seconds that the lease lives from now on. Its reading raises LeaseGone."""

    def read(reply: Json) -> float:
        ttl_s = float(lease_seconds(reply, lease))
        if not ttl_s:
            raise LeaseGone(f"the lease {lease:x} has run out, or was revoked")
        return ttl_s

    return EtcdQuestion("/v3/lease/keepalive", orjson.dumps({"ID": str(lease)}), read)


def revoke(lease: LeaseId) -> EtcdQuestion[Header]:
    return EtcdQuestion("/v3/lease/revoke", orjson.dumps({"ID": str(lease)}), header_of)


def authenticate(user: str, password: str) -> EtcdQuestion[str]:
    """The reply is a token, for the member that gives it."""
    return EtcdQuestion("/v3/auth/authenticate", orjson.dumps({"name": user, "password": password}), token)


def watch(prefix: str, after_revision: int) -> EtcdQuestion[Sequence[WatchEvent]]:
    """Each line of the reply holds events. Their reading raises Compacted, and WatchEnded for any other end."""
    asked = {
        "key": encoded(prefix or "\0"),
        "range_end": end_of(prefix),
        "start_revision": str(after_revision + 1),
        "progress_notify": True,
    }
    return EtcdQuestion("/v3/watch", orjson.dumps({"create_request": asked}), _events)


def header_of(reply: Json) -> Header:
    header = inner(reply, "header")
    return Header(
        needed_text(header, "cluster_id"),
        needed_text(header, "member_id"),
        _positive(header, "revision"),
        number(header, "raft_term"),
    )


def key_value(pair: Json) -> KeyValue:
    key = content(pair, "key").decode(errors=_FOREIGN)
    if not key:
        raise ValueError("a key is empty")
    return KeyValue(
        key,
        content(pair, "value"),
        number(pair, "create_revision"),
        _positive(pair, "mod_revision"),
        number(pair, "lease"),
    )


def _positive(of: Json, name: str) -> int:
    found = number(of, name)
    if not found:
        raise ValueError(f"'{name}' is missing")
    return found


def encoded(key: str) -> str:
    """A key as it is sent."""
    return b64encode(key.encode(errors=_FOREIGN)).decode()


def end_of(prefix: str) -> str:
    """The first key after all that begin so, as it is sent."""
    raw = prefix.encode(errors=_FOREIGN)
    while raw and raw[-1] == 0xFF:
        raw = raw[:-1]
    # a zero byte: the end of all keys
    return b64encode(raw[:-1] + bytes([raw[-1] + 1]) if raw else b"\0").decode()


def _range(asked: Get) -> dict[str, object]:
    body: dict[str, object] = {"key": encoded(asked.key or "\0")}
    if asked.is_prefix:
        body["range_end"] = end_of(asked.key)
    if asked.after:
        body["key"] = encoded(f"{asked.after}\0")
    if asked.limit:
        body["limit"] = str(asked.limit)
    if asked.revision:
        body["revision"] = str(asked.revision)
    if asked.keys_only:
        body["keys_only"] = True
    return body


def _comparison(equals: Equals) -> dict[str, object]:
    return {
        "key": encoded(equals.key),
        "target": _TARGETS[equals.field],
        "result": "EQUAL",
        equals.field.value: str(equals.number),
    }


def _operation(operation: Operation) -> dict[str, object]:
    match operation:
        case Put(key, value, lease):
            put = {"key": encoded(key), "value": b64encode(value).decode()}
            return {"request_put": {**put, "lease": str(lease)} if lease else put}
        case Delete(key, is_prefix):
            gone = {"key": encoded(key)}
            return {"request_delete_range": {**gone, "range_end": end_of(key)} if is_prefix else gone}
        case Get():
            return {"request_range": _range(operation)}
        case Nested(when, then):
            inner = {"compare": [_comparison(each) for each in when], "success": [_operation(each) for each in then]}
            return {"request_txn": inner}
        case _:
            assert_never(operation)


def _found(reply: Json) -> GetReply:
    return GetReply(header_of(reply), _values(reply), flag(reply, "more"))


def _values(reply: Json) -> Sequence[KeyValue]:
    return [key_value(pair) for pair in rows(reply, "kvs")]


def _outcome(transaction: Transaction, reply: Json) -> TransactionReply:
    succeeded = flag(reply, "succeeded")
    carried_out = transaction.then if succeeded else transaction.otherwise
    # each operation has its response, in the same place
    pairs = zip(carried_out, rows(reply, "responses"), strict=True)
    found = [_values(inner(part, "response_range")) for operation, part in pairs if isinstance(operation, Get)]
    return TransactionReply(header_of(reply), succeeded, found)


def _events(reply: Json) -> Sequence[WatchEvent]:
    news = inner(reply, "result")
    if compacted := number(news, "compact_revision"):
        raise Compacted(f"etcd has compacted its history up to the revision {compacted}")
    if flag(news, "canceled"):
        raise WatchEnded(f"etcd has canceled the watch: {text(news, 'cancel_reason') or 'it gives no reason'}")
    return [_event(each) for each in rows(news, "events")]


def _event(told: Json) -> WatchEvent:
    kind = text(told, "type")
    if kind not in _EVENTS:
        raise ValueError(f"an event of a watch is {kind!r:.40}")
    return WatchEvent(key_value(inner(told, "kv")), kind == "DELETE")


def _granted(reply: Json) -> Granted:
    return Granted(_positive(reply, "ID"), float(_positive(reply, "TTL")))


# Questions about the members of etcd, and what keeps etcd in order; no I/O.
#
# Source: lease.md 5.


_QUOTA: Final = re.compile(rb"^etcd_server_quota_backend_bytes ([0-9.e+]+)$", re.MULTILINE)


@attrs.frozen
class MemberEntry:
    """A member as etcd knows it."""

    member_id: str
    # empty: it was never started
    name: str
    peer_urls: Sequence[str]
    client_urls: Sequence[str]
    # whether it has no vote
    is_learner: bool = False


@attrs.frozen
class MemberStatus:
    """What a member says of itself."""

    header: Header
    # such as 3.4.23
    release: str
    # bytes of its file, and of those what is not free
    size: int
    used: int
    # id of the leader that it follows; empty: none
    leader: str
    is_learner: bool = False
    # such as an alarm
    faults: Sequence[str] = ()
    # bytes, as releases from 3.6 on tell; 0: it does not tell
    quota: int = 0

    @property
    def member_id(self) -> str:
        return self.header.member_id

    @property
    def is_leader(self) -> bool:
        return bool(self.leader) and self.leader == self.member_id


@attrs.frozen
class Alarm:
    member_id: str
    # NOSPACE or CORRUPT, as etcd says it
    kind: str

    @property
    def is_full(self) -> bool:
        return self.kind == "NOSPACE"


def members() -> EtcdQuestion[Sequence[MemberEntry]]:
    def read(reply: Json) -> Sequence[MemberEntry]:
        found = [
            MemberEntry(
                needed_text(each, "ID"),
                text(each, "name"),
                texts(each, "peerURLs"),
                texts(each, "clientURLs"),
                flag(each, "isLearner"),
            )
            for each in rows(reply, "members")
        ]
        if not found:
            raise ValueError("no member is named")
        return found

    return EtcdQuestion("/v3/cluster/member/list", b"{}", read)


def status() -> EtcdQuestion[MemberStatus]:
    def read(reply: Json) -> MemberStatus:
        return MemberStatus(
            header_of(reply),
            needed_text(reply, "version"),
            number(reply, "dbSize"),
            number(reply, "dbSizeInUse"),
            _id(text(reply, "leader")),
            flag(reply, "isLearner"),
            texts(reply, "errors"),
            number(reply, "dbSizeQuota"),
        )

    return EtcdQuestion("/v3/maintenance/status", b"{}", read)


def alarms() -> EtcdQuestion[Sequence[Alarm]]:
    def read(reply: Json) -> Sequence[Alarm]:
        return [Alarm(needed_text(each, "memberID"), needed_text(each, "alarm")) for each in rows(reply, "alarms")]

    return EtcdQuestion("/v3/maintenance/alarm", b'{"action":"GET"}', read)


def disarm(alarm: Alarm) -> EtcdQuestion[None]:
    body = {"action": "DEACTIVATE", "memberID": alarm.member_id, "alarm": alarm.kind}
    return EtcdQuestion("/v3/maintenance/alarm", orjson.dumps(body), _nothing)


def compact(revision: int) -> EtcdQuestion[None]:
    """The reply comes when the member that is asked has removed the old revisions from its file.

    It waits for that also where they were compacted already, and the reply says so; others may lag behind.
    """
    body = {"revision": str(revision), "physical": True}
    return EtcdQuestion("/v3/kv/compaction", orjson.dumps(body), _nothing, takes_long=True)


def defragment() -> EtcdQuestion[None]:
    return EtcdQuestion("/v3/maintenance/defragment", b"{}", _nothing)


def move_leader(member_id: str) -> EtcdQuestion[None]:
    return EtcdQuestion("/v3/maintenance/transfer-leadership", orjson.dumps({"targetID": member_id}), _nothing)


def quota_of(metrics: bytes) -> int:
    """The quota in bytes by a member's metrics; 0: they do not tell it."""
    found = _QUOTA.search(metrics)
    try:
        return int(float(found.group(1))) if found else 0
    except (ValueError, OverflowError):
        return 0


def _nothing(reply: Json) -> None:
    if not isinstance(reply, dict):
        raise ValueError("the reply is not an object")


def _id(number: str) -> str:
    return "" if number == "0" else number


# How error replies of etcd are interpreted.
#
# Theory. Releases 3.4 to 3.7 report errors in four shapes, and their codes are not to be trusted: the same fault has
# come with several. So a refusal is known by its text first and by its code only where that decides nothing. What is
# not in the tables is unknown: the request may have been carried out, and is sent again.
#
# Source: lease.md 1, 4 and 5.


# characters of a text that is not etcd's
_LONGEST: Final = 200


class Meaning(enum.Enum):
    # nobody knows what became of the request; ask again, or another member
    UNKNOWN = "unknown"
    FULL = "full"
    CORRUPT = "corrupt"
    LEASE_GONE = "lease gone"
    TOO_LARGE = "too large"
    COMPACTED = "compacted"
    DENIED = "denied"
    # the token is missing, or does not count any more: log in again
    NO_TOKEN = "no token"
    # etcd asks nobody who he is
    NO_USERS = "no users"
    # any other certain refusal
    REFUSED = "refused"


@attrs.frozen
class EtcdRefusal:
    meaning: Meaning
    # in etcd's words
    text: str

    @property
    def error(self) -> EtcdError:
        """The error for callers. The meaning is not unknown."""
        kind = _ERRORS.get(self.meaning, EtcdError)
        return kind(f"{_BEGINNINGS.get(self.meaning, 'etcd refuses the request')}: {self.text}")


_ERRORS: Final[Mapping[Meaning, type[EtcdError]]] = {
    Meaning.FULL: EtcdFull,
    Meaning.CORRUPT: EtcdCorrupt,
    Meaning.LEASE_GONE: LeaseGone,
    Meaning.TOO_LARGE: TooLarge,
    Meaning.COMPACTED: Compacted,
    Meaning.DENIED: EtcdDenied,
    Meaning.NO_TOKEN: EtcdDenied,
}
_BEGINNINGS: Final[Mapping[Meaning, str]] = {
    Meaning.FULL: "etcd is full and takes no changes; 'gantry cluster' tells what to do",
    Meaning.CORRUPT: "etcd has found corrupt data and serves nothing",
    Meaning.DENIED: "etcd does not let this user do this (setting 'user' of '[etcd]')",
    Meaning.NO_TOKEN: "etcd asks for a user and a password (settings 'user' and 'password_file' of '[etcd]')",
}
# part of a text -> what it means; the first that fits counts
_TEXTS: Final = (
    ("database space exceeded", Meaning.FULL),
    ("corrupt cluster", Meaning.CORRUPT),
    ("requested lease not found", Meaning.LEASE_GONE),
    ("request is too large", Meaning.TOO_LARGE),
    ("message larger than max", Meaning.TOO_LARGE),
    ("too many operations", Meaning.TOO_LARGE),
    ("has been compacted", Meaning.COMPACTED),
    ("invalid auth token", Meaning.NO_TOKEN),
    ("user name is empty", Meaning.NO_TOKEN),
    ("revision of auth store is old", Meaning.NO_TOKEN),
    ("authentication is not enabled", Meaning.NO_USERS),
    ("authentication failed", Meaning.DENIED),
    ("permission denied", Meaning.DENIED),
    ("CommonName of client", Meaning.DENIED),
)
# gRPC's codes that are certain refusals, whatever the text: invalid, not found, exists, denied, precondition, range,
# unimplemented
_CERTAIN: Final = frozenset({3, 5, 6, 7, 9, 11, 12})
_UNAUTHENTICATED: Final = 16


def judge(status: int, body: bytes) -> EtcdRefusal:
    """Tell what a reply means whose status is not 200, or that is an error of a stream."""
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        text = body[:_LONGEST].decode(errors="replace").strip()
        return EtcdRefusal(_by_text(text) or Meaning.UNKNOWN, f"HTTP {status}: {text}" if text else f"HTTP {status}")
    text, code = _text_and_code(found)
    return EtcdRefusal(_by_text(text) or _by_code(code), text or f"HTTP {status}, code {code}")


def judge_text(text: str) -> EtcdRefusal:
    """Tell what the reason of a watch that was canceled means."""
    return EtcdRefusal(_by_text(text) or Meaning.UNKNOWN, text)


def _text_and_code(found: Mapping[str, object]) -> tuple[str, object]:
    inner = found.get("error")
    if isinstance(inner, dict):
        # of a stream: 3.4 and 3.5 say grpc_code, 3.6 says code
        return str(inner.get("message", "")), inner.get("grpc_code", inner.get("code"))
    return str(found.get("message") or inner or ""), found.get("code")


def _by_text(text: str) -> Meaning | None:
    return next((meaning for part, meaning in _TEXTS if part in text), None)


def _by_code(code: object) -> Meaning:
    # anything else than a whole number says nothing
    if isinstance(code, bool) or not isinstance(code, int):
        return Meaning.UNKNOWN
    if code == _UNAUTHENTICATED:
        return Meaning.NO_TOKEN
    return Meaning.REFUSED if code in _CERTAIN else Meaning.UNKNOWN
