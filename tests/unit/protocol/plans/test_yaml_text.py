"""YAML as its writer sees it, with the place of each value. Source: yaml.org/spec/1.2.2, 10.3."""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import InvalidRequest
from protocol.plans.yamltext import read_yaml


def value(text: str) -> Any:
    return read_yaml(text.encode(), "p").value()


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        # what YAML 1.1 takes for booleans, octal, base 60 and dates are texts here, or refused
        ("on", "on"), ("off", "off"), ("yes", "yes"), ("no", "no"), ("NO", "NO"), ("y", "y"), ("n", "n"),
        ("1:30", "1:30"), ("12:30:45", "12:30:45"), ("2026-11-21", "2026-11-21"), ("1.2.3", "1.2.3"), ("=", "="),
        ("true", True), ("False", False), ("null", None), ("~", None), ("", None), ("'null'", "null"),
        ('"true"', "true"),
        ("0", 0), ("-7", -7), ("+5", 5), ("1.5", 1.5), (".5", 0.5), ("1e3", 1000.0), ("'10'", "10"), ("1 2", "1 2"),
        ("|\n    two\n    lines\n", "two\nlines\n"), (">\n    one\n    line\n", "one line\n"),
    ],
)  # fmt: skip
def test_a_plain_word_means_what_it_looks_like(word: str, expected: object) -> None:
    assert value(f"key: {word}") == {"key": expected}
    assert type(value(f"key: {word}")["key"]) is type(expected)


@pytest.mark.parametrize(
    "word", ["010", "0o10", "0x1F", "0b11", "1_000", "12345678901234567890", ".inf", "-.INF", ".nan"]
)
def test_a_number_that_others_read_otherwise_is_refused(word: str) -> None:
    with pytest.raises(InvalidRequest, match=r"^p:2:6: .* is not one number to all who read YAML"):
        value(f"a: 1\nkey: {word}")
    assert value(f"key: '{word}'") == {"key": word}


def test_anchors_aliases_and_merges_are_taken_and_own_keys_win() -> None:
    text = "base: &b {x: 1, y: 2}\nmore: &m {z: 3, y: 9}\nall:\n  <<: [*b, *m]\n  x: 7\nsame: *b # a comment\n"

    assert value(text) == {
        "base": {"x": 1, "y": 2},
        "more": {"z": 3, "y": 9},
        "all": {"x": 7, "y": 2, "z": 3},
        "same": {"x": 1, "y": 2},
    }


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("a: b: c", "p:1:5: not YAML: mapping values are not allowed"),
        ("a:\n\t- b", "p:2:1: not YAML: while scanning for the next token found character"),
        ("a: [1, 2", "p:"),
        ("a: 'x", "p:1:6: not YAML: while scanning a quoted scalar found unexpected end of stream"),
        ("a: 1\nb: 2\na: 3", "p:3:1: the key 'a' is there twice; write it once"),
        ("a: 1\n---\nb: 2", "p:2:1: a second document begins"),
        ("a: *x", "p:1:4: no anchor '&x' stands above this alias"),
        ("a: &x [1, *x]", "p:1:11: no anchor '&x' stands above this alias"),
        ("a: !!python/object/apply:os.system [id]", "p:1:4: tags such as tag:yaml.org,2002:python/obj"),
        ("a: !!int '3'", "p:1:4: tags such as"),
        ("? [a]\n: 1", "p:1:3: a key must be a word"),
        ("<<: 5", "p:1:1: '<<' takes a mapping"),
        ("", "p:1:1: it is empty"),
        ("# nothing\n", "p:1:1: it is empty"),
        ("a: \x01", "p:1:4: not YAML: character U+0001 is not allowed"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused_with_its_place(text: str, error: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        value(text)
    assert refused.value.message.replace("control characters are not allowed", "x").startswith(error)


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(InvalidRequest, match=r"^p:2:1: not YAML: byte 6 is not UTF-8"):
        read_yaml(b"a: 1\n\xff", "p")


def test_a_small_file_does_not_become_a_large_one() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]

    began = time.process_time()
    with pytest.raises(InvalidRequest, match=r"^p:6:5: its aliases make more than 1,000,000 values of it"):
        value("\n".join(lines))
    # the bound is on work, not on time; this is a thousand times what it takes
    assert time.process_time() - began < 30


@pytest.mark.parametrize("text", ["[" * 100_000, "a: " + "{b: " * 5000, "- " * 50_000 + "x"])
def test_deep_nesting_is_refused_and_kills_nobody(text: str) -> None:
    with pytest.raises(InvalidRequest, match=r"it is nested deeper than 100 levels|not YAML"):
        value(text)


def test_aliases_of_aliases_are_not_nested_without_end() -> None:
    deep = f"a0: &a0 {'[' * 60}x{']' * 60}"
    lines = [deep, *(f"a{n}: &a{n} {'[' * 60}*a{n - 1}{']' * 60}" for n in range(1, 30))]

    with pytest.raises(InvalidRequest, match=r"^p:2:\d+: its aliases nest it deeper than 100 levels"):
        value("\n".join(lines))


def test_each_value_has_its_place() -> None:
    root = read_yaml(b"base: &b\n  x: 1\njobs:\n  - name: a\n    <<: *b\n    words: [p, q]\n", "p")

    assert root.locate(("jobs", 0, "name")) == (4, 11)
    assert root.locate(("jobs", 0, "words", 1)) == (6, 16)
    # what is merged stands at the anchor, and what is not there is told where it should be
    assert root.locate(("jobs", 0, "x")) == (2, 6)
    assert root.locate(("jobs", 0, "nothing", 3)) == (4, 5)


@given(st.text(st.characters(codec="utf-8"), max_size=60) | st.from_regex(r"[\[\]{}:,&*!|>'\"%@` a1\n-]{0,40}"))
def test_any_text_is_read_or_refused_with_a_place(text: str) -> None:
    try:
        value(text)
    except InvalidRequest as refused:
        message = refused.message
    else:
        return
    assert message.startswith("p:")
