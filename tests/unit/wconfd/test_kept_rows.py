"""Files of ours that hold rows: their form, what is said of damaged ones, and what changed (DESIGN section 16)."""

import re
from functools import reduce
from typing import Any

import attrs
import orjson
import pytest
from immutables import Map

from common.errors import DamagedFile
from common.resources import Resource
from common.schedules.schedule import Schedule
from daemons.wconfd.core.keptrows import RESOURCES, SCHEDULES, Form, Rows, changed_rows, decode, encode, with_value
from tests.support.keptvalues import LICENCES, MEMORY, NIGHTLY


def rows_of(form: Form[Any], *values: Any) -> Rows[Any]:
    return reduce(lambda rows, value: with_value(form, rows, value), values, Map())


def values_of(rows: Rows[Any]) -> dict[str, Any]:
    return {key: row.value for key, row in rows.items()}


def test_the_file_has_one_row_a_line_by_key() -> None:
    content = encode(RESOURCES, rows_of(RESOURCES, MEMORY, LICENCES))

    assert content.decode().splitlines() == [
        '{"version":1,"resources":[',
        '{"node":"","name":"licences","total":5,"unit":"count"},',
        '{"node":"web1","name":"memory","total":1099511627776,"unit":"bytes"}',
        "]}",
    ]
    assert values_of(decode(RESOURCES, content)) == {"licences": LICENCES, "web1:memory": MEMORY}


@pytest.mark.parametrize("values", [(), (NIGHTLY,), (NIGHTLY, attrs.evolve(NIGHTLY, uuid="u2", name="b", runs=()))])
def test_what_is_encoded_is_decoded(values: tuple[Schedule, ...]) -> None:
    rows = rows_of(SCHEDULES, *values)

    assert values_of(decode(SCHEDULES, encode(SCHEDULES, rows))) == values_of(rows)


@pytest.mark.parametrize(
    ("content", "place", "reason"),
    [
        (b'{"version":1,"resources":[', "byte 26", "end of data"),
        (b"[]", "$", "a list 'resources'"),
        (b'{"version":2,"resources":[]}', "$.version", "a newer release wrote it"),
        (b'{"version":1,"resources":[{"node":"","name":"a","total":"x"}]}', "$.resources[0]", "expected int, got 'x'"),
        (b'{"version":1,"resources":[%b,%b]}', "$.resources[1]", "'licences' is there twice"),
    ],
)
def test_a_damaged_file_is_refused_with_the_place(content: bytes, place: str, reason: str) -> None:
    row = b'{"node":"","name":"licences","total":5}'
    with pytest.raises(DamagedFile, match=re.escape(reason)) as caught:
        decode(RESOURCES, content.replace(b"%b", row))
    assert caught.value.fields["where"] == place


def test_only_rows_that_differ_are_changes() -> None:
    before = rows_of(RESOURCES, LICENCES, MEMORY)
    after = with_value(RESOURCES, before.delete("web1:memory"), Resource("", "kits", 1))

    assert changed_rows(before, before) == {}
    assert {
        key: content and orjson.loads(content)["total"] for key, content in changed_rows(before, after).items()
    } == {
        "kits": 1,
        "web1:memory": None,
    }
    undone = {**{key: row.content for key, row in after.items()}, **changed_rows(after, before)}
    assert {key for key, content in undone.items() if content is not None} == set(before)
