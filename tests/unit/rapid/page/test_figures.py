"""Rates and quantiles of samples."""

from collections import Counter

import attrs
import pytest

from common.metrics import Distribution, read
from common.queue.jobs import JobState
from common.system.processuse import ProcessUse
from daemons.luxid.core.queue.jobcounts import JobCounts
from daemons.rapid.page.views.figures import Sample, delay_chart, quantile, rate_chart, rates, sample_of
from protocol.metrics import DaemonMetrics


def sample(at: float, ended: int, *, started_at: float = 5.0, delays: tuple[int, ...] = (0, 0, 0)) -> Sample:
    return Sample(at, started_at, 2 * ended, ended, ended, Distribution((1.0, 10.0), delays))


def test_a_sample_has_the_sums_of_luxids_numbers() -> None:
    jobs = JobCounts(submitted=9, started=7, ended=Counter({JobState.SUCCESS: 4, JobState.ERROR: 1}))
    jobs.queue_delay.add(2.0)
    metrics = DaemonMetrics(ProcessUse(started_at=5.0), tuple(read(jobs, daemon="luxid")))

    assert sample_of(1.0, metrics) == Sample(1.0, 5.0, 9, 7, 5, jobs.queue_delay.read())


def test_rates_are_of_the_last_minute() -> None:
    found = rates([sample(0, 1000), sample(100, 1100), sample(150, 1200)])

    assert found is not None
    assert attrs.astuple(found) == (4.0, 2.0, 2.0)


def test_the_start_of_luxid_is_computed_anew_and_differs_a_little() -> None:
    assert rates([sample(0, 10, started_at=5.0), sample(5, 20, started_at=5.0004)]) is not None


def test_a_luxid_that_was_started_anew_has_no_rate_yet() -> None:
    assert rates([sample(0, 10), sample(5, 2, started_at=9.0)]) is None
    assert rates([sample(0, 10)]) is None
    assert rates([]) is None


def test_a_gap_is_left_out_of_the_curve() -> None:
    chart = rate_chart([sample(0, 1), sample(5, 11), sample(10, 2, started_at=9.0), sample(15, 12, started_at=9.0)])

    assert chart.curves[2].points.count(",") == 2


@pytest.mark.parametrize(
    ("counts", "share", "bound"), [((9, 1, 0), 0.5, 1.0), ((9, 1, 0), 0.99, 10.0), ((0, 0, 3), 0.5, 10.0)]
)
def test_a_quantile_is_the_end_of_its_range(counts: tuple[int, ...], share: float, bound: float) -> None:
    assert quantile(Distribution((1.0, 10.0), counts), share) == bound


def test_without_values_there_is_no_quantile() -> None:
    assert quantile(Distribution(), 0.5) is None
    assert quantile(Distribution((1.0,), (0, 0)), 0.5) is None


def test_delays_are_of_the_jobs_of_one_minute() -> None:
    chart = delay_chart(
        [sample(0, 1, delays=(9, 0, 0)), sample(90, 1, delays=(9, 2, 0)), sample(100, 1, delays=(9, 4, 0))]
    )

    # of the first minutes, no job started between; then two, which waited for at most 10 s
    assert chart.curves[0].points.split() == ["100.00,0.00"]
