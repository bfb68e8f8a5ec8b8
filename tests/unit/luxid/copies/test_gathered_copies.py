"""Fresh changes that nobody waits for are gathered: a node gets a short job once (DESIGN section 9)."""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import attrs
import pytest
import trio

from common.ids import JobId
from common.paths import Paths
from daemons.luxid.copying.calls import QueueCalls
from daemons.luxid.copying.sending import FILES_AT_ONCE, GATHER_S, CopyRules, NodeSender, PurgeTurn
from protocol.noded.call import AnyCall, NodeAddress, Outcome, Replied
from protocol.noded.clients.client import NodeClient
from protocol.noded.files import WireNames
from protocol.noded.statefiles import WriteStateFiles

NODE = NodeAddress("node2", "192.0.2.2")
REPLIES: Mapping[str, object] = {"node_verify": {"filelist": {}}, "gantry_list_files": (), "version": 1}


@attrs.define
class Candidate:
    """A client whose node takes what it is sent; replies come at once."""

    # the names of each write
    writes: list[tuple[str, ...]] = attrs.field(factory=list)

    def silence(self, _: str) -> None:
        return None

    async def call_nodes(
        self, _: Iterable[NodeAddress], call: AnyCall, __: float, *, even_paused: bool
    ) -> Mapping[str, Outcome[object]]:
        await trio.lowlevel.checkpoint()
        if isinstance(call, WriteStateFiles):
            self.writes.append(tuple(file.name for file in call.files))
        return {NODE.name: Replied(REPLIES.get(call.METHOD), epoch=0)}


@attrs.define
class Queue:
    """A master's queue, and what sends it to the candidate."""

    paths: Paths
    sender: NodeSender
    candidate: Candidate
    number: int = 0

    def change(self, job_id: int) -> None:
        self.number += 1
        self.paths.job_file(JobId(job_id)).write_text(f"change {self.number}")
        self.sender.backlog.changed(JobId(job_id), self.number)
        self.sender.wake()


@asynccontextmanager
async def queue_of(root: Path, gather_s: float) -> AsyncIterator[Queue]:
    """It is compared already."""
    paths, candidate = Paths.under_root(root), Candidate()
    paths.make_folders()
    paths.serial_file.write_text("0\n")
    client, calls = cast(NodeClient, candidate), QueueCalls(paths, WireNames())
    sender = NodeSender(NODE, paths, calls, client, PurgeTurn(), is_new=False, gather_s=gather_s)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sender.run)
        await sender.until_complete()
        candidate.writes.clear()
        yield Queue(paths, sender, candidate)
        nursery.cancel_scope.cancel()


@pytest.mark.trio
async def test_a_short_job_is_sent_once_where_nobody_waits_for_its_copies(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with queue_of(tmp_path, GATHER_S) as queue:
        for _ in ("submission", "start", "end", "history"):
            queue.change(7)
            await trio.sleep(GATHER_S / 10)
        await queue.sender.until_complete()

        assert queue.candidate.writes == [("queue/job-7",)]


@pytest.mark.trio
async def test_each_change_is_sent_at_once_where_somebody_waits_for_it(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with queue_of(tmp_path, 0.0) as queue:
        began = trio.current_time()
        for _ in ("submission", "start", "end"):
            queue.change(7)
            await queue.sender.until_complete()

        assert queue.candidate.writes == [("queue/job-7",)] * 3
        assert trio.current_time() - began < GATHER_S


@pytest.mark.trio
async def test_a_node_is_not_called_for_each_change_while_changes_go_on(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with queue_of(tmp_path, GATHER_S) as queue:
        for job_id in range(1, 101):
            queue.change(job_id)
            await trio.sleep(GATHER_S / 10)
        await queue.sender.until_complete()

        assert sorted(name for names in queue.candidate.writes for name in names) == sorted(
            f"queue/job-{job_id}" for job_id in range(1, 101)
        )
        assert len(queue.candidate.writes) <= 12


@pytest.mark.trio
async def test_what_fills_a_batch_is_sent_at_once(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    async with queue_of(tmp_path, GATHER_S) as queue:
        began = trio.current_time()
        for job_id in range(1, FILES_AT_ONCE + 1):
            queue.change(job_id)
        await queue.sender.until_complete()

        assert trio.current_time() - began < GATHER_S
        assert len(queue.candidate.writes) == 1


@pytest.mark.parametrize("waits", [True, False])
def test_copies_are_gathered_only_where_changes_do_not_wait_for_them(waits: bool) -> None:
    assert CopyRules(1811, "node1", waits=waits).gather_s == (0.0 if waits else GATHER_S)
