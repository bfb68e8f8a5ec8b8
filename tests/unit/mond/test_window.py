"""A sliding window, against a twin that keeps everything."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemons.mond.core.procfiles import Window

STEPS = st.lists(st.tuples(st.floats(0.5, 400), st.integers(0, 1000)), min_size=1, max_size=30)


@given(steps=STEPS)
def test_rates_are_those_of_the_samples_of_the_last_seconds(steps: list[tuple[float, int]]) -> None:
    window, samples, at, counter = Window(600), list[tuple[float, int]](), 0.0, 0
    for pause, growth in steps:
        at, counter = at + pause, counter + growth
        window.add(at, [counter])
        samples.append((at, counter))

    old = [sample for sample in samples[:-1] if sample[0] <= at - 600]
    kept = [*old[-1:], *(sample for sample in samples if sample[0] > at - 600)]
    rates = window.rates()

    if len(kept) < 2:
        assert rates is None
    else:
        assert rates is not None
        assert list(rates) == pytest.approx([(counter - kept[0][1]) / (at - kept[0][0])])


def test_another_number_of_processors_begins_anew() -> None:
    window = Window(600)
    window.add(0, [0, 0])
    window.add(10, [5, 5])
    assert window.rates() == [0.5, 0.5]

    window.add(20, [7, 7, 7])

    assert window.rates() is None


def test_a_counter_that_goes_back_has_not_grown() -> None:
    window = Window(600)
    window.add(0, [10])
    window.add(10, [5])

    assert window.rates() == [0]
