"""One encoder for the wire and the files: ASCII, compact, and fast where it can be (wconfd.md 1.4, BUG-1)."""

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.jsontext import ascii_json
from tests.support.counting import python_calls

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def test_what_is_sent_is_ascii() -> None:
    text = 'é中😀"\\\n'

    raw = ascii_json({text: text})

    assert raw.isascii()
    assert json.loads(raw) == {text: text}


def test_what_the_fast_encoder_refuses_is_sent_all_the_same() -> None:
    assert ascii_json([2**70]) == b"[1180591620717411303424]"
    assert ascii_json(["\udcff"]) == b'["\\udcff"]'
    assert ascii_json({1: 2}) == b'{"1":2}'
    deep: Any = "é"
    for _ in range(400):
        deep = [deep]
    assert json.loads(ascii_json(deep)) == deep


def test_fragments_are_spliced_and_escaped() -> None:
    assert ascii_json([orjson.Fragment('{"a":"é"}'.encode())]) == b'[{"a":"\\u00e9"}]'


@pytest.mark.parametrize("value", [object(), {1, 2}, [float("nan"), 2**70]])
def test_what_is_no_json_is_refused(value: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        ascii_json(value)


@given(JSON)
def test_reading_gives_back_what_was_encoded(value: Any) -> None:
    raw = ascii_json(value)

    assert raw.isascii()
    assert json.loads(raw) == value


@pytest.mark.parametrize("text", ['\\"é', '"\x7f\u2028\\u007f', "\x00é\n\\\\n", "😀\\"])
def test_backslashes_quotes_and_controls_beside_other_letters_are_kept(text: str) -> None:
    value = {text: [text, orjson.Fragment(b'"\\u007f"')]}

    written = ascii_json(value)

    assert json.loads(written) == {text: [text, "\x7f"]}
    # letter by letter, as one would do it by hand
    assert written.decode() == "".join(
        letter if letter.isascii() else json.dumps(letter)[1:-1] for letter in orjson.dumps(value).decode()
    )


def test_alternating_letters_cost_no_call_each() -> None:
    assert python_calls(lambda: ascii_json("aé" * 10_000)) < 10
