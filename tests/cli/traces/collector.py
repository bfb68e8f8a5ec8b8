"""A collector of OpenTelemetry on loopback: takes OTLP over HTTP in protobuf, or does not."""

import threading
from collections.abc import Mapping
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

import attrs
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

Value = str | int | bool | float | list[str | int]


@attrs.frozen
class Taken:
    """A span as it came."""

    name: str
    trace_id: str
    span_id: str
    # "": it has none
    parent_id: str
    # nanoseconds since the epoch
    start: int
    end: int
    # 0: unset, 1: OK, 2: error
    status: int
    message: str
    attributes: Mapping[str, Value]
    # names of its events
    events: tuple[str, ...]
    resource: Mapping[str, Value]

    @property
    def job_id(self) -> object:
        """Of a job's own span; None: it is another."""
        return self.attributes.get("gantry.job.id")


class CollectorServer:
    """A context manager; `status` says how it answers from now on."""

    def __init__(self) -> None:
        self.status = 200
        # requests by the status that they got
        self.answered: list[int] = []
        self.spans: list[Taken] = []
        # while it is clear no request is answered
        self.answers = threading.Event()
        self.answers.set()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                server.take(self)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.answers.set()
        with closing(self._http.socket):
            self._http.shutdown()
            self._thread.join()

    @property
    def environment(self) -> dict[str, str]:
        """The variables of a program that exports to it."""
        address = f"http://127.0.0.1:{self._http.server_port}"
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": address, "OTEL_EXPORTER_OTLP_TIMEOUT": "1"}

    def take(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers["content-length"]))
        assert (request.path, request.headers["content-type"]) == ("/v1/traces", "application/x-protobuf")
        status = self.status
        if status == 200:
            self.spans.extend(_read(body))
        self.answers.wait()
        self.answered.append(status)
        request.send_response(status)
        request.send_header("Content-Length", "0")
        request.end_headers()

    def roots(self, job_id: int) -> list[Taken]:
        """The job's own span, as often as it came."""
        return [span for span in list(self.spans) if span.job_id == job_id]

    def children(self, parent: Taken) -> list[Taken]:
        return [
            span for span in list(self.spans) if (span.trace_id, span.parent_id) == (parent.trace_id, parent.span_id)
        ]


def _read(body: bytes) -> list[Taken]:
    found = []
    for of_resource in ExportTraceServiceRequest.FromString(body).resource_spans:
        resource = {each.key: _value(each.value) for each in of_resource.resource.attributes}
        found += [_taken(span, resource) for scope in of_resource.scope_spans for span in scope.spans]
    return found


def _taken(span: Span, resource: Mapping[str, Value]) -> Taken:
    return Taken(
        span.name,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        span.status.code,
        span.status.message,
        {each.key: _value(each.value) for each in span.attributes},
        tuple(event.name for event in span.events),
        resource,
    )


def _value(value: AnyValue) -> Value:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [each.string_value or each.int_value for each in value.array_value.values]
    found: Value = getattr(value, str(kind))
    return found
