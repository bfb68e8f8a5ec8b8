"""The stream of events of the client for trio: what goes wrong comes out as itself."""

import pytest

from common.errors import Unavailable
from protocol.rapid.clients.trioclient import TrioRapidClient

pytestmark = pytest.mark.trio

# nobody listens there
_NOWHERE = "http://127.0.0.1:1"


async def test_an_error_of_the_iterator_is_not_wrapped() -> None:
    async def read() -> None:
        async with TrioRapidClient(_NOWHERE, patience_s=0) as client, client.events() as events:
            await anext(events)

    with pytest.raises(Unavailable, match="cannot be reached"):
        await read()


async def test_an_error_of_the_program_is_not_wrapped() -> None:
    async def fail() -> None:
        async with TrioRapidClient(_NOWHERE) as client, client.events():
            raise LookupError

    with pytest.raises(LookupError):
        await fail()
