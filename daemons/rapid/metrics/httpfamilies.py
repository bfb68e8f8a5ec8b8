"""The numbers of rapid itself.

Source: DESIGN section 15.
"""

from collections.abc import Iterator, Mapping

import attrs
from prometheus_client.metrics_core import Metric

from common.metrics.histogram import Distribution
from daemons.rapid.metrics.families import by, counter, gauge, histogram


@attrs.frozen
class HttpNow:
    """rapid's requests, streams and connections."""

    # by part and class of status
    requests: Mapping[tuple[str, ...], int] = attrs.field(factory=dict)
    # seconds until the reply begins, by part
    times: Mapping[str, Distribution] = attrs.field(factory=dict)
    streams: int = 0
    # requests that wait for an event
    long_polls: int = 0
    # connections of clients, by the way that they came
    connections: Mapping[str, int] = attrs.field(factory=dict)
    # connections to luxid, by what they do
    luxid_connections: Mapping[str, int] = attrs.field(factory=dict)


def http_families(now: HttpNow) -> Iterator[Metric]:
    text = "Requests by part of the interface and class of the status; gone: the client went before the reply."
    yield counter("http_requests", text, now.requests, "part", "status")
    text = "Time until the reply begins, without requests that wait for an event."
    yield histogram("http_request_seconds", text, by(now.times), "part")
    yield gauge("http_streams", "Streams of events that are open.", now.streams)
    yield gauge("http_long_polls", "Requests that wait for an event.", now.long_polls)
    yield gauge("http_connections", "Connections of clients, by the way that they came.", by(now.connections), "over")
    text = "Connections of rapid to luxid, by what they do."
    yield gauge("http_luxid_connections", text, by(now.luxid_connections), "state")
