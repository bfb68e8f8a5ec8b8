"""A keeperd whose cluster is what the test says: the real server and messages, nothing behind them."""

import contextlib
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import trio

from common.access import Role
from common.errors import GantryError
from common.metrics import read
from daemons.keeperd.clusterview import mastership_now
from protocol import keeperd
from protocol.messages import Request
from protocol.metrics import DaemonMetrics
from protocol.peer import Peer
from protocol.serving.route import AnyRoute, Route
from tests.cli.fakeluxid import serving


class FakeKeeperd:
    """Args: view: what it shows; a test may replace it."""

    def __init__(self, view: keeperd.ClusterView) -> None:
        self.view = view
        # what it shows when the mastership has moved
        self.after: keeperd.ClusterView | None = None
        self.asked: list[Request[Any]] = []
        # error that it replies with to all calls but that for the view
        self.refusal: GantryError | None = None
        # whether a move waits for `let_go`
        self.is_slow = False
        self.token: trio.lowlevel.TrioToken | None = None
        self._free: trio.Event | None = None

    def let_go(self) -> None:
        """Let a slow move come to its end."""
        assert self._free is not None
        assert self.token is not None
        trio.from_thread.run_sync(self._free.set, trio_token=self.token)

    def routes(self) -> list[AnyRoute]:
        table: dict[type[Request[Any]], Callable[[Any], Awaitable[Any]]] = {
            keeperd.ShowCluster: self._show,
            keeperd.ReadKeeperdMetrics: self._read_metrics,
            keeperd.Switchover: self._move,
            keeperd.Takeover: self._move,
            keeperd.SetMaintenance: self._note,
            keeperd.AcceptRestoredEtcd: self._note,
            keeperd.TestWatchdog: self._note,
        }
        return [Route(kind, _handler(reply), role=Role.READ) for kind, reply in table.items()]

    async def _show(self, call: keeperd.ShowCluster) -> keeperd.ClusterView:
        return self.view

    async def _read_metrics(self, call: keeperd.ReadKeeperdMetrics) -> DaemonMetrics:
        return DaemonMetrics(families=tuple(read(mastership_now(self.view))))

    async def _note(self, call: Request[None]) -> None:
        self.asked.append(call)
        if self.refusal is not None:
            raise self.refusal

    async def _move(self, call: Any) -> str:
        self._free = trio.Event()
        await self._note(call)
        if self.is_slow:
            await self._free.wait()
        self.view = self.after or attrs.evolve(self.view, master=call.node, epoch=self.view.epoch + 1)
        return str(call.node)


def _handler(reply: Callable[[Any], Awaitable[Any]]) -> Callable[[Any, Peer], Awaitable[Any]]:
    async def handle(call: Any, peer: Peer) -> Any:
        return await reply(call)

    return handle


@contextlib.contextmanager
def fake_keeperd(path: Path, view: keeperd.ClusterView) -> Iterator[FakeKeeperd]:
    """A fake that listens while the block runs."""
    fake = FakeKeeperd(view)
    with serving(path, fake.routes()) as token:
        fake.token = token
        yield fake
