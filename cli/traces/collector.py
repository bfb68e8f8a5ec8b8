"""The way to a collector: spans in OpenTelemetry's own form, over OTLP with protobuf.

Address, headers, certificates, time-out and compression are as OpenTelemetry's variables say them, such as
`OTEL_EXPORTER_OTLP_ENDPOINT`. The libraries are an extra, and are imported here alone.

Source: OpenTelemetry, "OTLP Exporter Configuration"; OTLP 1.x, "Failures".
"""

import logging
from collections.abc import Sequence
from http import HTTPStatus
from typing import Final

import requests
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, TraceFlags
from opentelemetry.trace.status import Status, StatusCode

from cli.traces.following import NotTaken
from cli.traces.spans import TracedCluster, TraceSpan, Value

_LIBRARY: Final = "opentelemetry"
# statuses with which a collector says that it will never take these spans
_NEVER: Final = (HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNPROCESSABLE_ENTITY)


class TraceCollector:
    """A collector, which may be away."""

    def __init__(self, cluster: TracedCluster, version: str) -> None:
        ours = {
            "service.name": "gantry",
            "service.version": version,
            "service.instance.id": cluster.uuid,
            "gantry.cluster.name": _clean(cluster.name),
        }
        # what OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say wins
        self._resource = Resource.create(ours).merge(OTELResourceDetector().detect())
        self._scope = InstrumentationScope("gantry", version)
        self._status: int | None = None
        self._words = _LastWords()
        library = logging.getLogger(_LIBRARY)
        library.addHandler(self._words)
        library.propagate = False
        session = requests.Session()
        session.hooks["response"].append(self._note)
        # the collector says what is too large for it
        self._exporter = OTLPSpanExporter(session=session, max_request_size=0)

    def take(self, spans: Sequence[TraceSpan]) -> None:
        """Send these spans; blocks while it tries, some seconds.

        Raises: NotTaken: the collector does not reply, or does not take them.
        """
        self._status, self._words.last = None, ""
        made = [self._made(span) for span in spans]
        if self._exporter.export(made) is SpanExportResult.SUCCESS:
            return
        raise NotTaken(self._words.last or f"HTTP status {self._status}", is_final=self._status in _NEVER)

    def _note(self, response: requests.Response, *_: object, **__: object) -> None:
        self._status = response.status_code

    def _made(self, span: TraceSpan) -> ReadableSpan:
        context = _context(span.trace_id, span.span_id, is_remote=False)
        parent = span.parent_id and _context(span.trace_id, span.parent_id, is_remote=span.is_parent_remote)
        return ReadableSpan(
            _clean(span.name),
            context,
            parent or None,
            self._resource,
            {_clean(name): _clean_value(value) for name, value in span.attributes.items()},
            [Event(name, timestamp=_ns(at)) for name, at in span.events.items()],
            status=_status(span),
            start_time=_ns(span.start),
            end_time=_ns(span.end),
            instrumentation_scope=self._scope,
        )


class _LastWords(logging.Handler):
    """Keeps the last warning of the library, in one line."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.last = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.last = " ".join(record.getMessage().split())[:300]


def _context(trace_id: str, span_id: str, *, is_remote: bool) -> SpanContext:
    return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote, TraceFlags(TraceFlags.SAMPLED))


def _status(span: TraceSpan) -> Status:
    if span.is_success is None:
        return Status(StatusCode.UNSET)
    return Status(StatusCode.OK) if span.is_success else Status(StatusCode.ERROR, _clean(span.failure))


def _clean_value(value: Value) -> Value:
    if isinstance(value, str):
        return _clean(value)
    if isinstance(value, bool | int | float):
        return value
    # of one kind each
    return [_clean(each) for each in value if isinstance(each, str)] or [
        each for each in value if isinstance(each, int)
    ]


def _clean(text: str) -> str:
    """The text without what UTF-8 cannot have: the library would give up the whole request for it."""
    return text.encode(errors="replace").decode()


def _ns(at: float) -> int:
    return round(at * 1e6) * 1000
