"""Families of metrics as text for Prometheus; none of them is known here.

Source: Prometheus, "Exposition formats"; OpenMetrics 1.0.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final, assert_never

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from common.metrics import PREFIX, Distribution, Family, MetricKind

# type that clients accept who know the newer format
OPEN_METRICS: Final = "application/openmetrics-text"


def write(families: Sequence[Family], *, is_open: bool = False) -> tuple[bytes, str]:
    """The text of the families, each of another name, and its content type. Cost: some milliseconds.

    Args: is_open: in the format of OpenMetrics, instead of the older one of Prometheus.
    """
    # a registry of our own: that of the library would add numbers of this process under names of others
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(families))
    encode, content_type = choose_encoder(OPEN_METRICS if is_open else "")
    return encode(registry), content_type


class _Collector(Collector):
    """The families, for the library."""

    def __init__(self, families: Sequence[Family]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        return map(_metric, self._families)


def _metric(family: Family) -> Metric:
    declared, samples = family.metric, family.samples
    name, text, labels = PREFIX + declared.name, declared.text, declared.labels
    match declared.kind:
        case MetricKind.GAUGE:
            gauge = GaugeMetricFamily(name, text, labels=labels)
            for sample in samples:
                gauge.add_metric(sample.labels, sample.number)
            return gauge
        case MetricKind.COUNTER:
            counter = CounterMetricFamily(name, text, labels=labels)
            for sample in samples:
                counter.add_metric(sample.labels, sample.number)
            return counter
        case MetricKind.HISTOGRAM:
            histogram = HistogramMetricFamily(name, text, labels=labels)
            for sample in samples:
                if sample.distribution is not None:
                    histogram.add_metric(sample.labels, _buckets(sample.distribution), sample.distribution.total)
            return histogram
        case _:
            assert_never(declared.kind)


def _buckets(values: Distribution) -> list[tuple[str, float]]:
    ends = [*map(repr, map(float, values.bounds)), "+Inf"]
    return list(zip(ends, accumulate(values.counts), strict=True))
