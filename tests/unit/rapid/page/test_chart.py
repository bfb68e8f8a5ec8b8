"""Curves of figures over time."""

import pytest

from daemons.rapid.page.drawing import draw_chart, nice_top


@pytest.mark.parametrize(("highest", "top"), [(0, 1), (0.3, 0.5), (1, 1), (7, 10), (11, 20), (260, 500), (1000, 1000)])
def test_the_top_is_a_round_number(highest: float, top: float) -> None:
    assert nice_top(highest) == pytest.approx(top)


def test_curves_begin_on_the_left_and_unknown_values_are_left_out() -> None:
    chart = draw_chart([100, 110, 120], [("started", "curve-1", [0, None, 10])])

    assert chart.curves[0].points == "0.00,100.00 100.00,0.00"
    assert [level.value for level in chart.levels] == [0, 5, 10]


def test_one_instant_gives_no_curve() -> None:
    assert draw_chart([100], [("started", "curve-1", [3])]).curves[0].points == ""
