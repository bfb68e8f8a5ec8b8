"""Families of numbers in the form of Prometheus: gauges, counters, histograms.

Names begin with `gantry_` and end with their unit; a counter's with `_total`. The values of a label are always of a
bounded set, and never names that users choose.

Source: Prometheus, "Metric and label naming".
"""

from collections.abc import Mapping
from itertools import accumulate
from typing import Final, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from common.metrics.histogram import Distribution

PREFIX: Final = "gantry_"
V = TypeVar("V")
# values by those of the labels
Labelled = Mapping[tuple[str, ...], V]


def gauge(name: str, text: str, values: float | Labelled[float], *labels: str) -> Metric:
    """Numbers that rise and fall; one without labels, or one for each combination of labels' values."""
    family = GaugeMetricFamily(PREFIX + name, text, labels=labels)
    for key, value in _labelled(values).items():
        family.add_metric(key, value)
    return family


def counter(name: str, text: str, values: float | Labelled[float], *labels: str) -> Metric:
    """Numbers that only rise, as `gauge`; `_total` is added to the name."""
    family = CounterMetricFamily(PREFIX + name, text, labels=labels)
    for key, value in _labelled(values).items():
        family.add_metric(key, value)
    return family


def histogram(name: str, text: str, values: Distribution | Labelled[Distribution], *labels: str) -> Metric:
    """Histograms, as `gauge`."""
    family = HistogramMetricFamily(PREFIX + name, text, labels=labels)
    for key, value in _labelled(values).items():
        family.add_metric(key, _buckets(value), value.total)
    return family


def by(values: Mapping[str, V]) -> Labelled[V]:
    """Values by the one label that a family has."""
    return {(key,): value for key, value in values.items()}


def _labelled(values: V | Labelled[V]) -> Labelled[V]:
    return values if isinstance(values, Mapping) else {(): values}


def _buckets(value: Distribution) -> list[tuple[str, float]]:
    ends = [*map(repr, map(float, value.bounds)), "+Inf"]
    return list(zip(ends, accumulate(value.counts), strict=True))
