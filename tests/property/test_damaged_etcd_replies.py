"""Replies of etcd with one fault in them: each is refused as a whole, or read as what it still says (lease.md 4).

A field that is left out has a meaning of its own there: zero, false or empty.
"""

import copy
import json
import socket
from collections.abc import Iterator, Mapping, Sequence
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemons.keeperd.renewing.duties import EtcdMember, NoWholeReply, ask_for_lease
from daemons.keeperd.renewing.orders import ResolvedEndpoint
from protocol.etcd import questions
from protocol.etcd.kv import (
    Compacted,
    ComparedField,
    Equals,
    EtcdError,
    Get,
    GetReply,
    Header,
    LeaseGone,
    Put,
    Transaction,
    TransactionReply,
    WatchEnded,
    WatchEvent,
)
from protocol.etcd.questions import EtcdQuestion, Meaning, judge

LEASE = 7
HEADER = {"cluster_id": "17", "member_id": "18446744073709551615", "revision": "9", "raft_term": "2"}
PAIR = {"key": "aw==", "value": "eA==", "create_revision": "3", "mod_revision": "4", "version": "1", "lease": "7"}
RANGE = {"header": HEADER, "kvs": [PAIR, PAIR], "count": "2", "more": True}
RENEWAL = {"result": {"header": HEADER, "ID": str(LEASE), "TTL": "10"}}
TRANSACTION = Transaction([Equals("k", ComparedField.CREATED, 0)], [Put("k", b"x"), Get("k")], [Get("k")])
EVENTS = [{"kv": PAIR}, {"type": "DELETE", "kv": {"key": "aw==", "mod_revision": "5"}}]
DONE = {"header": HEADER, "succeeded": True, "responses": [{"response_put": {}}, {"response_range": RANGE}]}
MEMBER = {"ID": "5", "name": "a", "peerURLs": ["http://a:2380"], "clientURLs": ["http://a:2379"], "isLearner": True}
STATUS = {
    **{"header": HEADER, "version": "3.4.23", "dbSize": "20480", "leader": "5", "raftIndex": "8", "raftTerm": "2"},
    **{"dbSizeInUse": "16384", "isLearner": True, "errors": ["memberID:5 alarm:NOSPACE "], "dbSizeQuota": "100"},
}
WHOLE: Mapping[str, tuple[EtcdQuestion[Any], Mapping[str, Any]]] = {
    "get": (questions.get(Get("k")), RANGE),
    "transact": (questions.transact(TRANSACTION), DONE),
    "grant": (questions.grant(10), {"header": HEADER, "ID": "7", "TTL": "10"}),
    "renew": (questions.renew(LEASE), RENEWAL),
    "revoke": (questions.revoke(LEASE), {"header": HEADER}),
    "authenticate": (questions.authenticate("u", "p"), {"header": HEADER, "token": "abc.1"}),
    "watch": (questions.watch("/", 3), {"result": {"header": HEADER, "events": EVENTS}}),
    "members": (questions.members(), {"header": HEADER, "members": [MEMBER]}),
    "status": (questions.status(), STATUS),
    "alarms": (questions.alarms(), {"header": HEADER, "alarms": [{"memberID": "5", "alarm": "NOSPACE"}]}),
    "compact": (questions.compact(5), {"header": HEADER}),
}
# in the place of a field; None among them
OTHERS: st.SearchStrategy[object] = st.sampled_from(
    [
        None,
        True,
        False,
        -1,
        1.5,
        2**64,
        [],
        {},
        [None],
        [1],
        {"a": 1},
        "",
        "-1",
        "1.5",
        "inf",
        "nan",
        "1e400",
        "٣",
        "1_0",
    ]
) | st.text(max_size=5)
Way = tuple[str | int, ...]


def ways(value: object, way: Way = ()) -> Iterator[Way]:
    """Where something stands in a reply, itself included."""
    yield way
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, each in inner:
        yield from ways(each, (*way, name))


def damaged(reply: object, way: Way, other: object) -> object:
    if not way:
        return other
    whole = copy.deepcopy(reply)
    place: Any = whole
    for name in way[:-1]:
        place = place[name]
    place[way[-1]] = other
    return whole


def cut(reply: object, way: Way) -> object:
    """The reply without what stands there."""
    whole = copy.deepcopy(reply)
    place: Any = whole
    for name in way[:-1]:
        place = place[name]
    del place[way[-1]]
    return whole


@st.composite
def damages(draw: st.DrawFn, reply: Mapping[str, Any]) -> object:
    way: Way = draw(st.sampled_from(list(ways(reply))))
    is_cut: bool = draw(st.booleans())
    other: object = draw(OTHERS)
    return cut(reply, way) if way and is_cut else damaged(reply, way, other)


