"""The part of an output that a page shows, while the job goes on printing and after it."""

from collections.abc import Sequence
from typing import Any, TypeVar

import pytest
import trio

from daemons.rapid.page.reading import (
    FOUND,
    SHOWN,
    Output,
    ShownLines,
    last_lines,
    lines_from,
    lines_with,
    output_bytes,
    read_piece,
)
from daemons.rapid.page.terminal import LinePosition, Style
from protocol.luxi.jobs import JobOutput, ReadJobOutput
from protocol.messages import Request
from tests.support.fakes.luxidalone import LuxidAlone

R = TypeVar("R")
# bytes of one of luxid's replies: lines and characters are cut
PIECE = 1001


class Luxid(LuxidAlone):
    """The output of one job, of which nothing before `begin` is kept."""

    def __init__(self, printed: bytes, *, is_final: bool, begin: int = 0) -> None:
        self.notes: list[str] = []
        self._printed = printed
        self._is_final = is_final
        self.begin = begin
        self.calls = 0

    async def luxid(self, request: Request[R]) -> R:
        assert isinstance(request, ReadJobOutput)
        self.calls += 1
        assert self.calls < 2000, "luxid is asked again and again"
        start = max(request.offset, self.begin)
        content = self._printed[start : start + PIECE]
        reply: Any = JobOutput(content.decode("latin-1"), start + len(content), not content and self._is_final)
        return reply  # type: ignore[no-any-return]


def numbered(count: int) -> bytes:
    return b"".join(b"line %d\n" % number for number in range(1, count + 1))


def texts(shown: ShownLines) -> Sequence[tuple[int, str]]:
    return [(line.number, line.text) for line in shown.lines]


@pytest.mark.trio
@pytest.mark.parametrize("is_final", [False, True])
@pytest.mark.parametrize("count", [0, 1, 130, 500])
async def test_all_that_there_is_now_is_shown_and_nobody_waits_for_more(count: int, is_final: bool) -> None:
    printed = numbered(count) + b"and"
    luxid = Luxid(printed, is_final=is_final)

    for shown in (await last_lines(luxid, 1), await lines_from(luxid, 1, 1)):
        assert texts(shown) == [(number, f"line {number}") for number in range(1, count + 1)]
        assert shown.tail is not None
        assert (shown.tail.number, shown.tail.text) == (count + 1, "and")
        assert (shown.place, shown.end) == (LinePosition(len(printed) - 3, count + 1), len(printed))
        assert shown.is_end == is_final
    assert luxid.calls <= 2 * (len(printed) // PIECE + 2)


@pytest.mark.trio
async def test_no_more_lines_are_shown_than_a_page_holds() -> None:
    luxid = Luxid(numbered(SHOWN.lines + 300), is_final=True)

    last = texts(await last_lines(luxid, 1))
    first = texts(await lines_from(luxid, 1, 2))

    assert (last[0], last[-1], len(last)) == ((301, "line 301"), (1300, "line 1300"), SHOWN.lines)
    assert (first[0], first[-1], len(first)) == ((2, "line 2"), (1001, "line 1001"), SHOWN.lines)


@pytest.mark.trio
async def test_no_longer_lines_are_shown_than_a_page_holds() -> None:
    printed = (b"x" * 4000 + b"\n") * 400

    assert len((await last_lines(Luxid(printed, is_final=True), 1)).lines) == SHOWN.weight // 4140
    assert len((await lines_from(Luxid(printed, is_final=True), 1, 1)).lines) == SHOWN.weight // 4140


@pytest.mark.trio
async def test_a_part_has_the_colours_and_the_group_that_began_before_it() -> None:
    luxid = Luxid(b"::group::build\n\x1b[31mred\nstill\x1b[0m\n::endgroup::\nend\n", is_final=True)

    still, end = (await lines_from(luxid, 1, 3)).lines

    assert still.spans[0].style == Style(fore=1)
    assert still.group is not None
    assert still.group.name == "build"
    assert (end.number, end.group, end.spans[0].style) == (5, None, Style())
    assert (await lines_from(luxid, 1, 77)).lines == ()


@pytest.mark.trio
async def test_lines_are_found_in_small_and_capital_letters_also_the_one_that_is_being_written() -> None:
    luxid = Luxid(numbered(200) + "::group::Liné 1?\n\x1b[1mLIN\x1b[0mE 1".encode(), is_final=False)

    shown = await lines_with(luxid, 1, "line 1")

    assert shown.found == len(shown.lines) == 112
    assert texts(shown)[-2:] == [(199, "line 199"), (202, "LINE 1")]
    assert texts(await lines_with(luxid, 1, "É 1?")) == [(201, "Liné 1?")]
    assert (await lines_with(luxid, 1, ".")).found == 0


@pytest.mark.trio
async def test_all_that_is_found_is_counted_and_some_of_it_shown() -> None:
    shown = await lines_with(Luxid(numbered(900), is_final=True), 1, "line")

    assert (shown.found, len(shown.lines)) == (900, FOUND.lines)


@pytest.mark.trio
async def test_the_end_of_an_output_that_grows_faster_than_it_is_read_is_not_waited_for(
    autojump_clock: trio.abc.Clock,
) -> None:
    class Babbler(Luxid):
        async def luxid(self, request: Request[R]) -> R:
            await trio.sleep(0.01)
            return await super().luxid(request)

    luxid = Babbler(b"x" * 900 * PIECE, is_final=False)

    found = await last_lines(luxid, 1, longest_s=2.0)

    assert (found.end, found.is_end) == (201 * PIECE, False)
    assert trio.current_time() == pytest.approx(2.01)


@pytest.mark.trio
async def test_of_an_output_whose_beginning_is_gone_whole_lines_are_shown() -> None:
    luxid = Luxid("0123\n€45\n6".encode(), is_final=False, begin=2)

    shown = await last_lines(luxid, 1)

    assert (shown.start, texts(shown), shown.place) == (2, [(1, "€45")], LinePosition(11, 2))
    # its only line
    assert (await last_lines(Luxid(b"0123456789", is_final=False, begin=4), 1)).tail is not None


@pytest.mark.trio
async def test_what_goes_while_it_is_read_is_told_in_its_place() -> None:
    class Forgetful(Luxid):
        async def luxid(self, request: Request[R]) -> R:
            reply = await super().luxid(request)
            self.begin = 3000
            return reply

    lines = (await last_lines(Forgetful(numbered(400), is_final=True), 1)).lines

    (note,) = [line for line in lines if line.is_note]
    at = lines.index(note)
    assert note.text == f"{3000 - PIECE} bytes are not kept any more; lines are counted without them"
    assert lines[at - 1].number == note.number - 1
    assert lines[at + 1].number == note.number


@pytest.mark.trio
async def test_a_download_has_each_byte() -> None:
    printed = bytes(number % 256 for number in range(3 * PIECE))
    luxid = Luxid(printed, is_final=False)

    first = await read_piece(luxid, 1, 0)

    assert b"".join([piece async for piece in output_bytes(luxid, 1, first)]) == printed
    assert [piece async for piece in output_bytes(luxid, 1, Output(b"", 0, is_end=True))] == []
