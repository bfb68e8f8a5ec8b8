"""The timeline: lanes, rows in them, and marks."""

from itertools import pairwise

from daemons.rapid.page.drawing import AXIS_HEIGHT, MOST_ROWS, ROW_HEIGHT, BarPhase, JobBar, Stretch, draw_timeline


def life(job_id: int, since: float, until: float, lane: str = "a") -> JobBar:
    middle = (since + until) / 2
    stretches = (Stretch(BarPhase.WAIT, since, middle), Stretch(BarPhase.RUN, middle, until))
    return JobBar(job_id, lane, f"job {job_id}", "running", stretches)


def test_places_are_per_cent_of_the_window() -> None:
    drawn = draw_timeline([life(1, 100, 200)], 0, 400)

    (bar,) = drawn.lanes[0].bars
    assert (bar.x, bar.width) == (25.0, 25.0)
    assert [(block.phase, block.x, block.width) for block in bar.blocks] == [("wait", 25.0, 12.5), ("run", 37.5, 12.5)]


def test_jobs_that_overlap_stand_in_rows_and_later_ones_use_a_row_again() -> None:
    drawn = draw_timeline([life(1, 0, 50), life(2, 10, 60), life(3, 50, 90)], 0, 100)

    rows = {bar.job_id: (bar.y - AXIS_HEIGHT) // ROW_HEIGHT for bar in drawn.lanes[0].bars}
    assert rows == {1: 0, 2: 1, 3: 0}


def test_a_lane_counts_the_jobs_for_which_it_has_no_row() -> None:
    drawn = draw_timeline([life(each, each, 1000) for each in range(MOST_ROWS + 3)], 0, 1000)

    (lane,) = drawn.lanes
    assert (len(lane.bars), lane.more, lane.height) == (MOST_ROWS, 3, MOST_ROWS * ROW_HEIGHT)


def test_lanes_do_not_overlap() -> None:
    drawn = draw_timeline([life(1, 0, 50, "a"), life(2, 0, 50, "a"), life(3, 0, 9, "b")], 0, 100)

    first, second = drawn.lanes
    assert first.y + first.height <= second.y
    assert second.y + second.height <= drawn.height


def test_what_lies_outside_the_window_is_cut_or_left_out() -> None:
    drawn = draw_timeline([life(1, 0, 150), life(2, 0, 50), life(3, 180, 900)], 100, 200)

    bars = [bar for lane in drawn.lanes for bar in lane.bars]
    assert [bar.job_id for bar in bars] == [1, 3]
    assert all(bar.x >= 0 and bar.x + bar.width <= 100 for bar in bars)


def test_marks_are_few_and_at_round_times() -> None:
    for length in (10, 61, 3600, 86400):
        marks = draw_timeline([], 1_000_003, 1_000_003 + length).marks

        assert 1 <= len(marks) <= 8, length
        assert len({later.at - mark.at for mark, later in pairwise(marks)}) <= 1
