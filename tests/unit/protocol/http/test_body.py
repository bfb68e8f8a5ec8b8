"""Bodies of requests, bounded in size and time. Source: `protocol/http/body.py`."""

from typing import Any, cast

import pytest
import trio

from protocol.http.body import _LARGE_AT_ONCE, _SMALL, Bodies, BodyRefused

LIMIT = 4 * _SMALL
NOBODYS = 64 * 1024


class Sender:
    """A client that sends one chunk, and the rest when it is told to."""

    def __init__(self, chunk: int) -> None:
        self._chunks = [b"x" * chunk]
        self.goes_on = trio.Event()
        self.stands = trio.Event()

    async def receive(self) -> Any:
        if self._chunks:
            return {"type": "http.request", "body": self._chunks.pop(), "more_body": True}
        self.stands.set()
        await self.goes_on.wait()
        return {"type": "http.request", "body": b"end", "more_body": False}


def scope(*headers: tuple[bytes, bytes]) -> Any:
    return {"type": "http", "headers": headers}


async def _read(bodies: Bodies, sender: Sender, limit: int | None, sizes: list[int]) -> None:
    try:
        async with bodies.read(scope(), cast(Any, sender.receive), limit) as body:
            sizes.append(len(body))
    except BodyRefused as refused:
        sizes.append(-refused.status)


@pytest.mark.trio
async def test_bodies_that_are_refused_take_no_place_of_large_ones(autojump_clock: trio.abc.Clock) -> None:
    bodies, refused, taken = Bodies(LIMIT, timeout_s=60), list[int](), list[int]()
    crowd = [Sender(NOBODYS + 1) for _ in range(_LARGE_AT_ONCE)]
    sender = Sender(_SMALL + 1)
    async with trio.open_nursery() as nursery:
        for each in crowd:
            nursery.start_soon(_read, bodies, each, NOBODYS, refused)
            await each.stands.wait()
        nursery.start_soon(_read, bodies, sender, None, taken)
        with trio.fail_after(1):
            await sender.stands.wait()
        sender.goes_on.set()

    assert taken == [_SMALL + 4]
    assert refused == [-408] * _LARGE_AT_ONCE


@pytest.mark.trio
async def test_large_bodies_wait_for_each_other(autojump_clock: trio.abc.Clock) -> None:
    bodies, sizes = Bodies(LIMIT, timeout_s=60), list[int]()
    crowd = [Sender(_SMALL + 1) for _ in range(_LARGE_AT_ONCE)]
    late = Sender(_SMALL + 1)
    async with trio.open_nursery() as nursery:
        for each in crowd:
            nursery.start_soon(_read, bodies, each, None, sizes)
            await each.stands.wait()
        nursery.start_soon(_read, bodies, late, None, sizes)
        await trio.sleep(1)
        assert not late.stands.is_set()
        crowd[0].goes_on.set()
        await late.stands.wait()
        for each in (*crowd, late):
            each.goes_on.set()

    assert sizes == [_SMALL + 4] * (_LARGE_AT_ONCE + 1)


class Silent:
    """A client that announces a body and sends nothing."""

    async def receive(self) -> Any:
        await trio.sleep_forever()


@pytest.mark.trio
@pytest.mark.parametrize("length", [4 * LIMIT + 1, 10**12])
async def test_an_announced_length_that_would_not_be_read_is_refused_at_once(
    autojump_clock: trio.abc.Clock, length: int
) -> None:
    bodies, silent = Bodies(LIMIT, timeout_s=60), cast(Any, Silent().receive)
    announced = scope((b"host", b"x"), (b"content-length", b"%d" % length))
    began = trio.current_time()

    with pytest.raises(BodyRefused, match=f"at most {LIMIT} bytes") as refused:
        async with bodies.read(announced, silent):
            pass

    assert refused.value.status == 413
    assert not await bodies.skip(announced, silent)
    assert trio.current_time() == began
