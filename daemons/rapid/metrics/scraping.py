"""`GET /metrics`: the numbers for Prometheus, read at most once a second however many ask.

Theory. rapid asks the daemons as itself, as the numbers are the same for everybody who may read them, and over
connections that serve nothing else, so that no crowd of calls keeps it from asking. A daemon that is away, or silent
for `PATIENCE_S`, is reported as such; the other numbers are there nevertheless. The text is made in a thread, so that
no other request waits for it.

Source: DESIGN section 15.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, Protocol, TypeVar

import attrs
import trio
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from starlette.responses import Response

from common.errors import GantryError
from common.system.inthread import in_thread
from common.system.log import get_log
from common.system.processes import ProcessUse, own_use
from common.system.program import release
from common.system.watch import unwatched
from common.webaccess.rights import Right
from daemons.rapid.calls import Asked, Call
from daemons.rapid.metrics.families import (
    DaemonReport,
    HttpNow,
    commit_families,
    daemon_families,
    http_families,
    lock_families,
    mastership_families,
    queue_families,
)
from protocol.keeperd import ClusterView, ShowCluster
from protocol.luxi.daemon import LuxidMetrics, ReadMetrics
from protocol.messages import Request
from protocol.wconfd.daemon import ReadMetrics as ReadLockMetrics
from protocol.wconfd.daemon import WconfdMetrics

# All numbers at one instant, and their text.


# type that clients accept who know the newer format
OPEN_METRICS: Final = "application/openmetrics-text"


@attrs.frozen
class MetricsSnapshot:
    """The daemons' numbers; None: a daemon was not reached, and its numbers are left out."""

    luxid: LuxidMetrics | None
    wconfd: WconfdMetrics | None
    process: ProcessUse
    http: HttpNow
    # None: there is no lease, or keeperd was not reached
    mastership: ClusterView | None = None

    def families(self) -> Iterator[Metric]:
        """All families, each once."""
        yield from daemon_families(self._reports())
        if self.luxid is not None:
            yield from queue_families(self.luxid)
        if self.wconfd is not None:
            yield from lock_families(self.wconfd)
        if self.mastership is not None:
            yield from mastership_families(self.mastership)
        if self.wconfd is not None and self.wconfd.commits is not None:
            yield from commit_families(self.wconfd.commits)
        yield from http_families(self.http)

    def _reports(self) -> dict[str, DaemonReport | None]:
        return {
            "luxid": None if self.luxid is None else _of_luxid(self.luxid),
            "wconfd": None if self.wconfd is None else _of_wconfd(self.wconfd),
            "rapid": DaemonReport(self.process),
        }


def _of_luxid(told: LuxidMetrics) -> DaemonReport:
    writes = {"queue": told.durations.store_write}
    return DaemonReport(told.process, told.calls, told.jobs.backstop_wakeups, writes)


def _of_wconfd(told: WconfdMetrics) -> DaemonReport:
    writes = {name: work.write for name, work in told.files.items()}
    return DaemonReport(told.process, told.calls, told.backstop_wakeups, writes)


class _Collector(Collector):
    """The families of one snapshot, for the library."""

    def __init__(self, snapshot: MetricsSnapshot) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[Metric]:
        return self._snapshot.families()


def write(snapshot: MetricsSnapshot, *, is_open: bool = False) -> tuple[bytes, str]:
    """The text of the numbers, and its content type. Cost: some milliseconds.

    Args: is_open: in the format of OpenMetrics, instead of the older one of Prometheus.
    """
    # a registry of our own: that of the library would add numbers of this process under names of others
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(snapshot))
    encode, content_type = choose_encoder(OPEN_METRICS if is_open else "")
    return encode(registry), content_type


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


@attrs.define
class _Taken:
    snapshot: MetricsSnapshot
    at: float
    # with their content types, by whether they are in the format of OpenMetrics
    texts: dict[bool, tuple[bytes, str]] = attrs.field(factory=dict)


class MetricHandlers:
    """The method.

    Args:
        now: rapid's own numbers.
        is_for_anybody: whether clients need no name.
        keeperd: None: the cluster has no lease.
    """

    def __init__(
        self,
        luxid: Callee,
        wconfd: Callee,
        now: Callable[[], HttpNow],
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
                texts[is_open] = await in_thread(partial(write, self._last.snapshot, is_open=is_open))
            return texts[is_open]

    async def _take(self) -> MetricsSnapshot:
        luxid: LuxidMetrics | None = None
        wconfd: WconfdMetrics | None = None
        view: ClusterView | None = None

        async def ask_luxid() -> None:
            nonlocal luxid
            luxid = await _told(self._luxid, ReadMetrics())

        async def ask_wconfd() -> None:
            nonlocal wconfd
            wconfd = await _told(self._wconfd, ReadLockMetrics())

        async def ask_keeperd(keeperd: Callee) -> None:
            nonlocal view
            view = await _told(keeperd, ShowCluster())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask_luxid)
            nursery.start_soon(ask_wconfd)
            if self._keeperd is not None:
                nursery.start_soon(ask_keeperd, self._keeperd)
        return MetricsSnapshot(luxid, wconfd, own_use(release(), unwatched()), self._now(), view)


async def _told(daemon: Callee, request: Request[R]) -> R | None:
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
            rights=() if to.is_for_anybody else (Right.METRICS_READ,),
            gives=str,
            media_type="text/plain",
            tag="Operations",
            is_everywhere=True,
        )
    ]
