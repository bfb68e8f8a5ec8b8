"""Values of options that a function reads (`cli/options.py`, `ReadType`)."""

import click
import pytest

from cli.options import KEY_VALUES, ReadType
from common.errors import InvalidRequest


def _even(text: str) -> int:
    if text == "none":
        raise InvalidRequest("there is no such number")
    if int(text) % 2:
        raise ValueError(f"'{text}' is odd")
    return int(text)


@pytest.mark.parametrize(("text", "message"), [("3", "'3' is odd"), ("none", "there is no such number")])
def test_what_the_function_refuses_is_told_as_a_mistake_of_the_option(text: str, message: str) -> None:
    with pytest.raises(click.BadParameter) as raised:
        ReadType(_even).convert(text, None, None)

    assert raised.value.message == message


def test_a_value_that_is_read_already_stays() -> None:
    assert ReadType(_even).convert(7, None, None) == 7
    assert KEY_VALUES.convert({"a": "b"}, None, None) == {"a": "b"}


def test_the_help_shows_the_word_given_or_the_name() -> None:
    ctx = click.Context(click.Command("x"))

    shown = [click.Option(["-n"], type=kind).make_metavar(ctx) for kind in (ReadType(_even, "N"), ReadType(_even))]

    assert shown == ["N", "VALUE"]
