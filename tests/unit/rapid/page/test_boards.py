"""Each part of a page that changes is a template with one element, which bears the part's name."""

import re
from pathlib import Path
from typing import Any

import pytest

from daemons.rapid.page.boards import (
    dashboard,
    filterpage,
    historypage,
    joblist,
    jobpage,
    lockpage,
    ratepage,
    resourcepage,
    schedulepage,
)
from daemons.rapid.page.boards.board import Board
from daemons.rapid.page.recorder import Recorder
from daemons.rapid.page.templates import STATIC

TEMPLATES = STATIC.parent / "templates"


async def _nothing() -> Any:
    raise NotImplementedError


RECORDER = Recorder(_nothing)
BOARDS: list[Board[Any]] = [
    dashboard.board(RECORDER),
    ratepage.board(RECORDER),
    *(module.BOARD for module in (filterpage, historypage, joblist, jobpage, lockpage, resourcepage, schedulepage)),
]


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.template)
def test_the_parts_of_a_board_stand_on_its_page(board: Board[Any]) -> None:
    page = (TEMPLATES / f"{board.template}.html.j2").read_text() + (TEMPLATES / "base.html.j2").read_text()

    for part in board.parts:
        assert f'"parts/{part}.html.j2"' in page
        assert _id_of(TEMPLATES / "parts" / f"{part}.html.j2") == part


def _id_of(template: Path) -> str:
    first = re.search(r"<[a-z]+[^>]*>", template.read_text())
    found = first and re.search(r'\bid="([a-z]+)"', first[0])
    assert found, template
    return found[1]
