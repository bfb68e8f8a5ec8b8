"""Metrics: declared once, beside the code that counts, and reported without anybody having to know them.

Theory. A metric is a field of an attrs class that derives from `Metrics`, declared by `counter`, `gauge` or `histogram`
with the name, help text and labels under which Prometheus has it:

    @attrs.define
    class JobCounts(Metrics):
        submitted: int = counter("jobs_submitted", "Jobs that the queue has taken.")
        ended: Counter[JobState] = counter("jobs_ended", "Jobs that have ended, by status.", "status")

To count is to add to a plain field: `counts.submitted += 1`. `read` turns the fields of such objects into families,
which a daemon puts into its reply of `ReadMetrics`; rapid turns families into text, and `declared` lists all metrics
for the manual.

Names are without the `gantry_` before them and a counter's `_total`, and end with their unit. The values of a label are
always of a bounded set, and never names that users choose; but those of `label`, of which only the first few count.
Counters and histograms begin anew with each daemon.

Source: DESIGN section 15; Prometheus, "Metric and label naming".
"""

import enum
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import attrs

from common.shapes import Lenient

# beginning of all names, as Prometheus has them
PREFIX: Final = "gantry_"
# labels whose values are given to `read`: those of what several daemons, or several stores of a daemon, report alike
DAEMON: Final = "daemon"
STORE: Final = "store"


# Histograms: how often a measured value lay in each of some fixed ranges.
#
# Theory. To add a value costs one search among some 15 bounds and two additions; nothing is kept of the value itself.
# A histogram may be written by one thread and read by another: each of its numbers is right at some instant of the
# reading, which is all that a graph needs. It has at most one writer at a time.


# upper ends of ranges, in seconds: work of the daemons, from one decision to a disk that hangs
WORK_S: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
# waits of jobs
WAIT_S: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)
# run times of opcodes; few, as there is one histogram for each opcode
RUN_S: Final = (0.01, 0.1, 1.0, 10.0, 60.0, 600.0, 3600.0, 21600.0)


@attrs.frozen
class Distribution(Lenient):
    """A histogram as it is reported. Raises: ValueError: there is not one count more than bounds."""

    # upper ends of the ranges, ascending; a value belongs to the first range whose end it does not exceed
    bounds: tuple[float, ...] = ()
    # number of values in each range, the last one for those beyond all bounds; so one more than bounds
    counts: tuple[int, ...] = (0,)
    # sum of all values
    total: float = 0.0

    def __attrs_post_init__(self) -> None:
        if len(self.counts) != len(self.bounds) + 1:
            raise ValueError(f"expected {len(self.bounds) + 1} counts, got {len(self.counts)}")

    @property
    def count(self) -> int:
        """Number of all values."""
        return sum(self.counts)


def together(found: Iterable[Distribution]) -> Distribution:
    """All values of these, which have the same bounds; of none: no value."""
    parts = tuple(found)
    if not parts:
        return Distribution()
    counts = zip(*(part.counts for part in parts), strict=True)
    return Distribution(parts[0].bounds, tuple(map(sum, counts)), sum(part.total for part in parts))


