"""Figures of luxid over time: rates and quantiles."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import attrs

from common.metrics import Distribution
from daemons.rapid.page.drawing import Chart, draw_chart
from protocol.metrics import DaemonMetrics

# seconds by which luxid's own times of its start may differ: they are computed at each reading
_SAME_S: Final = 1.0
# seconds over which a rate "of now" is taken
LATELY_S: Final = 60.0


@attrs.frozen
class Sample:
    """What curves need of luxid's numbers at one instant; hundreds of them are kept."""

    # seconds since the epoch, as is the start of luxid
    at: float
    started_at: float
    # jobs since then
    submitted: float
    started: float
    ended: float
    queue_delay: Distribution


def sample_of(at: float, metrics: DaemonMetrics) -> Sample:
    """Raises: ProtocolError: luxid is of another release."""
    submitted, started, ended = map(metrics.number, ("jobs_submitted", "job_starts", "jobs_ended"))
    delay = metrics.distribution("queue_delay_seconds")
    return Sample(at, metrics.process.started_at, submitted, started, ended, delay)


@attrs.frozen
class Rates:
    """Jobs a second."""

    submitted: float
    started: float
    ended: float


def rates(samples: Sequence[Sample]) -> Rates | None:
    """The rates of the last minute; None: it is not known yet."""
    if not samples:
        return None
    last = samples[-1]
    first = next(sample for sample in samples if last.at - sample.at <= LATELY_S)
    return _between(first, last)


def _between(first: Sample, last: Sample) -> Rates | None:
    """None: no time has passed, or luxid has begun anew."""
    took = last.at - first.at
    if took <= 0 or not _is_one_run(first, last):
        return None
    return Rates(
        (last.submitted - first.submitted) / took,
        (last.started - first.started) / took,
        (last.ended - first.ended) / took,
    )


def _is_one_run(first: Sample, last: Sample) -> bool:
    """Whether luxid was not started anew between the samples."""
    return abs(last.started_at - first.started_at) < _SAME_S


def rate_chart(samples: Sequence[Sample]) -> Chart:
    """How many jobs came, started and ended a second."""
    told = [_between(first, last) for first, last in pairwise(samples)]
    instants = [sample.at for sample in samples[1:]]
    return draw_chart(
        instants,
        [
            ("submitted", "curve-1", [None if each is None else each.submitted for each in told]),
            ("started", "curve-2", [None if each is None else each.started for each in told]),
            ("ended", "curve-3", [None if each is None else each.ended for each in told]),
        ],
    )


def delay_chart(samples: Sequence[Sample]) -> Chart:
    """The median and the 99th of 100 of the queue delay, of the jobs of one minute each."""
    delays = list(_delays(samples))
    instants = [at for at, _ in delays]
    return draw_chart(
        instants,
        [
            ("median", "curve-1", [quantile(delay, 0.5) for _, delay in delays]),
            ("99 of 100", "curve-2", [quantile(delay, 0.99) for _, delay in delays]),
        ],
    )


def _delays(samples: Sequence[Sample]) -> Iterator[tuple[float, Distribution]]:
    """The delays of the jobs that started in the minute before each sample."""
    begin = 0
    for sample in samples:
        while sample.at - samples[begin].at > LATELY_S:
            begin += 1
        first = samples[begin]
        if _is_one_run(first, sample):
            yield sample.at, _less(sample.queue_delay, first.queue_delay)


def _less(after: Distribution, before: Distribution) -> Distribution:
    if after.bounds != before.bounds:
        return after
    counts = tuple(late - early for late, early in zip(after.counts, before.counts, strict=True))
    return Distribution(after.bounds, counts, after.total - before.total)


def quantile(values: Distribution, share: float) -> float | None:
    """The upper end of the range in which this share of the values lies; None: there is no value."""
    wanted, seen = values.count * share, 0
    if not values.count or not values.bounds:
        return None
    for bound, count in zip(values.bounds, values.counts, strict=False):
        seen += count
        if seen >= wanted:
            return bound
    return values.bounds[-1]
