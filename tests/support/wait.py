"""Waiting for something to become true in another process; the only place in the tests that sleeps."""

import time
from collections.abc import Awaitable, Callable

import trio

_SHORTEST_S = 0.001
_LONGEST_S = 0.05
# ends a test that would wait for ever; a machine may be slow
PATIENCE_S = 60.0


def wait_until(
    predicate: Callable[[], object],
    *,
    what: str,
    timeout_s: float = PATIENCE_S,
    state: Callable[[], object] | None = None,
) -> None:
    """Return as soon as `predicate()` is true.

    Args:
        what: what is waited for, for the message: "the job to end".
        state: what is seen meanwhile; its last value is in the message.
    Raises:
        AssertionError: it did not become true in time.
    """
    deadline = time.monotonic() + timeout_s
    pause = _SHORTEST_S
    while not predicate():
        if time.monotonic() > deadline:
            raise AssertionError(_failure(what, timeout_s, state))
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_S)


async def wait_until_async(
    predicate: Callable[[], object | Awaitable[object]],
    *,
    what: str,
    timeout_s: float = PATIENCE_S,
    state: Callable[[], object] | None = None,
) -> None:
    """`wait_until` inside trio; the predicate may be async, the clock is trio's."""
    deadline = trio.current_time() + timeout_s
    pause = _SHORTEST_S
    while not await _value(predicate()):
        if trio.current_time() > deadline:
            raise AssertionError(_failure(what, timeout_s, state))
        await trio.sleep(pause)
        pause = min(2 * pause, _LONGEST_S)


async def _value(result: object | Awaitable[object]) -> object:
    return await result if isinstance(result, Awaitable) else result


def _failure(what: str, timeout_s: float, state: Callable[[], object] | None) -> str:
    seen = f"; last seen: {state()!r}" if state is not None else ""
    return f"waited {timeout_s:g} s for {what}{seen}"
