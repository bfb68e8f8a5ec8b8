"""A large content that goes to many nodes is packed once."""

import os

import pytest
import trio

from protocol.noded.call import Content, request_body
from protocol.noded.clients.client import HEAVY_BYTES, CallBodies
from protocol.noded.statefiles import JobqueueUpdate


def _call(size: int) -> JobqueueUpdate:
    return JobqueueUpdate("/queue/job-1", Content(os.urandom(size)))


@pytest.mark.trio
async def test_callers_of_one_large_call_share_its_body() -> None:
    bodies, call, found = CallBodies(), _call(HEAVY_BYTES + 1), []

    async def ask() -> None:
        found.append((await bodies.of([call]))[id(call)])

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(ask)
    await ask()

    assert found[0] == request_body(call)
    assert all(body is found[0] for body in found)


@pytest.mark.trio
async def test_a_body_goes_with_its_call() -> None:
    bodies, call = CallBodies(), _call(HEAVY_BYTES + 1)
    await bodies.of([call])
    kept = len(bodies)

    del call

    assert (kept, len(bodies)) == (1, 0)


@pytest.mark.trio
async def test_small_calls_and_several_are_not_kept() -> None:
    bodies, calls = CallBodies(), [_call(HEAVY_BYTES), _call(HEAVY_BYTES)]

    found = await bodies.of(calls)
    small = await bodies.of(calls[:1])

    assert found == {id(call): request_body(call) for call in calls}
    assert small == {id(calls[0]): request_body(calls[0])}
    assert len(bodies) == 0


@pytest.mark.trio
async def test_a_caller_that_gives_up_takes_the_body_from_nobody() -> None:
    bodies, call = CallBodies(), _call(HEAVY_BYTES + 1)

    async with trio.open_nursery() as nursery:
        with trio.CancelScope() as scope:
            scope.cancel()
            await bodies.of([call])
        nursery.cancel_scope.shield = True
        found = await bodies.of([call])

    assert scope.cancelled_caught
    assert found[id(call)] == request_body(call)
