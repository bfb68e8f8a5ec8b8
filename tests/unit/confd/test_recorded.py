"""Ganeti's own confd was asked; ours replies with the same bytes."""

import json
from typing import Any

import pytest

from daemons.confd.core.answers import NoReplyReason, judge
from protocol.confd.questions import seal, unseal
from tests.support.machines.confds import KEY, answered, recorded_exchanges, recorded_snapshot

EXCHANGES = recorded_exchanges()
# Ganeti writes fractions with exponents, which are the same numbers
OTHER_NUMBERS = "node-instances"


@pytest.mark.parametrize("exchange", EXCHANGES, ids=lambda each: each["name"])
def test_a_recorded_request_gets_the_recorded_reply(exchange: dict[str, Any]) -> None:
    reply = judge(recorded_snapshot(), exchange["request"].encode(), exchange["t"])

    if exchange["reply"] is None:
        assert isinstance(reply, NoReplyReason)
        return
    assert isinstance(reply, bytes)
    if exchange["name"] == OTHER_NUMBERS:
        signed = unseal(KEY, reply)
        assert signed is not None
        assert json.loads(signed.text) == answered(exchange)
        assert signed.salt == "rsalt-node-instances"
    else:
        assert reply == exchange["reply"].encode()


def test_recorded_replies_are_genuine_for_us() -> None:
    replies = [exchange["reply"].encode() for exchange in EXCHANGES if exchange["reply"]]

    assert replies
    assert all(unseal(KEY, reply) for reply in replies)


def test_the_vector_of_the_sheet_is_signed_alike() -> None:
    key, salt = b"0123456789abcdef\n", "6c2a1f3e-0000-4000-8000-000000000001"
    text = '{"protocol":1,"status":0,"answer":"node1.example.com","serial":7}'

    assert b'"6544939a8e04381fff5e3581c3a4eb3648d44913"' in seal(key, text, salt)
    asked = f'{{"protocol": 1, "type": 3, "query": null, "rsalt": "{salt}"}}\n'
    assert b'"e3feffad278ac09b54b4a3966fc4373ae8816901"' in seal(key, asked, "1400000000")
