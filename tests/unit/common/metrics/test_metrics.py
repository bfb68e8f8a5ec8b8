"""Metrics: what is declared beside the code that counts, what is read of it, and what of a report is refused."""

from bisect import bisect_left
from collections import Counter
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import GantryError, ProtocolError
from common.jsontext import ascii_json
from common.metrics import (
    DAEMON,
    RUN_S,
    STORE,
    WAIT_S,
    WORK_S,
    Declaration,
    Distribution,
    Family,
    Histogram,
    Histograms,
    MetricKind,
    Metrics,
    MetricSample,
    counter,
    declared,
    gauge,
    histogram,
    joined,
    read,
)
from common.queue.jobs import JobState
from common.system.processuse import own_use
from common.wire import structure, unstructure
from protocol.metrics import DaemonMetrics

BOUNDS = (1.0, 2.5)


@attrs.define
class Counts(Metrics):
    frobs: int = counter("frobs", "Frobs.")
    ended: Counter[JobState] = counter("frobs_ended", "Frobs by their end.", "status")
    pairs: Counter[tuple[str, str]] = counter("frob_pairs", "Pairs of frobs.", "one", "other")
    calls: Counter[str] = counter("frob_calls", "Calls of frobs.", DAEMON, "code")
    room: int | None = gauge("frob_room", "Room for frobs.", STORE)
    names: tuple[str, ...] = gauge("frob_names", "Names of frobs.", begin=tuple, of=len)
    took: Histogram = histogram("frob_seconds", "Time of a frob.", bounds=BOUNDS)
    took_by: Histograms = histogram("frob_part_seconds", "Time of a part.", "part", bounds=BOUNDS, keys=("a",))
    # no metric
    private: str = ""


def samples(*families: Family) -> dict[str, list[tuple[tuple[str, ...], object]]]:
    return {
        family.metric.name: [(each.labels, each.distribution or each.number) for each in family.samples]
        for family in families
    }


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


def test_to_count_is_to_add_to_a_plain_field() -> None:
    counts = Counts()
    counts.frobs += 2
    counts.ended[JobState.ERROR] += 1
    counts.pairs["a", "b"] += 3
    counts.calls["denied"] += 4
    counts.room = 5
    counts.names = ("x", "y")
    counts.took.add(0.5)
    counts.took_by["b"].add(2.0)

    found = samples(*read(counts, daemon="luxid", store="queue"))

    assert found == {
        "frobs": [((), 2)],
        "frobs_ended": [(("error",), 1)],
        "frob_pairs": [(("a", "b"), 3)],
        "frob_calls": [(("luxid", "denied"), 4)],
        "frob_room": [(("queue",), 5)],
        "frob_names": [((), 2)],
        "frob_seconds": [((), Distribution(BOUNDS, (1, 0, 0), 0.5))],
        "frob_part_seconds": [
            (("a",), Distribution(BOUNDS, (0, 0, 0))),
            (("b",), Distribution(BOUNDS, (0, 1, 0), 2.0)),
        ],
    }


def test_what_is_not_known_is_not_reported() -> None:
    names = samples(*read(Counts(room=None), daemon="luxid", store="queue"))

    assert "frob_room" not in names
    assert names["frobs_ended"] == []


def test_all_that_is_declared_is_known_without_an_object() -> None:
    found = [each for each in declared() if each.name.startswith("frob")]

    assert found == [each.metric for each in read(Counts(), daemon="luxid", store="queue")]
    assert found[1] == Declaration("frobs_ended", MetricKind.COUNTER, "Frobs by their end.", ("status",))


def test_families_of_one_name_are_one_with_all_samples() -> None:
    metric = Declaration("frobs", MetricKind.COUNTER, "Frobs.", ("store",))
    one, two = (Family(metric, (MetricSample((store,), number),)) for store, number in (("locks", 1), ("config", 2)))
    other = Family(Declaration("frobs", MetricKind.GAUGE, "Frobs."), (MetricSample((), 3),))

    assert samples(*joined([one, two, other])) == {"frobs": [(("locks",), 1), (("config",), 2)]}


def test_a_report_goes_over_the_wire_and_back() -> None:
    counts = Counts(frobs=3, calls=Counter(denied=1))
    counts.took.add(0.5)
    told = DaemonMetrics(own_use("1"), tuple(read(counts, daemon="luxid", store="queue")))

    assert ascii_json(unstructure(told))
    assert structure(unstructure(told), DaemonMetrics) == told


METRIC: dict[Any, Any] = {"name": "frobs", "kind": "counter", "text": "Frobs."}


@pytest.mark.parametrize(
    "family",
    [
        {"metric": {**METRIC, "name": 'frobs{a="b"}'}},
        {"metric": {**METRIC, "name": "frobs\n"}},
        {"metric": {**METRIC, "kind": "summary"}},
        {"metric": {**METRIC, "labels": ["a b"]}},
        {"metric": {**METRIC, "labels": ["a"]}, "samples": [{"number": 1}]},
        {"metric": METRIC, "samples": [{"number": "1"}]},
        {"metric": METRIC, "samples": [{"labels": ["a"], "number": 1}]},
        {"metric": METRIC, "samples": [{"distribution": {}}]},
        {"metric": {**METRIC, "kind": "histogram"}, "samples": [{"number": 1}]},
        {
            "metric": {**METRIC, "kind": "histogram"},
            "samples": [{"distribution": {"bounds": [1.0], "counts": [1, 2, 3], "total": 1.0}}],
        },
    ],
)
def test_what_could_spoil_the_text_is_refused(family: object) -> None:
    with pytest.raises(GantryError):
        structure({"families": [family]}, DaemonMetrics)


def test_a_report_of_a_newer_daemon_is_read_without_what_is_new() -> None:
    told = structure(
        {"families": [{"metric": METRIC, "samples": [{"number": 2, "newer": 1}]}], "newer": 0}, DaemonMetrics
    )

    assert told.number("frobs") == 2


def test_numbers_are_found_by_name() -> None:
    counts = Counts(ended=Counter({JobState.ERROR: 2, JobState.SUCCESS: 3}))
    counts.took.add(0.5)
    counts.took_by["b"].add(0.5)
    told = DaemonMetrics(families=tuple(read(counts, daemon="luxid", store="queue")))

    assert told.number("frobs_ended") == 5
    assert told.by("frobs_ended") == {"error": 2, "success": 3}
    assert told.distribution("frob_seconds").count == told.distribution("frob_part_seconds", "b").count == 1
    assert told.distribution("frob_part_seconds", "never") == Distribution()


def test_a_number_that_a_daemon_does_not_report_is_an_error_with_its_name() -> None:
    with pytest.raises(ProtocolError, match="'frobs'"):
        DaemonMetrics().number("frobs")


def test_a_process_tells_what_it_uses() -> None:
    use = own_use("1")

    assert use.memory_bytes > 2**20
    assert 3 <= use.descriptors <= use.max_descriptors or use.max_descriptors == -1
    assert use.started_at > 1_500_000_000
    assert use.cpu_s > 0
