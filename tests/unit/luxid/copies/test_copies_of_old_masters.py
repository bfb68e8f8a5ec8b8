"""A change does not count if a node says that another one is the master, whatever else happens (DESIGN 12)."""

from pathlib import Path
from typing import cast

import attrs
import pytest
import trio

from common.objects.index import ConfigIndex
from common.objects.kinds import NodeUuid
from common.paths import Paths
from common.replica.replica import NoLongerMaster, NotCopied, TakeUp
from daemons.luxid.copying.nodecopies import ATTEMPT_S, STOPPED_S, NodeCopies, Stops
from daemons.luxid.copying.sending import CopyRules, NodeSender
from daemons.luxid.core.copies.backlog import Backlog
from protocol.noded.files import WireNames
from tests.support.configs import small_config


class Candidate:
    """A sender whose node says, as soon as it is asked, that it has another master; it is asked when a test wants."""

    def __init__(self) -> None:
        self.backlog = Backlog(is_new=False)
        self.is_outdated = self.has_left = self.is_away = False
        self.failure: str | None = None
        self.why_it_lacks = "it was not asked"
        self.asked = trio.Event()
        self.waits = 0

    async def until_attempted(self, *_: object) -> None:
        self.waits += 1
        await self.asked.wait()
        self.is_outdated, self.failure = True, "another master"

    def wake(self) -> None:
        pass

    def compare_later(self, _: object) -> None:
        pass

    def made_wait(self) -> None:
        pass


def _copies(root: Path, *candidates: Candidate) -> NodeCopies:
    copies = NodeCopies(Paths.under_root(root), WireNames(), CopyRules(1811, "node1"))
    for number, candidate in enumerate(candidates):
        copies._senders[f"node{number}"] = cast(NodeSender, candidate)
    copies.begin()
    return copies


@pytest.mark.trio
async def test_changes_wait_until_the_nodes_were_asked_once_after_a_stop(mock_clock: trio.testing.MockClock) -> None:
    told, may_reply = list[str](), trio.Event()

    async def ask() -> None:
        told.append("asked")
        await may_reply.wait()

    stops = Stops(ask)

    async def change() -> None:
        await stops.passed()
        told.append("counts")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(stops.run)
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(2 * STOPPED_S)
        nursery.start_soon(change)
        nursery.start_soon(change)
        await trio.testing.wait_all_tasks_blocked()
        assert told == ["asked"]
        may_reply.set()
        await trio.testing.wait_all_tasks_blocked()
        assert told == ["asked", "counts", "counts"]
        nursery.cancel_scope.cancel()


@pytest.mark.trio
async def test_no_node_is_asked_while_the_process_runs(autojump_clock: trio.testing.MockClock) -> None:
    async def ask() -> None:
        raise AssertionError("there was no stop")

    stops = Stops(ask)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stops.run)
        await trio.sleep(20 * STOPPED_S)
        await stops.passed()
        nursery.cancel_scope.cancel()


@pytest.mark.trio
async def test_a_change_does_not_count_if_the_nodes_then_name_another_master(
    mock_clock: trio.testing.MockClock,
) -> None:
    async def ask() -> None:
        raise NoLongerMaster("another master")

    stops = Stops(ask)
    stops._beat_at = trio.current_time()
    mock_clock.jump(2 * STOPPED_S)

    for _ in range(2):
        with pytest.raises(NoLongerMaster):
            await stops.passed()


@pytest.mark.trio
async def test_a_slow_node_is_waited_for_once(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    candidate = Candidate()
    copies, began = _copies(tmp_path, candidate), trio.current_time()

    with pytest.raises(NotCopied):
        await copies.after(TakeUp([Paths.under_root(tmp_path).job_file(1)]))

    assert candidate.waits == 1
    assert trio.current_time() - began == pytest.approx(ATTEMPT_S)


@pytest.mark.trio
async def test_one_node_with_another_master_outweighs_all_that_are_not_reached(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    outdated, dead = Candidate(), Candidate()
    outdated.asked.set()
    copies = _copies(tmp_path, outdated, dead)

    with pytest.raises(NoLongerMaster, match="another master"):
        await copies.after(TakeUp([Paths.under_root(tmp_path).job_file(1)]))


@pytest.mark.trio
async def test_a_configuration_that_names_another_master_ends_this_one_before_anything_is_sent(tmp_path: Path) -> None:
    config = small_config()
    (own,) = config.nodes.values()
    other = attrs.evolve(own, uuid="other", name="other.test", primary_ip="192.0.2.9")
    nodes = {**config.nodes, NodeUuid("other"): other}
    moved = attrs.evolve(config, nodes=nodes, cluster=attrs.evolve(config.cluster, master_node=NodeUuid("other")))
    copies = NodeCopies(Paths.under_root(tmp_path), WireNames(), CopyRules(1811, own.name))

    copies.follow(ConfigIndex(moved))

    assert "names 'other.test' as the master" in str(await copies.until_outdated())
    assert list(copies.lags()) == []
    with pytest.raises(NoLongerMaster):
        await copies.after(TakeUp([Paths.under_root(tmp_path).job_file(1)]))
