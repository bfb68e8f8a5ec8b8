"""JSON of others. Source: `common/jsontext.py`."""

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.jsontext import MOST_LEVELS, TooDeep, read_json

# with so many brackets that it is not taken for flat
MANY = b"[]," * MOST_LEVELS


def nested(levels: int, inner: bytes = b"", opening: bytes = b"[", closing: bytes = b"]") -> bytes:
    return opening * levels + inner + closing * levels


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_as_many_levels_as_the_limit_are_read(opening: bytes, closing: bytes) -> None:
    text = nested(MOST_LEVELS, b"" if opening == b"[" else b"1", opening, closing)

    assert read_json(text) == json.loads(text)
    assert read_json(b"[" + MANY + nested(MOST_LEVELS - 1) + b"]") == json.loads(
        b"[" + MANY + nested(MOST_LEVELS - 1) + b"]"
    )


@pytest.mark.parametrize("levels", [MOST_LEVELS + 1, 254, 500, 1024, 1025, 100_000])
@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_more_levels_are_refused_with_the_limit(levels: int, opening: bytes, closing: bytes) -> None:
    with pytest.raises(TooDeep, match=f"nested deeper than {MOST_LEVELS} levels") as refused:
        read_json(nested(levels, b"1", opening, closing))

    assert refused.value.code == "invalid"


@pytest.mark.parametrize("beside", [b"%b,[]", b"[],%b", b'"[",%b', b'{"a":1},%b'])
def test_one_deep_value_among_others_is_refused(beside: bytes) -> None:
    with pytest.raises(TooDeep):
        read_json(b"[" + beside % nested(MOST_LEVELS) + b"]")


@pytest.mark.parametrize(
    "text",
    [b"", b"[", b"1],[2", b"],[", b"]", b"1,2", b"[]]", b"[1 2]", MANY, MANY + b"1", MANY + b"1],[" + MANY + b"2"],
)
def test_what_is_no_json_is_refused_as_the_parser_does(text: bytes) -> None:
    for content in (text, text + b" " + b"[" * (MOST_LEVELS + 1)):
        with pytest.raises(orjson.JSONDecodeError) as expected:
            orjson.loads(content)
        with pytest.raises(orjson.JSONDecodeError) as found:
            read_json(content)
        assert str(found.value) == str(expected.value)


def test_brackets_in_texts_are_no_levels() -> None:
    assert read_json(orjson.dumps(["[" * 1000, {"{" * 1000: "]"}])) == ["[" * 1000, {"{" * 1000: "]"}]
    assert read_json('"' + "[" * 1000 + "é" + '"') == "[" * 1000 + "é"


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.integers(-(2**53), 2**53) | st.text('[]{},"é'),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("[{"), inner),
)


@given(JSON, st.integers(0, 2))
def test_it_reads_what_the_parser_reads(value: Any, crowd: int) -> None:
    text = orjson.dumps([value, *[[]] * (crowd * MOST_LEVELS)])

    assert read_json(text) == orjson.loads(text)
