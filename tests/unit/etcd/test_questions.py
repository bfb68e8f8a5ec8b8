"""Requests and replies of the gateway, as bytes.

Source: lease.md 4.
"""

from base64 import b64decode

import orjson
import pytest

from protocol.etcd import questions
from protocol.etcd.kv import ComparedField, Delete, Equals, Get, KeyValue, LeaseGone, Put, Transaction

HEADER = {"cluster_id": "17", "member_id": "18446744073709551615", "revision": "9007199254740993", "raft_term": "2"}


@pytest.mark.parametrize(
    ("prefix", "end"),
    [("/a/", b"/a0"), ("a", b"b"), ("", b"\0"), ("z\udcff", b"{"), ("\udcff\udcff", b"\0")],
)
def test_a_prefix_ends_before_the_next_key_that_does_not_begin_so(prefix: str, end: bytes) -> None:
    assert b64decode(questions.end_of(prefix)) == end


def test_a_page_of_keys_begins_after_the_last_one() -> None:
    asked = questions.get(Get("/a/", is_prefix=True, limit=10, after="/a/5", revision=7, keys_only=True))

    assert orjson.loads(asked.body) == {
        "key": questions.encoded("/a/5\0"),
        "range_end": questions.encoded("/a0"),
        "limit": "10",
        "revision": "7",
        "keys_only": True,
    }


def test_a_transaction_holds_what_is_compared_and_both_lists_of_operations() -> None:
    asked = questions.transact(
        Transaction(
            [Equals("m", ComparedField.CREATED, 2**60)],
            [Put("k", b"\xff", lease=5), Delete("d", is_prefix=True)],
            [Get("m")],
        )
    )

    assert asked.path == "/v3/kv/txn"
    assert orjson.loads(asked.body) == {
        "compare": [{"key": "bQ==", "target": "CREATE", "result": "EQUAL", "create_revision": str(2**60)}],
        "success": [
            {"request_put": {"key": "aw==", "value": "/w==", "lease": "5"}},
            {"request_delete_range": {"key": "ZA==", "range_end": "ZQ=="}},
        ],
        "failure": [{"request_range": {"key": "bQ=="}}],
    }


def test_numbers_beyond_those_of_javascript_are_read_whole() -> None:
    pair = {"key": "aw==", "create_revision": str(2**62), "mod_revision": str(2**62 + 1), "version": "1", "lease": "7"}

    found = questions.get(Get("k")).read({"header": HEADER, "kvs": [pair], "count": "1", "more": True})

    assert found.header.revision == 2**53 + 1
    assert found.values == [KeyValue("k", b"", 2**62, 2**62 + 1, 7)]
    assert found.more


def test_a_comparison_that_failed_is_a_reply_without_a_word_of_success() -> None:
    found = [{"response_range": {"header": HEADER, "count": "0"}}, {"response_put": {}}]

    outcome = questions.transact(Transaction([], [], [Get("k"), Put("k", b"")])).read(
        {"header": HEADER, "responses": found}
    )

    assert not outcome.succeeded
    assert outcome.found == [[]]


def test_a_renewal_without_a_time_says_that_the_lease_is_gone() -> None:
    renewal = questions.renew(5)

    assert renewal.read({"result": {"header": HEADER, "ID": "5", "TTL": "10"}}) == 10
    with pytest.raises(LeaseGone):
        renewal.read({"result": {"header": HEADER, "ID": "5"}})
