"""Calls as they are sent."""

import pytest

from common.errors import InvalidRequest
from protocol.rapid.clients.blocking import RapidClient


@pytest.mark.parametrize("value", ["\udcff", 2**64])
def test_what_json_does_not_have_is_refused_before_anything_is_sent(value: object) -> None:
    with (
        RapidClient("http://127.0.0.1:1") as client,
        pytest.raises(InvalidRequest, match=r"^POST /3/jobs cannot be sent: "),
    ):
        client.submit([{"OP_ID": "OP_TEST_DUMMY", "comment": value}])
