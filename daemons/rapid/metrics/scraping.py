"""`GET /metrics`: the numbers for Prometheus, read at most once a second however many ask.

Theory. rapid asks the daemons as itself, as the numbers are the same for everybody who may read them, and over
connections that serve nothing else, so that no crowd of calls keeps it from asking. A daemon that is away, or silent
for `PATIENCE_S`, is reported as such; the other numbers are there nevertheless. The text is made in a thread, so that
no other request waits for it.

Source: DESIGN section 15.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, Protocol, TypeVar

import attrs
import trio
from starlette.responses import Response

from common.errors import GantryError
from common.metrics import DAEMON, Family, Metrics, gauge, joined, read
from common.system.inthread import in_thread
from common.system.log import get_log
from common.system.processuse import ProcessUse, own_use
from common.system.program import release
from common.system.watch import unwatched
from common.webaccess.rights import Right
from daemons.rapid.calls import Asked, Call
from daemons.rapid.metrics.exposition import OPEN_METRICS, write
from protocol.keeperd import ReadKeeperdMetrics as ReadMastershipMetrics
from protocol.luxi.daemon import ReadMetrics
from protocol.messages import Request
from protocol.metrics import DaemonMetrics
from protocol.wconfd.daemon import ReadWconfdMetrics as ReadLockMetrics

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
