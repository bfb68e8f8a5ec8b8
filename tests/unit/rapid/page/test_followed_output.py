"""The output under an open page, as it comes."""

import re
from datetime import datetime
from typing import Any, TypeVar, cast

import attrs
import pytest
import trio

from daemons.rapid.calls import Asked
from daemons.rapid.page.boards.board import Following
from daemons.rapid.page.live.stream import _follow_output
from daemons.rapid.page.reading import SHOWN_AT_ONCE
from daemons.rapid.page.terminal import START, LinePosition
from protocol.luxi.jobs import JobOutput, OutputTime, OutputTimes, ReadJobOutput, ReadOutputTimes
from protocol.messages import Request
from tests.support.fakes.luxidalone import LuxidAlone

R = TypeVar("R")


class Luxid(LuxidAlone):
    """The output of a job that has ended, some bytes a reply."""

    def __init__(self, printed: bytes, step: int) -> None:
        self.notes: list[str] = []
        self._printed = printed
        self._step = step

    async def luxid(self, request: Request[R]) -> R:
        assert isinstance(request, ReadJobOutput)
        content = self._printed[request.offset : request.offset + self._step]
        reply: Any = JobOutput(content.decode("latin-1"), request.offset + len(content), not content)
        return reply  # type: ignore[no-any-return]


@attrs.frozen
class Sent:
    """One event."""

    place: LinePosition
    # text of the line that is being written
    tail: str
    # (id of an element, how the rows come there, the rows)
    rows: list[tuple[str, str, str]]

    @property
    def text(self) -> str:
        """The lines that have ended."""
        return re.sub("<[^>]*>", "", "".join(rows for _, _, rows in self.rows))


async def _followed(printed: bytes, place: LinePosition = START, step: int = 2) -> list[Sent]:
    pushed: list[bytes] = []

    async def push(data: bytes) -> None:
        pushed.append(data)

    await _follow_output(Asked(cast(Any, None), cast(Any, None), Luxid(printed, step)), Following(1, place), push)
    return [_sent(data) for data in pushed]


def _sent(data: bytes) -> Sent:
    head, _, body = data.decode().partition("\n")
    text = "\n".join(line.removeprefix("data: ") for line in body.split("\n")).removesuffix("\n\n")
    found = re.findall(r'<hx-partial hx-target="#(\w+)" hx-swap="(\w+)">(.*?)</hx-partial>', text, re.DOTALL)
    place = LinePosition.read(head.removeprefix("id: output-"))
    assert place is not None, head
    (target, _, tail), *rows = found
    assert target == "tail"
    return Sent(place, re.sub("<[^>]*>", "", tail).removesuffix("\n"), rows)


@pytest.mark.trio
async def test_the_line_that_is_being_written_is_shown_and_becomes_a_row_when_it_ends(
    autojump_clock: trio.abc.Clock,
) -> None:
    sent = await _followed("aé\n€z".encode())

    assert [(each.text, each.tail) for each in sent] == [("", "a"), ("aé\n", ""), ("", "€z")]
    assert [each.place.offset for each in sent] == [0, 4, 4]


@pytest.mark.trio
async def test_a_browser_that_comes_back_loses_nothing(autojump_clock: trio.abc.Clock) -> None:
    printed = "aé€z\n\x1b[31mred\nred\n::group::x\nin\n::endgroup::\nout\n".encode()
    told = await _followed(printed, step=3)

    for number, each in enumerate(told):
        rest = await _followed(printed, each.place)
        assert "".join(one.text for one in rest) == "".join(one.text for one in told[number + 1 :])
        assert rest[-1].place == told[-1].place


@pytest.mark.trio
async def test_lines_of_a_group_come_into_its_element(autojump_clock: trio.abc.Clock) -> None:
    sent = await _followed(b"one\n::group::<x>\ntwo\nthree\n::endgroup::\nfour\n", step=24)

    (first, second) = [each.rows for each in sent]
    assert [(target, how) for target, how, _ in first] == [("rows", "beforeend"), ("rows", "beforeend")]
    assert '<details class="fold" id="G2" open="">' in first[1][2]
    assert "&lt;x&gt;" in first[1][2]
    assert [(target, how) for target, how, _ in second] == [("G2", "beforeend"), ("rows", "beforeend")]
    assert "three" in second[0][2]
    assert "details" not in second[0][2] + second[1][2]


@pytest.mark.trio
async def test_a_job_that_prints_line_by_line_is_shown_at_most_four_times_a_second(
    autojump_clock: trio.abc.Clock,
) -> None:
    told = await _followed(b"z" * 80)

    assert len(told) == 40
    assert trio.current_time() == pytest.approx(10)


@pytest.mark.trio
async def test_bytes_that_are_no_characters_are_replaced(autojump_clock: trio.abc.Clock) -> None:
    told = await _followed(b"\xc3z\xe2\x82")

    assert [each.tail for each in told] == ["\ufffdz", "\ufffdz\ufffd"]


@pytest.mark.trio
async def test_of_a_flood_only_what_a_page_keeps_is_sent_in_place_of_what_was_there(
    autojump_clock: trio.abc.Clock,
) -> None:
    sent = await _followed(b"x\n" * (SHOWN_AT_ONCE.lines + 10), step=2**20)

    ((target, how, rows),) = sent[0].rows
    assert (target, how) == ("rows", "innerHTML")
    assert rows.count("<div") == SHOWN_AT_ONCE.lines
    assert 'id="L11"' in rows
    assert 'id="L10"' not in rows


class TimedLuxid(Luxid):
    """Its output came a byte a second."""

    async def luxid(self, request: Request[R]) -> R:
        if not isinstance(request, ReadOutputTimes):
            return await super().luxid(request)
        assert request.end is not None
        offsets = range(request.offset, request.end)
        reply: Any = OutputTimes(tuple(OutputTime(offset, float(offset)) for offset in offsets), None)
        return reply  # type: ignore[no-any-return]


@pytest.mark.trio
async def test_what_comes_has_its_times_where_they_are_wanted(autojump_clock: trio.abc.Clock) -> None:
    pushed: list[str] = []

    async def push(data: bytes) -> None:
        pushed.append(data.decode())

    asked = Asked(cast(Any, None), cast(Any, None), TimedLuxid(b"one\ntwo\nrest", 100))
    await _follow_output(asked, Following(1, START, has_times=True), push)

    found = re.findall(r'id="L(\d)">.*?<time datetime="([^"]*)"[^>]*>[0-9:]+\.0</time>', "".join(pushed))
    assert [(number, datetime.fromisoformat(at).timestamp()) for number, at in found] == [
        ("3", 8.0),
        ("1", 0.0),
        ("2", 4.0),
    ]
