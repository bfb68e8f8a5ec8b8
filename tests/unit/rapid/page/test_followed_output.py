"""The output under an open page, as it comes."""

import re
from typing import Any, TypeVar, cast

import pytest
import trio

from daemons.rapid.calls import Asked
from daemons.rapid.page.boards.board import Following
from daemons.rapid.page.live.stream import _follow_output
from protocol.luxi.jobs import JobOutput, ReadJobOutput
from protocol.messages import Request
from tests.support.fakes.luxidalone import LuxidAlone

R = TypeVar("R")


class Luxid(LuxidAlone):
    """The output of a job that has ended, two bytes a reply."""

    def __init__(self, printed: bytes) -> None:
        self.notes: list[str] = []
        self._printed = printed

    async def luxid(self, request: Request[R]) -> R:
        assert isinstance(request, ReadJobOutput)
        content = self._printed[request.offset : request.offset + 2]
        reply: Any = JobOutput(content.decode("latin-1"), request.offset + len(content), not content)
        return reply  # type: ignore[no-any-return]


async def _followed(printed: bytes, offset: int) -> list[tuple[int, str]]:
    """The id of each event of a stream from this byte on, and its text."""
    pushed: list[bytes] = []

    async def push(data: bytes) -> None:
        pushed.append(data)

    await _follow_output(Asked(cast(Any, None), cast(Any, None), Luxid(printed)), Following(1, offset), push)
    return [
        (int(head.removeprefix("id: output-")), _text(data))
        for head, _, data in (event.decode().partition("\n") for event in pushed)
    ]


def _text(data: str) -> str:
    found = re.search(r"<hx-partial [^>]*>(.*)</hx-partial>", data)
    assert found, data
    return found[1]


@pytest.mark.trio
async def test_a_browser_that_comes_back_loses_no_part_of_a_character(autojump_clock: trio.abc.Clock) -> None:
    printed = "aé€z".encode()
    told = await _followed(printed, 0)

    assert told == [(1, "a"), (3, "é"), (6, "€"), (7, "z")]
    for place, _ in told:
        rest = [text for _, text in await _followed(printed, place)]
        assert "".join(rest) == printed[place:].decode()


@pytest.mark.trio
async def test_a_job_that_prints_line_by_line_is_shown_at_most_four_times_a_second(
    autojump_clock: trio.abc.Clock,
) -> None:
    told = await _followed(b"z" * 80, 0)

    assert len(told) == 40
    assert trio.current_time() == pytest.approx(10)


@pytest.mark.trio
async def test_bytes_that_are_no_characters_are_replaced(autojump_clock: trio.abc.Clock) -> None:
    told = await _followed(b"\xc3z\xe2\x82", 0)

    assert told == [(2, "\ufffdz"), (4, "\ufffd")]
