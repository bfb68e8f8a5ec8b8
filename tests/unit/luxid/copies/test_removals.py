"""What the record of removals names (DESIGN 11, "a job that is missing on the master")."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import DamagedFile
from daemons.luxid.core.copies import removals as module
from daemons.luxid.core.copies.removals import Ranges, Removals, decode_removals, encode_removals

groups = st.lists(st.sets(st.integers(1, 60)))


@given(groups)
def test_ranges_name_exactly_what_was_given_and_never_touch(sets: list[set[int]]) -> None:
    ranges, twin = Ranges(), set[int]()
    for numbers in sets:
        ranges, twin = ranges.with_more(numbers), twin | numbers

    assert {number for number in range(70) if number in ranges} == twin
    assert all(a[1] + 1 < b[0] for a, b in pairwise(ranges.pairs))


def test_jobs_that_are_removed_from_the_oldest_on_are_one_range() -> None:
    removals = Removals().with_jobs(range(1, 501)).with_jobs(range(501, 1_001))

    assert removals.jobs.pairs == ((1, 1000),)
    assert removals.with_jobs([7]) is removals
    assert len(encode_removals(removals)) < 100


def test_too_many_ranges_lose_the_lowest_and_nothing_is_said_of_those(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_RANGES", 3)

    removals = Removals().with_jobs([1, 3, 5, 7, 9])

    assert (removals.begun_at, removals.jobs.pairs) == (3, ((5, 5), (7, 7), (9, 9)))


@given(groups, st.sets(st.integers(0, 9)), st.integers(0, 99))
def test_saved_and_read_is_the_same(sets: list[set[int]], waits: set[int], begun_at: int) -> None:
    removals = Removals(begun_at).with_waits(waits)
    for numbers in sets:
        removals = removals.with_jobs(numbers)

    assert decode_removals(encode_removals(removals), "a file") == removals


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b'{"begun_at":0,"jobs":[[5,3]],"waits":[]}', b'{"begun_at":0,"jobs":[[1,5],[4,9]],"waits":[]}'],
)
def test_what_is_no_record_is_refused_with_what_to_do(content: bytes) -> None:
    with pytest.raises(DamagedFile, match="copy it from a master candidate, or remove it"):
        decode_removals(content, "/lib/removals")
