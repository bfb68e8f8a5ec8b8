"""Numbers for Prometheus, read by its own parser."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from daemons.mond.core.reports import Number, render

LABELS = st.dictionaries(st.sampled_from(["a", "b_1"]), st.text(st.characters(exclude_categories=["Cs"])), max_size=2)
NUMBERS = st.builds(
    Number,
    st.sampled_from(["x", "y_bytes", "z:1"]),
    st.floats(),
    LABELS,
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20),
)


@given(numbers=st.lists(NUMBERS, max_size=8))
def test_prometheus_reads_what_was_written(numbers: list[Number]) -> None:
    families = list(text_string_to_metric_families(render(numbers)))

    read = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for each in families
        for sample in each.samples
    }
    wanted: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    for number in numbers:
        wanted.setdefault((number.name, tuple(sorted(number.labels.items()))), number.value)
    assert len({each.name for each in families}) == len(families)
    assert read.keys() == wanted.keys()
    assert all(read[key] == value or (math.isnan(read[key]) and math.isnan(value)) for key, value in wanted.items())


@pytest.mark.parametrize(("name", "labels"), [("a-b", {}), ("", {}), ("1a", {}), ("a", {"b-c": "x"}), ("a\nb 1", {})])
def test_a_name_that_prometheus_does_not_take_is_refused(name: str, labels: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="cannot be the name"):
        Number(name, 1, labels)
