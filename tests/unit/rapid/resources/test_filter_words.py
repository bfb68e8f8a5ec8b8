"""Filters as callers of /3 write them."""

import pytest

from common.errors import InvalidRequest
from daemons.rapid.resources.joblists import UNENDED, both, read_job_filter, read_object_filter


def test_text_and_expression_are_the_same_filter() -> None:
    wanted = ["&", ["==", "status", "queued"], ["<", "id", 7]]

    for form in ("status=queued & id<7", wanted, '["&", ["==", "status", "queued"], ["<", "id", 7]]'):
        found = read_job_filter(form)
        assert found is not None
        assert found.to_wire() == wanted


@pytest.mark.parametrize("nothing", [None, "", "  "])
def test_an_empty_filter_is_none(nothing: object) -> None:
    assert read_job_filter(nothing) is None
    assert both(read_job_filter(nothing), UNENDED).to_wire() == UNENDED


@pytest.mark.parametrize("wrong", [7, {"a": 1}, "[", "[1", ["~~", "id", 1], "colour=red", "id=~"])
def test_what_cannot_be_read_is_refused(wrong: object) -> None:
    with pytest.raises(InvalidRequest, match="filter"):
        read_job_filter(wrong)


def test_other_things_have_fields_of_their_own() -> None:
    found = read_object_filter("offline or drained")

    assert found is not None
    assert found.to_wire() == ["|", ["?", "offline"], ["?", "drained"]]
