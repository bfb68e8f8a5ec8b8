"""What gets no reply, and what every question gets while there is no configuration (confd.md 2 and 5)."""

import json

import attrs
import pytest

from daemons.confd.core.answers import ConfigSnapshot, NoReplyReason, judge
from protocol.confd.questions import (
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
from tests.support.machines.confds import KEY, rich_document, snapshot_of

NOW = 1_400_000_000.0
SNAPSHOT = snapshot_of(rich_document())


def asked(question: Question = Question.PING, *, salt: str = "1400000000", key: bytes = KEY) -> bytes:
    return seal(key, ConfdRequest(question, "r").to_text(), salt)


def reply_to(datagram: bytes, snapshot: ConfigSnapshot = SNAPSHOT) -> Reply | None:
    sealed = judge(snapshot, datagram, NOW)
    assert isinstance(sealed, bytes), sealed
    signed = unseal(KEY, sealed)
    assert signed is not None
    assert signed.salt == "r"
    return read_reply(signed.text)


def signed_text(text: str) -> bytes:
    return seal(KEY, text, "1400000000")


@pytest.mark.parametrize("salt", ["1400000300", "1399999700", "1400000000"])
def test_a_time_within_300_s_either_way_is_taken(salt: str) -> None:
    assert reply_to(asked(salt=salt)) == Reply(ReplyStatus.OK, 3000000)


@pytest.mark.parametrize(
    "salt", ["1400000301", "1399999699", "", "-", "--1", "1400000000.5", " 1400000000", "9" * 4000]
)
def test_any_other_time_is_not(salt: str) -> None:
    assert isinstance(judge(SNAPSHOT, asked(salt=salt), NOW), NoReplyReason)


def test_capitals_in_the_signature_do_not_matter() -> None:
    datagram = asked()
    signature = json.loads(datagram[4:])["hmac"].encode()

    assert reply_to(datagram.replace(signature, signature.upper())) is not None


def test_the_newline_belongs_to_the_key() -> None:
    assert judge(SNAPSHOT, asked(key=KEY.rstrip(b"\n")), NOW) is NoReplyReason.NOT_GENUINE


def test_a_request_of_4096_bytes_is_read_and_a_longer_one_is_not() -> None:
    def request(padding: int) -> bytes:
        return signed_text(ConfdRequest(Question.PING, "r", "x" * padding).to_text())

    room = 4096 - len(request(0))

    assert reply_to(request(room)) is not None
    assert judge(SNAPSHOT, request(room + 1), NOW) is NoReplyReason.TOO_LONG


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"protocol":1,"type":12,"rsalt":"r"}',
        '{"protocol":1,"type":-1,"rsalt":"r"}',
        '{"protocol":1,"type":true,"rsalt":"r"}',
        '{"protocol":1,"type":"0","rsalt":"r"}',
        '{"protocol":1,"type":0}',
        '{"type":0,"rsalt":"r"}',
        '{"protocol":1,"type":0,"rsalt":5}',
        '{"protocol":1,"type":0,"rsalt":"r","query":5}',
        '{"protocol":1,"type":2,"rsalt":"r","query":{"1":5}}',
        '{"protocol":1,"type":2,"rsalt":"r","query":{"2":["a",5]}}',
        '{"protocol":1,"type":3,"rsalt":"r","query":{"3":["x"]}}',
        '{"protocol":1,"type":3,"rsalt":"r","query":{"3":[7]}}',
        '{"protocol":1,"type":3,"rsalt":"r","query":{"3":[true]}}',
        '{"protocol":1,"type":3,"rsalt":"r","query":{"4":"unknown"}}',
    ],
)
def test_what_is_no_question_gets_no_reply_though_it_is_signed(text: str) -> None:
    assert judge(SNAPSHOT, signed_text(text), NOW) is NoReplyReason.NOT_A_QUESTION


def test_numbers_of_fields_may_be_digits_in_quotes() -> None:
    text = '{"protocol":1,"type":3,"rsalt":"r","query":{"3":["0",2]}}'

    assert read_request(text) == ConfdRequest(
        Question.MASTER, "r", Terms(fields=(MasterField.NAME, MasterField.NODE_IP))
    )
    assert reply_to(signed_text(text)) == Reply(ReplyStatus.OK, ["node1.test", "192.0.2.1"], 7)


def test_the_protocols_number_is_not_looked_at() -> None:
    assert reply_to(signed_text('{"protocol":9,"type":0,"rsalt":"r"}')) == Reply(ReplyStatus.OK, 3000000)


@pytest.mark.parametrize("question", Question)
def test_without_a_configuration_every_answer_is_the_reason(question: Question) -> None:
    snapshot = attrs.evolve(SNAPSHOT, catalogue="it is damaged")

    assert reply_to(asked(question), snapshot) == Reply(ReplyStatus.ERROR, "it is damaged", 0)


def test_without_a_key_nobody_gets_a_reply() -> None:
    assert judge(attrs.evolve(SNAPSHOT, key=None), asked(), NOW) is NoReplyReason.NO_KEY


def test_an_answer_that_no_datagram_takes_is_not_sent() -> None:
    document = rich_document()
    (instance,) = document["instances"].values()
    document["instances"] = {f"u{number}": {**instance, "uuid": f"u{number}"} for number in range(100)}
    question = signed_text(ConfdRequest(Question.NODE_INSTANCES, "r", "node1").to_text())

    assert judge(snapshot_of(document), question, NOW) is NoReplyReason.HUGE_ANSWER
