"""luxid's end of the handshake, message by message (protocol/forkserver.py)."""

import pytest
import trio
import trio.testing

from daemons.luxid.processes.launcher import Handshake, StartFailed
from protocol.framing import pack

SECRETS = [None, {"password": "x"}]
GO = pack(b"")
SECRETS_MESSAGE = pack(b'[null,{"password":"x"}]')

pytestmark = pytest.mark.trio


def new_pair() -> tuple[Handshake, trio.testing.MemorySendStream, trio.testing.MemoryReceiveStream]:
    ours, theirs = trio.testing.memory_stream_pair()
    assert theirs.send_stream is not None
    assert theirs.receive_stream is not None
    return Handshake(ours, 5.0), theirs.send_stream, theirs.receive_stream


async def test_process_of_ours_gets_its_secrets_with_the_go_ahead_and_is_not_waited_for() -> None:
    handshake, _, received = new_pair()

    await handshake.give_go_ahead(SECRETS, asks=False)

    assert await received.receive_some() == GO + SECRETS_MESSAGE


async def test_process_that_asks_gets_no_secret_before_it_did() -> None:
    handshake, process, received = new_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: handshake.give_go_ahead(SECRETS, asks=True))
        await trio.testing.wait_all_tasks_blocked()
        before = await received.receive_some()
        await process.send_all(pack(b""))

    assert before == GO
    assert await received.receive_some() == SECRETS_MESSAGE


async def test_process_that_says_something_else_than_its_question_is_not_started() -> None:
    handshake, process, _ = new_pair()
    await process.send_all(pack(b"what?"))

    with pytest.raises(StartFailed, match=r"b'what\?' instead of asking"):
        await handshake.give_go_ahead(SECRETS, asks=True)
