"""When a node is asked although nothing has changed, what it is asked first, and whose turn it is to be purged."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import cast

import pytest
import trio

from common.ids import JobId
from common.paths import Paths
from daemons.luxid.copying.calls import QueueCalls
from daemons.luxid.copying.sending import IDLE_S, NodeSender, PurgeTurn
from protocol.noded.call import AnyCall, Failed, FailureKind, NodeAddress, Outcome, Replied
from protocol.noded.clients.client import NodeClient
from protocol.noded.files import WireNames

JOBS = [JobId(1), JobId(2), JobId(3)]
NODE = NodeAddress("node2", "192.0.2.2")
REPLIES: Mapping[str, object] = {"node_verify": {"filelist": {}}, "gantry_list_files": (), "version": 1}


class Called:
    """A client whose node has an empty queue.

    Args:
        other_master_at: the call of `version` at which it says that it has another master.
        replaced_at: the procedure at whose first call its daemon ends; Ganeti's is there from then on.
    """

    def __init__(self, other_master_at: int = 0, replaced_at: str = "") -> None:
        self.methods: list[str] = []
        self._replaced_at = replaced_at
        self._is_of_ganeti = False
        # set at each call of `version`, and replaced
        self._asked = trio.Event()
        self._left = other_master_at

    async def until_asked(self) -> None:
        """Return at the next call of `version`."""
        await self._asked.wait()

    def silence(self, _: str) -> None:
        return None

    async def call_nodes(
        self, _: Iterable[NodeAddress], call: AnyCall, __: float, *, even_paused: bool
    ) -> Mapping[str, Outcome[object]]:
        await trio.lowlevel.checkpoint()
        self.methods.append(call.METHOD)
        if call.METHOD == "version":
            self._asked.set()
            self._asked = trio.Event()
            self._left -= 1
            if self._left == 0:
                return {NODE.name: Failed(FailureKind.OUTDATED, "another master")}
        if self._is_of_ganeti:
            assert not call.METHOD.startswith("gantry_"), "Ganeti's daemon was asked for what it does not know"
        elif self._replaced_at == call.METHOD:
            self._is_of_ganeti = True
            return {NODE.name: Failed(FailureKind.UNREACHABLE, "connection refused")}
        return {NODE.name: Replied(REPLIES.get(call.METHOD), epoch=None if self._is_of_ganeti else 0)}


def _sender(root: Path, client: Called) -> NodeSender:
    paths = Paths.under_root(root)
    paths.make_folders()
    paths.serial_file.write_text("0\n")
    calls = QueueCalls(paths, WireNames())
    return NodeSender(NODE, paths, calls, cast(NodeClient, client), PurgeTurn(), is_new=False)


@pytest.mark.trio
async def test_an_idle_node_is_asked_now_and_then_and_tells_of_another_master(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    # the first call finds out whose node daemon it is
    client = Called(other_master_at=4)
    sender = _sender(tmp_path, client)
    began = trio.current_time()

    await sender.run()

    assert sender.is_outdated
    assert client.methods.count("version") == 4
    assert trio.current_time() - began >= 3 * IDLE_S


@pytest.mark.trio
async def test_a_comparison_begins_anew_when_ganetis_daemon_has_taken_the_place_of_ours(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    client = Called(replaced_at="gantry_list_files")
    sender = _sender(tmp_path, client)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(sender.run)
        for _ in ("our daemon is found", "Ganeti's is found", "all is done"):
            await client.until_asked()
        nursery.cancel_scope.cancel()

    assert client.methods.count("gantry_list_files") == 1
    assert sender.verdict is not None


class Away(Called):
    """Cannot be reached when its files are first listed; three jobs change meanwhile."""

    sender: NodeSender

    async def call_nodes(
        self, nodes: Iterable[NodeAddress], call: AnyCall, limit_s: float, *, even_paused: bool
    ) -> Mapping[str, Outcome[object]]:
        found = await super().call_nodes(nodes, call, limit_s, even_paused=even_paused)
        if call.METHOD != "gantry_list_files" or self.methods.count(call.METHOD) > 1:
            return found
        for number in JOBS:
            self.sender.backlog.changed(number, 1)
        return {NODE.name: Failed(FailureKind.UNREACHABLE, "connection refused")}


@pytest.mark.trio
async def test_a_comparison_begins_anew_when_too_much_has_changed_to_be_kept(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daemons.luxid.copying.sending.MOST_KEPT", len(JOBS) - 1)
    client = Away()
    client.sender = sender = _sender(tmp_path, client)
    for number in JOBS:
        Paths.under_root(tmp_path).job_file(number).write_text("a")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(sender.run)
        while sender.verdict is None:
            await client.until_asked()
        nursery.cancel_scope.cancel()

    # those that were compared before have changed since
    assert client.methods.count("node_verify") == 2


def test_one_node_is_purged_at_a_time() -> None:
    turn, woken = PurgeTurn(), []
    first, second = object(), object()

    may_begin = [turn.take(each, lambda: woken.append(1)) for each in (first, second, second, first)]
    turn.give_back(second)
    before = list(woken)
    turn.give_back(first)

    assert may_begin == [True, False, False, True]
    assert (before, woken) == ([], [1])
    assert turn.take(second, lambda: None)
