"""Histograms, and the reports of daemons that contain them (DESIGN section 15)."""

from bisect import bisect_left

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.jsontext import ascii_json
from common.metrics import RUN_S, WAIT_S, WORK_S, CallTally, Distribution, Histogram
from common.system.processes import own_use
from common.wire import structure, unstructure
from protocol.luxi.daemon import Durations, LuxidMetrics

BOUNDS = (1.0, 2.5)


@pytest.mark.parametrize("bounds", [RUN_S, WAIT_S, WORK_S])
def test_bounds_ascend(bounds: tuple[float, ...]) -> None:
    assert list(bounds) == sorted(set(bounds))


@given(st.lists(st.floats(0, 5)))
def test_each_value_is_counted_in_the_first_range_that_it_does_not_exceed(values: list[float]) -> None:
    histogram = Histogram(BOUNDS)
    for value in values:
        histogram.add(value)

    found = histogram.read()

    naive = [sum(1 for value in values if bisect_left(BOUNDS, value) == place) for place in range(3)]
    assert found == Distribution(BOUNDS, tuple(naive), found.total)
    assert found.count == len(values)
    assert found.total == pytest.approx(sum(values))


def test_a_bound_belongs_to_the_range_below_it() -> None:
    histogram = Histogram(BOUNDS)
    histogram.add(2.5)

    assert histogram.read().counts == (0, 1, 0)


def test_a_report_goes_over_the_wire_and_back() -> None:
    histogram, tally = Histogram(BOUNDS), CallTally()
    histogram.add(0.5)
    tally.refuse("denied")
    told = LuxidMetrics(own_use("1"), tally.read(), durations=Durations(run={"OP_X": histogram.read()}))

    assert ascii_json(unstructure(told))
    assert structure(unstructure(told), LuxidMetrics) == told


def test_a_report_of_a_newer_daemon_is_read_without_what_is_new() -> None:
    assert structure({"queue": {"slots": 3, "newer": 1}, "newer": {}}, LuxidMetrics).queue.slots == 3


def test_a_process_tells_what_it_uses() -> None:
    use = own_use("1")

    assert use.memory_bytes > 2**20
    assert 3 <= use.descriptors <= use.max_descriptors or use.max_descriptors == -1
    assert use.started_at > 1_500_000_000
    assert use.cpu_s > 0
