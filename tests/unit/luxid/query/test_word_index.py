"""The index of words agrees with a look at each job, and makes the words of a job once (see `wordindex`)."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.ids import JobId
from common.query.predicate import Field, compile_expression
from common.query.qlang import Expression
from daemons.luxid.core.query.wordindex import MOST_BYTES, SHARE, WordIndex, is_about_words

WORDS = st.text(alphabet="ab\n\0é", max_size=6)
IDS = st.integers(1, 3 * SHARE)
LEAVES = st.one_of(
    st.text(alphabet="ab.é", min_size=1, max_size=3).map(lambda text: ["=~", "words", re.escape(text)]),
    st.sampled_from([["=~", "words", "a.*b"], ["=~", "words", "^a"], ["=", "status", "queued"]]),
    IDS.map(lambda job_id: ["==", "id", job_id]),
)
FILTERS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda parts: ["&", *parts]),
        st.lists(inner, max_size=3).map(lambda parts: ["|", *parts]),
        inner.map(lambda part: ["!", part]),
    ),
    max_leaves=5,
)


def make(index: WordIndex, jobs: dict[JobId, str]) -> None:
    for ids in index.stale():
        index.make(ids, [(JobId(job_id), jobs[JobId(job_id)]) for job_id in ids if job_id in jobs])


def indexed(jobs: dict[JobId, str], most_bytes: int = MOST_BYTES) -> WordIndex:
    index = WordIndex(most_bytes)
    for job_id in jobs:
        index.changed(job_id)
    make(index, jobs)
    return index


def many(count: int) -> dict[JobId, str]:
    return {JobId(number): f"job number {number}\nalice" for number in range(1, count + 1)}


@given(
    jobs=st.dictionaries(IDS.map(JobId), WORDS, max_size=30),
    changes=st.dictionaries(IDS.map(JobId), st.none() | WORDS, max_size=10),
    filter=FILTERS,
    most_bytes=st.sampled_from([0, 400, MOST_BYTES]),
)
def test_no_job_is_left_out_that_passes(
    jobs: dict[JobId, str], changes: dict[JobId, str | None], filter: list[object], most_bytes: int
) -> None:
    index = indexed(jobs, most_bytes)
    for job_id, text in changes.items():
        index.changed(job_id)
        if text is None:
            jobs.pop(job_id, None)
        else:
            jobs[job_id] = text
    make(index, jobs)
    parsed = Expression.from_wire(filter)
    reads = {"words": lambda job_id: jobs[job_id], "id": lambda job_id: job_id, "status": lambda job_id: "queued"}
    test = compile_expression(parsed, lambda name: Field(reads[name]))

    left_out = index.cannot_pass(parsed)

    assert left_out <= jobs.keys()
    assert not [job_id for job_id in left_out if test(job_id)]
    assert index.bytes <= most_bytes


@pytest.mark.parametrize(
    ("filter", "passing"),
    [
        (["=~", "words", "number\\ 77\\\n"], [77]),
        (["=~", "words", "nobody"], []),
        (["&", ["=~", "words", "alice"], ["=~", "words", "nobody"]], []),
        (["&", ["==", "status", "queued"], ["=~", "words", "number\\ 999"]], [999]),
        (["|", ["==", "id", 5], ["=~", "words", "number\\ 998"]], [5, 998]),
    ],
)
def test_all_that_lack_the_words_are_left_out(filter: list[object], passing: list[int]) -> None:
    jobs = many(1000)

    assert jobs.keys() - indexed(jobs).cannot_pass(Expression.from_wire(filter)) == set(passing)


def test_words_are_made_once_and_after_a_change_those_of_its_neighbours() -> None:
    jobs = many(10_000)
    index = indexed(jobs)
    assert index.made == 10_000

    for _ in range(3):
        make(index, jobs)
    assert index.made == 10_000
    index.changed(JobId(5000))
    make(index, jobs)

    assert index.made <= 10_000 + SHARE


def test_jobs_for_whose_words_there_is_no_room_may_pass() -> None:
    jobs = many(10_000)
    index = indexed(jobs, 100_000)

    left_out = index.cannot_pass(Expression.from_wire(["=~", "words", "nobody"]))

    assert 0 < index.bytes <= 100_000
    assert 0 < len(left_out) < 10_000


@pytest.mark.parametrize(
    ("filter", "is_useful"),
    [
        (["=~", "words", "disk"], True),
        (["=~", "words", "d.sk"], False),
        (["!", ["=~", "words", "disk"]], False),
        (["|", ["=~", "words", "disk"], ["==", "status", "error"]], False),
        (["==", "id", 5], False),
    ],
)
def test_only_what_must_stand_in_a_job_spares_a_look_at_others(filter: list[object], is_useful: bool) -> None:
    assert is_about_words(Expression.from_wire(filter)) is is_useful