def is_a(value: object, kind: Any) -> bool:
    """Whether it is of this type, all through; numbers of etcd are never negative."""
    if get_origin(kind) is Sequence or get_origin(kind) is list:
        return isinstance(value, list) and all(is_a(each, get_args(kind)[0]) for each in value)
    if attrs.has(kind):
        hints = get_type_hints(kind)
        return isinstance(value, kind) and all(is_a(getattr(value, name), hint) for name, hint in hints.items())
    if kind in (int, float):
        return isinstance(value, kind) and not isinstance(value, bool) and 0 <= value < 2**64
    return isinstance(value, kind)


KINDS: Mapping[str, Any] = {
    **{"get": GetReply, "transact": TransactionReply, "grant": questions.Granted, "renew": float},
    **{"revoke": Header, "authenticate": str, "watch": Sequence[WatchEvent]},
    **{"members": Sequence[questions.MemberEntry], "status": questions.MemberStatus},
    **{"alarms": Sequence[questions.Alarm], "compact": NoneType},
}


@pytest.mark.parametrize("name", WHOLE)
def test_the_whole_replies_are_read(name: str) -> None:
    question, reply = WHOLE[name]

    assert is_a(question.read(reply), KINDS[name])


@pytest.mark.parametrize("name", WHOLE)
@given(data=st.data())
def test_a_damaged_reply_is_refused_or_read_as_values_of_the_right_types(name: str, data: st.DataObject) -> None:
    question, reply = WHOLE[name]
    told: Any = data.draw(damages(reply))

    try:
        found = question.read(told)
    except (ValueError, LeaseGone, WatchEnded, Compacted):
        return

    assert is_a(found, KINDS[name])


NEVER_SAID: Sequence[tuple[str, Way, Sequence[object]]] = [
    ("transact", ("succeeded",), [None, "false", 1, []]),
    ("transact", ("responses",), [None, [], [{"response_put": {}}]]),
    ("transact", ("responses", 1), [{}]),
    ("renew", ("result", "TTL"), [None, True, -1, "-1", "nan", "inf", [], {}]),
    ("renew", ("result", "ID"), [None, "8"]),
    ("grant", ("TTL",), ["0"]),
    ("get", ("kvs", 0, "key"), ["?"]),
    ("get", ("kvs", 0, "mod_revision"), ["0"]),
    ("get", ("header", "cluster_id"), [17]),
    ("get", ("more",), ["false"]),
    ("watch", ("result", "canceled"), [None]),
    ("watch", ("result", "events", 0, "type"), ["GONE"]),
    ("authenticate", ("token",), [None, "abc\r\nX: y"]),
    ("members", ("members",), [[]]),
    ("compact", (), [None]),
]


@pytest.mark.parametrize(
    ("name", "way", "other"), [(name, way, other) for name, way, others in NEVER_SAID for other in others]
)
def test_what_etcd_never_says_is_no_verdict(name: str, way: Way, other: object) -> None:
    question, reply = WHOLE[name]
    told: Any = damaged(reply, way, other)

    with pytest.raises(ValueError):  # noqa: PT011
        question.read(told)


class _Member(EtcdMember):
    """A member that gives one reply."""

    def __init__(self, reply: bytes) -> None:
        super().__init__(ResolvedEndpoint(socket.AF_INET, ("127.0.0.1", 1), "127.0.0.1", 1, is_tls=False), None)
        self._says = reply

    def post(self, path: str, body: bytes, limit_s: float) -> tuple[int, bytes]:
        return 200, self._says


@given(told=damages(RENEWAL))
def test_a_damaged_renewal_is_silence_and_never_the_end_of_a_lease(told: object) -> None:
    try:
        lives_s = ask_for_lease(_Member(json.dumps(told).encode()), None, LEASE, 10.0)
    except NoWholeReply:
        return

    result: Any = told["result"] if isinstance(told, dict) else {}
    assert lives_s == float(result.get("TTL", 0))


@given(
    status=st.integers(100, 599),
    reply=st.recursive(OTHERS, lambda inner: st.dictionaries(st.sampled_from(["error", "message", "code"]), inner)),
)
def test_a_refusal_in_any_shape_has_a_meaning(status: int, reply: object) -> None:
    refusal = judge(status, json.dumps(reply).encode())

    assert refusal.text
    if refusal.meaning is not Meaning.UNKNOWN:
        assert isinstance(refusal.error, EtcdError)


@pytest.mark.parametrize("number", ["1.2.3", "1e999", "e", "+"])
def test_a_quota_that_is_no_number_is_not_told(number: str) -> None:
    assert questions.quota_of(f"etcd_server_quota_backend_bytes {number}\n".encode()) == 0
