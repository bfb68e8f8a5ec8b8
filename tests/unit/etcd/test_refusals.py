"""Errors of etcd 3.4 to 3.7 in all their shapes, as recorded.

Source: lease.md 1, 4 and 5.
"""

from collections.abc import Callable

import pytest

from protocol.etcd.kv import Compacted, EtcdCorrupt, EtcdDenied, EtcdFull, LeaseGone, TooLarge
from protocol.etcd.questions import Meaning, judge


def of_34(text: str, code: int) -> bytes:
    return f'{{"error":"{text}","message":"{text}","code":{code}}}'.encode()


def of_35(text: str, code: int) -> bytes:
    return f'{{"error":"{text}","code":{code}}}'.encode()


def of_36(text: str, code: int) -> bytes:
    return f'{{"code":{code},"message":"{text}","details":[]}}'.encode()


def of_a_stream(text: str, code: int) -> bytes:
    return f'{{"error":{{"grpc_code":{code},"http_code":503,"message":"{text}","http_status":"x"}}}}'.encode()


def of_a_stream_of_36(text: str, code: int) -> bytes:
    return f'{{"error":{{"code":{code},"message":"{text}","details":[]}}}}'.encode()


SHAPES = (of_34, of_35, of_36, of_a_stream, of_a_stream_of_36)
KNOWN = (
    (429, 8, "etcdserver: mvcc: database space exceeded", Meaning.FULL),
    (404, 5, "etcdserver: requested lease not found", Meaning.LEASE_GONE),
    (400, 3, "etcdserver: too many operations in txn request", Meaning.TOO_LARGE),
    (400, 3, "etcdserver: request is too large", Meaning.TOO_LARGE),
    (429, 8, "grpc: received message larger than max (9 vs. 8)", Meaning.TOO_LARGE),
    (400, 11, "etcdserver: mvcc: required revision has been compacted", Meaning.COMPACTED),
    (500, 15, "etcdserver: corrupt cluster", Meaning.CORRUPT),
    (401, 16, "etcdserver: invalid auth token", Meaning.NO_TOKEN),
    (400, 3, "etcdserver: user name is empty", Meaning.NO_TOKEN),
    (400, 3, "etcdserver: revision of auth store is old", Meaning.NO_TOKEN),
    (403, 7, "etcdserver: permission denied", Meaning.DENIED),
    (400, 3, "etcdserver: authentication failed, invalid user ID or password", Meaning.DENIED),
    (412, 9, "etcdserver: authentication is not enabled", Meaning.NO_USERS),
    (400, 3, "etcdserver: key is not provided", Meaning.REFUSED),
    (412, 9, "etcdserver: bad leader transferee", Meaning.REFUSED),
    # nobody knows what became of these, whatever their codes say
    (500, 2, "context deadline exceeded", Meaning.UNKNOWN),
    (503, 14, "etcdserver: request timed out", Meaning.UNKNOWN),
    (503, 14, "etcdserver: no leader", Meaning.UNKNOWN),
    (500, 2, "etcdserver: no leader", Meaning.UNKNOWN),
    (503, 14, "etcdserver: leader changed", Meaning.UNKNOWN),
    (503, 14, "etcdserver: server stopped", Meaning.UNKNOWN),
    (429, 8, "etcdserver: too many requests", Meaning.UNKNOWN),
    (503, 14, "all SubConns are in TransientFailure", Meaning.UNKNOWN),
)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("status", "code", "text", "meaning"), KNOWN)
def test_an_error_means_the_same_in_each_shape(
    shape: Callable[[str, int], bytes], status: int, code: int, text: str, meaning: Meaning
) -> None:
    refusal = judge(status, shape(text, code))

    assert (refusal.meaning, refusal.text) == (meaning, text)


@pytest.mark.parametrize(
    ("status", "body", "meaning"),
    [
        (404, b"Not Found\n", Meaning.UNKNOWN),
        (502, b"<html>bad gateway</html>", Meaning.UNKNOWN),
        (503, b"", Meaning.UNKNOWN),
        (500, b"[1, 2]", Meaning.UNKNOWN),
        (400, b"CommonName of client sending a request against gateway will be ignored", Meaning.DENIED),
    ],
)
def test_a_reply_that_is_no_json_is_judged_by_its_text(status: int, body: bytes, meaning: Meaning) -> None:
    assert judge(status, body).meaning is meaning


@pytest.mark.parametrize(
    ("meaning", "kind"),
    [
        (Meaning.FULL, EtcdFull),
        (Meaning.CORRUPT, EtcdCorrupt),
        (Meaning.LEASE_GONE, LeaseGone),
        (Meaning.TOO_LARGE, TooLarge),
        (Meaning.COMPACTED, Compacted),
        (Meaning.DENIED, EtcdDenied),
        (Meaning.NO_TOKEN, EtcdDenied),
    ],
)
def test_callers_get_an_error_of_its_kind_with_the_words_of_etcd(meaning: Meaning, kind: type[Exception]) -> None:
    status, code, text, _ = next(each for each in KNOWN if each[3] is meaning)

    error = judge(status, of_34(text, code)).error

    assert type(error) is kind
    assert text in error.message
