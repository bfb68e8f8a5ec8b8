"""The place of each value in a text of JSON."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import InvalidRequest
from protocol.plans.documents import locate_json, read_document

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(each for step, below in inner for each in paths(below, (*path, step)))]


@given(values, st.sampled_from([None, 1, 3]), st.booleans())
def test_each_value_begins_where_it_is_found(value: Any, indent: int | None, is_ascii: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=is_ascii)

    for path in paths(value):
        line, column = locate_json(text.encode(), path)
        rest = "\n".join(text.split("\n")[line - 1 :])[column - 1 :]
        found, _ = json.JSONDecoder().raw_decode(rest)
        wanted = value
        for step in path:
            wanted = wanted[step]
        assert found == wanted


def test_what_is_not_there_is_told_where_it_should_be() -> None:
    assert locate_json(b'{"a": [1, {"b": 2}]}', ("a", 1, "c", 5)) == (1, 11)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('{"a": 1,}', "f.json:1:8: not JSON: "),
        (
            '[\n{"a": {"a": ["b", "b"]}, "b": "a", "a": 2}]',
            "f.json:2:36: an object has the key 'a' twice; write it once",
        ),
        ("", "f.json:1:1: not JSON: "),
    ],
)
def test_what_is_not_json_is_refused(text: str, error: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_document(text.encode(), "f.json")
    assert refused.value.message.startswith(error)


def test_the_name_tells_the_form_and_else_the_first_sign() -> None:
    assert read_document(b'{"a": [1]}', "standard input").value == {"a": [1]}
    assert read_document(b"a: [1]", "standard input").value == {"a": [1]}
    # a comment, and a comma at the end, are YAML
    assert read_document(b'{"a": [1,],} # x', "f.yaml").value == {"a": [1]}