class Histogram:
    """Counts values by ranges with these upper ends, ascending."""

    __slots__ = ("_bounds", "_counts", "_total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)
        self._total = 0.0

    def add(self, value: float) -> None:
        """Count one value. Cost: O(log bounds)."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._total += value

    def read(self) -> Distribution:
        return Distribution(self._bounds, tuple(self._counts), self._total)


class Histograms(dict[str, Histogram]):
    """Histograms by the value of a label; one that is missing begins when it is first used."""

    __slots__ = ("_bounds",)

    def __init__(self, bounds: Sequence[float], keys: Iterable[str] = ()) -> None:
        super().__init__({key: Histogram(bounds) for key in keys})
        self._bounds = bounds

    def __missing__(self, key: str) -> Histogram:
        return self.setdefault(key, Histogram(self._bounds))


# Declarations.


class MetricKind(enum.Enum):
    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
# key of the metadata of a field: its declaration, and what its number is of
_METRIC: Final = "metric"


@attrs.frozen
class Declaration(Lenient):
    """A metric. Raises: ValueError: a name that Prometheus does not take."""

    name: str
    kind: MetricKind
    # a sentence
    text: str
    labels: tuple[str, ...] = ()

    def __attrs_post_init__(self) -> None:
        for name in (self.name, *self.labels):
            if not _NAME.fullmatch(name):
                raise ValueError(f"expected a name of small letters, digits and '_', got {name!r:.60}")


# what declares a field: of whatever type the field has, as the result of `attrs.field`
MetricField: TypeAlias = Any


class Metrics:
    """The base of attrs classes whose declared fields are metrics."""

    __slots__ = ()


def counter(name: str, text: str, *labels: str, begin: Callable[[], object] | None = None) -> MetricField:
    """Declare a field with a number that only rises: an `int`, or with labels of its own a `Counter` by their values.

    Args:
        text: a sentence.
        labels: names of the labels, in the order of the values in a key of the `Counter`. A key is one value, or a
            tuple of them. Values of `DAEMON` and `STORE` are in no key.
        begin: returns what the field begins with; None: zero, or an empty `Counter`.
    """
    return _field(Declaration(name, MetricKind.COUNTER, text, labels), begin or (Counter if _own(labels) else int))


def gauge(
    name: str,
    text: str,
    *labels: str,
    begin: Callable[[], object] | None = None,
    of: Callable[..., object] | None = None,
) -> MetricField:
    """Declare a field with a number that rises and falls; None: there is none, and nothing is reported.

    Args:
        text, labels, begin: as for `counter`.
        of: returns the number that follows from the value of the field; None: the value is the number.
    """
    return _field(Declaration(name, MetricKind.GAUGE, text, labels), begin or (Counter if _own(labels) else int), of)


def histogram(
    name: str, text: str, *labels: str, bounds: Sequence[float] = (), keys: Iterable[str] = ()
) -> MetricField:
    """Declare a field with a `Histogram`, or with a label of its own `Histograms`; `Distribution` may stand for either.

    Args:
        text, labels: as for `counter`.
        keys: values of the label that are there from the beginning.
    """

    def begin() -> object:
        return Histograms(bounds, keys) if _own(labels) else Histogram(bounds)

    return _field(Declaration(name, MetricKind.HISTOGRAM, text, labels), begin)


def backstop_wakeups() -> MetricField:
    """Declare a field that counts deaths of processes of which no event told; whoever looks for deaths has one."""
    text = "Deaths that only the periodic check has found; each is a missed event, and a defect."
    return counter("backstop_wakeups", text, DAEMON)


def write_times() -> MetricField:
    """Declare a field with the seconds of each durable write of a store."""
    return histogram("store_write_seconds", "One durable write, fsyncs included.", DAEMON, STORE, bounds=WORK_S)


def declared() -> Iterable[Declaration]:
    """All metrics of the modules that are imported, each once."""
    return dict.fromkeys(declaration for kind in _kinds(Metrics) for _, declaration, _ in _declarations(kind))


def _kinds(base: type) -> Iterator[type]:
    derived: list[type] = base.__subclasses__()
    for kind in derived:
        # attrs makes a class with slots anew, and leaves the first one without fields
        if "__attrs_attrs__" in vars(kind):
            yield kind
        yield from _kinds(kind)


def _field(
    declaration: Declaration, begin: Callable[[], object], of: Callable[..., object] | None = None
) -> MetricField:
    # a Histogram is told apart by what it is, not by its numbers
    has_eq = declaration.kind is not MetricKind.HISTOGRAM
    return attrs.field(factory=begin, eq=has_eq, metadata={_METRIC: (declaration, of)})


def _own(labels: Sequence[str]) -> bool:
    """Whether a field with these labels has values by them."""
    return not {DAEMON, STORE}.issuperset(labels)


def _declarations(kind: type) -> Sequence[tuple[str, Declaration, Callable[..., object] | None]]:
    """Names of fields, each with its declaration and what its number is of."""
    found = [(each.name, each.metadata.get(_METRIC)) for each in attrs.fields(kind)]
    return [(name, *metric) for name, metric in found if metric is not None]


# Reports: families of samples, which say themselves what they are.


@attrs.frozen
class MetricSample(Lenient):
    """One value of a metric."""

    # values of the labels, in their order
    labels: tuple[str, ...] = ()
    # of a gauge or a counter
    number: float = 0
    # of a histogram
    distribution: Distribution | None = None


@attrs.frozen
class Family(Lenient):
    """A metric with its values. Raises: ValueError: a value has not the labels or the form of its metric."""

    metric: Declaration
    samples: tuple[MetricSample, ...] = ()

    def __attrs_post_init__(self) -> None:
        for sample in self.samples:
            if len(sample.labels) != len(self.metric.labels):
                raise ValueError(f"expected {len(self.metric.labels)} labels of '{self.metric.name}'")
            if (sample.distribution is not None) != (self.metric.kind is MetricKind.HISTOGRAM):
                raise ValueError(f"expected samples of a {self.metric.kind.value} in '{self.metric.name}'")


def read(*parts: Metrics, **given: str) -> list[Family]:
    """The present values of all metrics that these objects declare.

    Args: given: values of `DAEMON` and `STORE`, for those metrics that have these labels.
    Raises: ValueError: a value of a label lacks.
    """
    return [
        Family(declaration, tuple(_samples(declaration, value if of is None else of(value), given)))
        for part in parts
        for name, declaration, of in _declarations(type(part))
        if (value := getattr(part, name)) is not None
    ]


def _samples(declaration: Declaration, value: object, given: Mapping[str, str]) -> Iterator[MetricSample]:
    # a copy, as another thread may count
    values = dict(value) if isinstance(value, Mapping) else {(): value}
    own = [label for label in declaration.labels if label not in given]
    for key, each in values.items():
        texts = map(_text, key if isinstance(key, tuple) else (key,))
        by_label = {**given, **dict(zip(own, texts, strict=True))}
        labels = tuple(by_label[label] for label in declaration.labels)
        match each:
            case Histogram():
                yield MetricSample(labels, distribution=each.read())
            case Distribution():
                yield MetricSample(labels, distribution=each)
            case bool():
                yield MetricSample(labels, number=int(each))
            case int() | float():
                yield MetricSample(labels, number=each)
            case _:
                raise TypeError(f"'{declaration.name}' is no number: {each!r:.60}")


def _text(key: object) -> str:
    return str(key.value if isinstance(key, enum.Enum) else key)


def joined(families: Iterable[Family]) -> tuple[Family, ...]:
    """Each metric once, with all its samples; a family with another kind or other labels than its first is dropped."""
    found: dict[str, Family] = {}
    for family in families:
        first = found.setdefault(family.metric.name, attrs.evolve(family, samples=()))
        if (first.metric.kind, first.metric.labels) == (family.metric.kind, family.metric.labels):
            found[family.metric.name] = attrs.evolve(first, samples=first.samples + family.samples)
    return tuple(found.values())
