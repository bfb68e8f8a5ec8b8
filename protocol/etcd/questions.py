"""Requests to the JSON gateway of etcd, and how their replies are read; no I/O.

Keys and values are base64, numbers of 64 bits are strings, and what is zero, false or empty is left out, both ways.

Source: lease.md 4.
"""

from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar, assert_never

import attrs
import orjson

from protocol.etcd.errors import Compacted, LeaseGone, WatchEnded
from protocol.etcd.kv import (
    Delete,
    Equals,
    Field,
    Found,
    Get,
    Header,
    KeyValue,
    LeaseId,
    Nested,
    Operation,
    Outcome,
    Put,
    Transaction,
    WatchEvent,
)
from protocol.etcd.replyfields import Json, content, flag, inner, lease_seconds, needed_text, number, rows, text, token

R = TypeVar("R")
# keys of others need not be text
_FOREIGN: Final = "surrogateescape"
# a put is left out, as the first of the enumeration
_EVENTS: Final = ("", "PUT", "DELETE")
_TARGETS: Final = {Field.CREATED: "CREATE", Field.MODIFIED: "MOD", Field.LEASE: "LEASE"}


@attrs.frozen
class Question(Generic[R]):
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


def get(asked: Get) -> Question[Found]:
    return Question("/v3/kv/range", orjson.dumps(_range(asked)), _found)


def transact(transaction: Transaction) -> Question[Outcome]:
    body = {
        "compare": [_comparison(each) for each in transaction.when],
        "success": [_operation(each) for each in transaction.then],
        "failure": [_operation(each) for each in transaction.otherwise],
    }
    return Question("/v3/kv/txn", orjson.dumps(body), lambda reply: _outcome(transaction, reply))


def grant(ttl_s: int) -> Question[Granted]:
    return Question("/v3/lease/grant", orjson.dumps({"TTL": str(ttl_s)}), _granted)


def renew(lease: LeaseId) -> Question[float]:
    """The reply is the seconds that the lease lives from now on. Its reading raises LeaseGone."""

    def read(reply: Json) -> float:
        ttl_s = float(lease_seconds(reply, lease))
        if not ttl_s:
            raise LeaseGone(f"the lease {lease:x} has run out, or was revoked")
        return ttl_s

    return Question("/v3/lease/keepalive", orjson.dumps({"ID": str(lease)}), read)


def revoke(lease: LeaseId) -> Question[Header]:
    return Question("/v3/lease/revoke", orjson.dumps({"ID": str(lease)}), header_of)


def authenticate(user: str, password: str) -> Question[str]:
    """The reply is a token, for the member that gives it."""
    return Question("/v3/auth/authenticate", orjson.dumps({"name": user, "password": password}), token)


def watch(prefix: str, after_revision: int) -> Question[Sequence[WatchEvent]]:
    """Each line of the reply holds events. Their reading raises Compacted, and WatchEnded for any other end."""
    asked = {
        "key": encoded(prefix or "\0"),
        "range_end": end_of(prefix),
        "start_revision": str(after_revision + 1),
        "progress_notify": True,
    }
    return Question("/v3/watch", orjson.dumps({"create_request": asked}), _events)


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


def _found(reply: Json) -> Found:
    return Found(header_of(reply), _values(reply), flag(reply, "more"))


def _values(reply: Json) -> Sequence[KeyValue]:
    return [key_value(pair) for pair in rows(reply, "kvs")]


def _outcome(transaction: Transaction, reply: Json) -> Outcome:
    succeeded = flag(reply, "succeeded")
    carried_out = transaction.then if succeeded else transaction.otherwise
    # each operation has its response, in the same place
    pairs = zip(carried_out, rows(reply, "responses"), strict=True)
    found = [_values(inner(part, "response_range")) for operation, part in pairs if isinstance(operation, Get)]
    return Outcome(header_of(reply), succeeded, found)


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
