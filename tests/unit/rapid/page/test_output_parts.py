"""The part of an output that a page shows, while the job goes on printing and after it."""

from typing import Any, TypeVar

import pytest
import trio

from daemons.rapid.page.reading import SHOWN_BYTES, Output, output_end, output_from
from protocol.luxi.jobs import JobOutput, ReadJobOutput
from protocol.messages import Request
from tests.support.fakes.luxidalone import LuxidAlone

R = TypeVar("R")
# bytes of one of luxid's replies
PIECE = 1000


class Luxid(LuxidAlone):
    """The output of one job, of which nothing before `begin` is kept."""

    def __init__(self, printed: bytes, *, is_final: bool, begin: int = 0) -> None:
        self.notes: list[str] = []
        self._printed = printed
        self._is_final = is_final
        self._begin = begin
        self.calls = 0

    async def luxid(self, request: Request[R]) -> R:
        assert isinstance(request, ReadJobOutput)
        self.calls += 1
        assert self.calls < 1000, "luxid is asked again and again"
        start = max(request.offset, self._begin)
        content = self._printed[start : start + PIECE]
        reply: Any = JobOutput(content.decode("latin-1"), start + len(content), not content and self._is_final)
        return reply  # type: ignore[no-any-return]


@pytest.mark.trio
@pytest.mark.parametrize("is_final", [False, True])
@pytest.mark.parametrize("size", [0, 1, PIECE, 3 * PIECE + 1])
async def test_all_that_there_is_now_is_shown_and_nobody_waits_for_more(size: int, is_final: bool) -> None:
    luxid = Luxid(b"x" * size, is_final=is_final)

    assert await output_from(luxid, 1, 0) == Output(b"x" * size, 0, is_final)
    assert await output_end(luxid, 1) == Output(b"x" * size, 0, is_final)
    assert luxid.calls <= 2 * (size // PIECE + 2)


@pytest.mark.trio
async def test_no_more_is_shown_than_a_page_holds() -> None:
    printed = bytes(number % 251 for number in range(SHOWN_BYTES + 3 * PIECE))

    assert await output_from(Luxid(printed, is_final=False), 1, 5) == Output(printed[5 : 5 + SHOWN_BYTES], 5, False)
    assert await output_end(Luxid(printed, is_final=True), 1) == Output(
        printed[-SHOWN_BYTES:], len(printed) - SHOWN_BYTES, True
    )


@pytest.mark.trio
async def test_the_end_of_an_output_that_grows_faster_than_it_is_read_is_not_waited_for(
    autojump_clock: trio.abc.Clock,
) -> None:
    class Babbler(Luxid):
        async def luxid(self, request: Request[R]) -> R:
            await trio.sleep(0.01)
            return await super().luxid(request)

    luxid = Babbler(b"x" * 900 * PIECE, is_final=False)

    found = await output_end(luxid, 1, longest_s=2.0)

    assert (found.end, found.is_end) == (201 * PIECE, False)
    assert trio.current_time() == pytest.approx(2.01)


@pytest.mark.trio
async def test_what_was_rotated_away_is_not_shown() -> None:
    assert await output_from(Luxid(b"0123456789", is_final=False, begin=4), 1, 0) == Output(b"456789", 4, False)
