"""Answers of confd as text: one that is a list has a line for each element, one with parts is JSON.

Source: confd.md 4.
"""

from collections.abc import Iterator
from typing import Final

from cli.tables import Column, Layout, render
from common.words.text import json_text
from protocol.confd.questions import Question, Reply, Role, Status

_MINORS: Final = (
    Column("NODE"),
    Column("MINOR", is_number=True),
    Column("INSTANCE"),
    Column("DISK"),
    Column("ROLE"),
    Column("PEER"),
)


def answer_lines(question: Question, answer: object, layout: Layout) -> Iterator[str]:
    """The lines of an answer."""
    if question is Question.NODE_DRBD and isinstance(answer, list):
        yield from render(_MINORS, [[str(cell) for cell in row] for row in answer], layout)
    elif isinstance(answer, list):
        yield from (_text(question, each) for each in answer)
    else:
        yield _text(question, answer)


def short_answer(question: Question, reply: Reply) -> str:
    """A reply in one cell of a table."""
    if reply.status is not Status.OK:
        return str(reply.answer).partition("\n")[0] if isinstance(reply.answer, str) else f"error {reply.answer}"
    return _text(question, reply.answer)


def _text(question: Question, value: object) -> str:
    if question is Question.NODE_ROLE and value in list(Role):
        return next(role for role in Role if role == value).name.lower()
    return value if isinstance(value, str) else json_text(value)
