"""`GET /metrics`: the numbers for Prometheus, read at most once a second however many ask.

Theory. rapid asks the daemons as itself, as the numbers are the same for everybody who may read them, and over
connections that serve nothing else, so that no crowd of calls keeps it from asking. A daemon that is away, or silent
for `PATIENCE_S`, is reported as such; the other numbers are there nevertheless. The text is made in a thread, so that
no other request waits for it.

Source: DESIGN section 15.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import Final, Protocol, TypeVar, assert_never

import attrs
import trio
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from starlette.responses import Response

from common.errors import GantryError
from common.metrics import DAEMON, PREFIX, Distribution, Family, MetricKind, Metrics, gauge, joined, read
from common.system.inthread import in_thread
from common.system.log import get_log
from common.system.processuse import ProcessUse, own_use
from common.system.program import release
from common.system.watch import unwatched
from common.webaccess.rights import Right
from daemons.rapid.calls import Asked, Call
from protocol.keeperd import ReadKeeperdMetrics as ReadMastershipMetrics
from protocol.luxi.daemon import ReadMetrics
from protocol.messages import Request
from protocol.metrics import DaemonMetrics
from protocol.wconfd.daemon import ReadWconfdMetrics as ReadLockMetrics

# Families of metrics as text for Prometheus; none of them is known here.
#
# Source: Prometheus, "Exposition formats"; OpenMetrics 1.0.


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


# The numbers of all daemons, as they were a moment ago.


# seconds for which a snapshot serves
FRESH_S: Final = 1.0
# seconds within which a daemon has to reply
PATIENCE_S: Final = 2.0
R = TypeVar("R")
_log: Final = get_log(__name__)


class Callee(Protocol):
    """A daemon, called as rapid itself."""

    async def call(self, request: Request[R]) -> R:
        """Raises: GantryError."""
        ...


@attrs.frozen
class Reachable(Metrics):
    is_up: bool = gauge("up", "1 if the daemon replies.", DAEMON, begin=bool)


@attrs.frozen
class MetricsSnapshot:
    """All numbers at one instant."""

    # by daemon; None: it was not reached, and its numbers are left out
    replies: Mapping[str, DaemonMetrics | None]
    # those of rapid
    process: ProcessUse
    own: Sequence[Metrics]
    # of keeperd; None: there is no lease, or keeperd was not reached
    mastership: DaemonMetrics | None = None

    def families(self) -> tuple[Family, ...]:
        """All families, each once."""
        found: list[Family] = []
        for name, told in self.replies.items():
            found += read(Reachable(told is not None), daemon=name)
            if told is not None:
                found += (*read(told.process, daemon=name), *told.families)
        found += read(Reachable(True), self.process, *self.own, daemon="rapid")
        return joined((*found, *(self.mastership.families if self.mastership is not None else ())))

    def text(self, *, is_open: bool) -> tuple[bytes, str]:
        """As of `write`."""
        return write(self.families(), is_open=is_open)


@attrs.define
class _Taken:
    snapshot: MetricsSnapshot
    at: float
    # with their content types, by whether they are in the format of OpenMetrics
    texts: dict[bool, tuple[bytes, str]] = attrs.field(factory=dict)


class MetricHandlers:
    """The method.

    Args:
        now: those that count in rapid.
        is_for_anybody: whether clients need no name.
        keeperd: None: the cluster has no lease.
    """

    def __init__(
        self,
        luxid: Callee,
        wconfd: Callee,
        now: Callable[[], Sequence[Metrics]],
        *,
        is_for_anybody: bool,
        keeperd: Callee | None = None,
    ) -> None:
        self.is_for_anybody: Final = is_for_anybody
        self._luxid = luxid
        self._wconfd = wconfd
        self._keeperd = keeperd
        self._now = now
        self._turn = trio.Lock()
        self._last: _Taken | None = None

    async def read_metrics(self, asked: Asked) -> Response:
        accept = asked.http.headers.get("accept", "")
        content, content_type = await self._text(is_open=OPEN_METRICS in accept)
        return Response(content, headers={"Content-Type": content_type, "Cache-Control": "no-store"})

    async def _text(self, *, is_open: bool) -> tuple[bytes, str]:
        async with self._turn:
            if self._last is None or trio.current_time() - self._last.at >= FRESH_S:
                self._last = _Taken(await self._take(), trio.current_time())
            texts = self._last.texts
            if is_open not in texts:
                texts[is_open] = await in_thread(partial(self._last.snapshot.text, is_open=is_open))
            return texts[is_open]

    async def _take(self) -> MetricsSnapshot:
        # in this order also if the second is the first to reply
        replies: dict[str, DaemonMetrics | None] = {"luxid": None, "wconfd": None}

        async def ask(name: str, daemon: Callee, request: Request[DaemonMetrics]) -> None:
            replies[name] = await _told(daemon, request)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, "luxid", self._luxid, ReadMetrics())
            nursery.start_soon(ask, "wconfd", self._wconfd, ReadLockMetrics())
            if self._keeperd is not None:
                nursery.start_soon(ask, "keeperd", self._keeperd, ReadMastershipMetrics())
        mastership = replies.pop("keeperd", None)
        return MetricsSnapshot(replies, own_use(release(), unwatched()), self._now(), mastership)


async def _told(daemon: Callee, request: Request[DaemonMetrics]) -> DaemonMetrics | None:
    """The reply; None: there was none in time, or a refusal."""
    try:
        with trio.move_on_after(PATIENCE_S):
            return await daemon.call(request)
        reason = f"silent for {PATIENCE_S:g} s"
    except GantryError as error:
        reason = error.message
    _log.warning("metrics.lacking", method=request.METHOD, reason=reason)
    return None


def rows(to: MetricHandlers) -> Sequence[Call]:
    """The row."""
    return [
        Call(
            "GET",
            "/metrics",
            to.read_metrics,
            "Numbers of the daemons for Prometheus, at most a second old.",
            name="getMetrics",
            rights=() if to.is_for_anybody else (Right.METRICS_READ,),
            gives=str,
            media_type="text/plain",
            tag="Operations",
            is_everywhere=True,
        )
    ]
