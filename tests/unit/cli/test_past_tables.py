"""The table of ended jobs on a screen (DESIGN section 16)."""

import re

import attrs

from cli.job.history import job_json, job_lines, sum_lines
from cli.tables import Layout
from common.ids import JobId
from common.queue.jobs import JobState
from protocol.luxi.history import EndedJob, Grouping, PastSum

JOB = EndedJob(
    JobId(7),
    JobState.ERROR,
    "n" * 60,
    "S",
    "ada",
    {},
    1e9,
    1e9,
    None,
    1e9 + 5,
    None,
    None,
    why="failed " * 30,
)


def test_a_line_is_as_long_as_the_screen_is_wide_and_says_that_it_was_cut() -> None:
    wide = list(job_lines([JOB, attrs.evolve(JOB, why="x")], Layout(width=110)))
    whole = list(job_lines([JOB], Layout()))

    assert [len(line) <= 110 for line in wide] == [True] * 3
    assert wide[1].endswith("…")
    # first the longer text, then the name
    assert "n…" in wide[1]
    assert "n" * 60 in whole[1]
    assert whole[1].endswith(JOB.why.rstrip())


def test_on_a_narrow_screen_the_end_is_short_and_whole() -> None:
    lines = list(job_lines([JOB, JOB], Layout(width=80)))

    assert all(len(line) <= 80 for line in lines)
    assert re.search(r" 09-09 \d\d:\d\d ", lines[1])
    # of different years each is told with its own
    of_two_years = list(job_lines([JOB, attrs.evolve(JOB, end_at=2e9)], Layout(width=80)))
    assert re.search(r" 2033-05-18 \d\d:\d\d:\d\d ", of_two_years[2])


def test_sums_fit_a_narrow_screen() -> None:
    one = PastSum("n" * 60, 7, 1, 0, 0, *[3725.0] * 5)

    assert [len(line) <= 80 for line in sum_lines([one], Grouping.NAME, "", Layout(width=80))] == [True, True]
    assert "P95 WAIT" in next(sum_lines([one], Grouping.NAME, "", Layout(width=120)))


def test_json_has_every_field_and_times_for_people_beside() -> None:
    found = job_json(JOB)

    assert found.keys() >= {field.name for field in attrs.fields(EndedJob)}
    assert (found["status"], found["end_at"], found["start"], found["why"]) == ("error", 1e9 + 5, None, JOB.why)
    assert str(found["end"]).startswith("2001-09-09T")
