"""Datagrams of confd: what is written is read again, and nothing else gets a reply."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from daemons.confd.core.answers import NoReplyReason, judge
from protocol.confd.questions import (
    MAGIC,
    Argument,
    ConfdRequest,
    MasterField,
    Question,
    Reply,
    ReplyStatus,
    Terms,
    read_reply,
    read_request,
    seal,
    unseal,
)
from tests.support.machines.confds import KEY, recorded_snapshot

NOW = 1_400_000_000
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=10,
)
TERMS = st.builds(
    Terms,
    st.none() | TEXTS,
    st.none() | TEXTS,
    st.lists(TEXTS, max_size=3).map(tuple),
    st.lists(st.sampled_from(MasterField), max_size=3).map(tuple),
)
REQUESTS = st.builds(ConfdRequest, st.sampled_from(Question), TEXTS, st.none() | TEXTS | TERMS)


@given(request=REQUESTS, salt=TEXTS)
def test_a_request_is_read_as_it_was_written(request: ConfdRequest, salt: str) -> None:
    signed = unseal(KEY, seal(KEY, request.to_text(), salt))

    assert signed is not None
    assert signed.salt == salt
    assert read_request(signed.text) == request


@given(status=st.sampled_from(ReplyStatus), answer=JSON, serial=st.integers(0, 2**60))
def test_a_reply_is_read_as_it_was_written(status: ReplyStatus, answer: Any, serial: int) -> None:
    reply = Reply(status, answer, serial)

    assert read_reply(reply.to_text()) == reply


@given(text=TEXTS, salt=TEXTS, place=st.integers(0, 10**6), change=st.integers(1, 255))
def test_a_changed_byte_of_text_salt_or_signature_is_noticed(text: str, salt: str, place: int, change: int) -> None:
    datagram = bytearray(seal(KEY, text, salt))
    place %= len(datagram)
    datagram[place] ^= change

    signed = unseal(KEY, bytes(datagram))

    # another way to write the same: capitals of the signature, or of an escape
    assert signed is None or (signed.text, signed.salt) == (text, salt)


@given(datagram=st.binary(max_size=200) | st.binary(max_size=200).map(lambda rest: MAGIC + rest))
def test_bytes_of_whoever_lacks_the_key_get_silence(datagram: bytes) -> None:
    assert isinstance(judge(recorded_snapshot(), datagram, NOW), NoReplyReason)


@given(outer=JSON | st.fixed_dictionaries({"msg": JSON, "salt": JSON, "hmac": JSON}))
def test_objects_of_any_shape_get_silence(outer: Any) -> None:
    assert isinstance(judge(recorded_snapshot(), MAGIC + json.dumps(outer).encode(), NOW), NoReplyReason)


@given(question=st.sampled_from(Question), argument=st.none() | TEXTS | TERMS)
def test_a_signed_question_is_always_answered(question: Question, argument: Argument) -> None:
    reply = judge(recorded_snapshot(), seal(KEY, ConfdRequest(question, "r", argument).to_text(), str(NOW)), NOW)

    assert isinstance(reply, bytes)
    signed = unseal(KEY, reply)
    assert signed is not None
    assert read_reply(signed.text) is not None


@given(text=JSON.map(json.dumps) | TEXTS)
def test_any_signed_text_is_judged(text: str) -> None:
    judge(recorded_snapshot(), seal(KEY, text, str(NOW)), NOW)
