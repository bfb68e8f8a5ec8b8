"""Requests to the JSON gateway of etcd, and how their replies are read; no I/O.

Keys and values are base64, numbers of 64 bits are strings, and what is zero, false or empty is left out, both ways.

Source: lease.md 4.
"""

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar, assert_never

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

Json = Mapping[str, Any]
R = TypeVar("R")
# keys of others need not be text
_FOREIGN: Final = "surrogateescape"
_TARGETS: Final = {Field.CREATED: "CREATE", Field.MODIFIED: "MOD", Field.LEASE: "LEASE"}


@attrs.frozen
class Question(Generic[R]):
    """A request, and what makes a value of its reply.

    `read` raises KeyError, TypeError, ValueError or AttributeError for a reply that is none of etcd's.
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
    return Question("/v3/kv/txn", orjson.dumps(body), _outcome)


def grant(ttl_s: int) -> Question[Granted]:
    return Question("/v3/lease/grant", orjson.dumps({"TTL": str(ttl_s)}), _granted)


def renew(lease: LeaseId) -> Question[float]:
    """The reply is the seconds that the lease lives from now on. Its reading raises LeaseGone."""

    def read(reply: Json) -> float:
        ttl_s = float(result(reply).get("TTL", 0))
        if ttl_s <= 0:
            raise LeaseGone(f"the lease {lease:x} has run out, or was revoked")
        return ttl_s

    return Question("/v3/lease/keepalive", orjson.dumps({"ID": str(lease)}), read)


def revoke(lease: LeaseId) -> Question[Header]:
    return Question("/v3/lease/revoke", orjson.dumps({"ID": str(lease)}), header_of)


def authenticate(user: str, password: str) -> Question[str]:
    """The reply is a token, for the member that gives it."""

    def read(reply: Json) -> str:
        return str(reply["token"])

    return Question("/v3/auth/authenticate", orjson.dumps({"name": user, "password": password}), read)


def watch(prefix: str, after_revision: int) -> Question[Sequence[WatchEvent]]:
    """Each line of the reply holds events. Their reading raises Compacted, and WatchEnded for any other end."""
    asked = {
        "key": encoded(prefix or "\0"),
        "range_end": end_of(prefix),
        "start_revision": str(after_revision + 1),
        "progress_notify": True,
    }
    return Question("/v3/watch", orjson.dumps({"create_request": asked}), _events)


def result(reply: Json) -> Json:
    """What a line of a stream holds."""
    inner: Json = reply["result"]
    return inner


def header_of(reply: Json) -> Header:
    header = reply["header"]
    return Header(
        header["cluster_id"], header["member_id"], int(header.get("revision", 0)), int(header.get("raft_term", 0))
    )


def key_value(pair: Json) -> KeyValue:
    return KeyValue(
        b64decode(pair["key"]).decode(errors=_FOREIGN),
        b64decode(pair.get("value", "")),
        int(pair.get("create_revision", 0)),
        int(pair.get("mod_revision", 0)),
        int(pair.get("lease", 0)),
    )


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
    return Found(header_of(reply), _values(reply), bool(reply.get("more", False)))


def _values(reply: Json) -> Sequence[KeyValue]:
    return [key_value(pair) for pair in reply.get("kvs", ())]


def _outcome(reply: Json) -> Outcome:
    found = [_values(part["response_range"]) for part in reply.get("responses", ()) if "response_range" in part]
    return Outcome(header_of(reply), bool(reply.get("succeeded", False)), found)


def _events(reply: Json) -> Sequence[WatchEvent]:
    news = result(reply)
    if int(news.get("compact_revision", 0)):
        raise Compacted(f"etcd has compacted its history up to the revision {news['compact_revision']}")
    if news.get("canceled", False):
        raise WatchEnded(f"etcd has canceled the watch: {news.get('cancel_reason') or 'it gives no reason'}")
    return [WatchEvent(key_value(each["kv"]), each.get("type") == "DELETE") for each in news.get("events", ())]


def _granted(reply: Json) -> Granted:
    return Granted(int(reply["ID"]), float(reply["TTL"]))
