"""What reaches a collector, and what it means when it does not."""

from collections.abc import Iterator

import pytest

from cli.traces.following import NotTaken
from cli.traces.spans import TracedCluster, TraceSpan, Value

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="the extra 'otel' is not installed")

from cli.traces.collector import TraceCollector
from tests.cli.traces.collector import CollectorServer

SPAN = TraceSpan(
    *("build", "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", None, False, 1790000000.25, 1790000001.0),
    {"gantry.job.id": 7},
    False,
    "it failed",
)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[CollectorServer]:
    with CollectorServer() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield server


def collector() -> TraceCollector:
    return TraceCollector(TracedCluster("4f5d", "alpha"), "1.2")


def test_a_span_arrives_as_it_is(server: CollectorServer) -> None:
    collector().take([SPAN])

    (taken,) = server.spans
    assert (taken.name, taken.trace_id, taken.span_id, taken.parent_id) == (SPAN.name, SPAN.trace_id, SPAN.span_id, "")
    assert (taken.start, taken.end) == (1790000000250000000, 1790000001000000000)
    assert (taken.status, taken.message) == (2, "it failed")
    assert taken.resource["service.version"] == "1.2"


def test_texts_that_utf8_cannot_have_hold_nothing_up(server: CollectorServer) -> None:
    bad = "a\ud800b"
    attributes: dict[str, Value] = {f"label.{bad}": bad, "names": [bad, "x"], "jobs": [1, 2], "ok": True}

    collector().take([TraceSpan(bad, SPAN.trace_id, SPAN.span_id, None, False, 1.0, 2.0, attributes, False, bad)])

    (taken,) = server.spans
    assert (taken.name, taken.message) == ("a?b", "a?b")
    assert taken.attributes == {"label.a?b": "a?b", "names": ["a?b", "x"], "jobs": [1, 2], "ok": True}


def test_the_name_of_the_service_may_be_another(server: CollectorServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "jobs")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")

    collector().take([SPAN])

    resource = server.spans[0].resource
    assert (resource["service.name"], resource["deployment.environment"]) == ("jobs", "test")
    assert resource["gantry.cluster.name"] == "alpha"


@pytest.mark.parametrize(("status", "is_final"), [(400, True), (413, True), (401, False), (404, False), (503, False)])
def test_a_refusal_is_final_only_if_it_is_of_these_spans(server: CollectorServer, status: int, is_final: bool) -> None:
    server.status = status

    with pytest.raises(NotTaken) as refused:
        collector().take([SPAN])

    assert refused.value.is_final is is_final
    assert str(refused.value)


def test_a_collector_that_is_not_there_is_away(server: CollectorServer, monkeypatch: pytest.MonkeyPatch) -> None:
    # no service has this port
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")

    with pytest.raises(NotTaken) as refused:
        collector().take([SPAN])

    assert not refused.value.is_final
