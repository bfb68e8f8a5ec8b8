"""Long lists do not hold up other clients."""

import threading
from typing import Any

import pytest

from daemons.rapid.ganeti.handlers import list_reply


@pytest.mark.trio
@pytest.mark.parametrize(("count", "is_at_once"), [(1, True), (10_000, False)])
async def test_a_long_list_is_written_beside_the_event_loop(count: int, is_at_once: bool) -> None:
    threads: list[int] = []

    def make() -> list[dict[str, Any]]:
        threads.append(threading.get_ident())
        return [{"id": 1}]

    reply = await list_reply(count, make)

    assert (threads == [threading.get_ident()]) is is_at_once
    assert (reply.status_code, reply.media_type, bytes(reply.body)) == (200, "application/json", b'[{"id":1}]\n')
