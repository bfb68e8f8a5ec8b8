"""A change of the configuration becomes known to the other nodes before it counts (DESIGN sections 12 and 14)."""

from collections.abc import AsyncIterator
from pathlib import Path

import attrs
import orjson
import pytest
import trio
import trio.testing

from common.clusterinit import create_cluster
from common.errors import GantryError
from common.objects.codec import decode_config, to_json
from common.objects.config import Config
from common.objects.kinds import NodeUuid
from common.paths import Paths
from common.replica.replica import NoLongerMaster
from common.settings import BY_ETCD, ClusterSettings, Settings
from daemons.wconfd import main
from daemons.wconfd.configfile import ConfigFile
from daemons.wconfd.configstore import ConfigStore, Step
from daemons.wconfd.core.config.configstate import ConfigState, advanced
from protocol.client import Client
from protocol.wconfd.changes import ChangeJobLimits
from tests.support.configs import node
from tests.support.fakes.copies import LOSS, FakeDistribution
from tests.support.wait import PATIENCE_S, wait_until_async

pytestmark = pytest.mark.trio
TEXT = f"this node is no longer the master: {LOSS}; wconfd ends and writes nothing more here"


@attrs.frozen
class Wconfd:
    store: ConfigStore
    nodes: FakeDistribution
    paths: Paths
    nursery: trio.Nursery
    answered: list[str] = attrs.Factory(list)

    async def rename(self, name: str) -> None:
        try:
            await self.store.change(_renaming(name))
        except GantryError as error:
            self.answered.append(error.message)
        else:
            self.answered.append(name)

    @property
    def shown(self) -> str:
        return self.store.config.cluster.cluster_name

    @property
    def on_disk(self) -> str:
        return decode_config(orjson.loads(self.paths.config_data.read_bytes())).cluster.cluster_name


@pytest.fixture
async def wconfd(tmp_path: Path) -> AsyncIterator[Wconfd]:
    paths = Paths.under_root(tmp_path)
    create_cluster(paths, "cluster.test", "node1.test")
    nodes, file = FakeDistribution(), ConfigFile(paths.config_data)
    store = ConfigStore(file, file.read(), nodes)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_run_until_lost, store)
        yield Wconfd(store, nodes, paths, nursery)
        nursery.cancel_scope.cancel()


async def _run_until_lost(store: ConfigStore) -> None:
    try:
        await store.run()
    except* NoLongerMaster:
        pass


def _renaming(name: str) -> Step[None]:
    def step(config: Config, now: float) -> tuple[Config, None]:
        after = attrs.evolve(config, cluster=attrs.evolve(config.cluster, cluster_name=name))
        return advanced(config, after, now), None

    return step


async def test_a_change_waits_for_the_others_and_changes_meanwhile_share_the_next_commit(wconfd: Wconfd) -> None:
    wconfd.nodes.may_go_on.clear()

    wconfd.nursery.start_soon(wconfd.rename, "first")
    await wait_until_async(lambda: bool(wconfd.nodes.committed), what="the others are told")
    assert (wconfd.answered, wconfd.shown, wconfd.on_disk) == ([], "cluster.test", "first")
    for name in ("second", "third"):
        wconfd.nursery.start_soon(wconfd.rename, name)
    await trio.testing.wait_all_tasks_blocked()

    wconfd.nodes.may_go_on.set()
    await wait_until_async(lambda: len(wconfd.answered) == 3, what="all are answered")
    assert wconfd.shown in ("second", "third")
    assert wconfd.nodes.committed == [(1, 2), (2, 4)]


async def test_nothing_counts_and_nothing_is_written_when_another_node_is_the_master(wconfd: Wconfd) -> None:
    wconfd.nodes.is_master = False
    await wconfd.rename("first")
    before = wconfd.paths.config_data.read_bytes()

    await wconfd.rename("second")

    assert wconfd.answered[0].startswith(TEXT)
    # or its writer has ended by then
    assert len(wconfd.answered) == 2
    assert "second" not in wconfd.answered
    assert wconfd.shown == "cluster.test"
    assert wconfd.paths.config_data.read_bytes() == before
    assert wconfd.nodes.committed == [(1, 2)]


async def test_wconfd_ends_and_says_why(tmp_path: Path) -> None:
    paths = Paths.under_root(tmp_path)
    create_cluster(paths, "cluster.test", "node1.test")
    nodes = FakeDistribution()
    nodes.is_master = False

    with trio.fail_after(PATIENCE_S), _raises_loss():
        await _serve_a_change(Settings(paths), nodes)


def _raises_loss() -> pytest.RaisesGroup[NoLongerMaster]:
    return pytest.RaisesGroup(pytest.RaisesExc(NoLongerMaster, match=TEXT), flatten_subgroups=True)


async def _serve_a_change(settings: Settings, nodes: FakeDistribution) -> None:
    async with trio.open_nursery() as nursery:
        await nursery.start(main.serve, settings, nodes)
        async with Client(settings.paths.wconfd_socket, daemon="wconfd") as client:
            with pytest.raises(GantryError):
                await client.call(ChangeJobLimits(7, None))


class _HungNodes(FakeDistribution):
    """Never gets an answer of a node, as when its power was cut."""

    async def spread(
        self, state: ConfigState, only: frozenset[NodeUuid] | None = None, *, anew: bool = False
    ) -> frozenset[NodeUuid]:
        await trio.sleep_forever()


async def test_a_new_master_serves_before_the_nodes_have_heard_of_it(tmp_path: Path) -> None:
    paths = Paths.under_root(tmp_path)
    create_cluster(paths, "cluster.test", "node1.test")
    found = ConfigFile(paths.config_data).read()
    (group,) = found.nodegroups
    dead = attrs.evolve(node("node2.test", candidate=True), group=group)
    of_old_master = attrs.evolve(
        found,
        nodes={**found.nodes, NodeUuid(dead.uuid): dead},
        cluster=attrs.evolve(found.cluster, master_node=NodeUuid(dead.uuid)),
    )
    paths.config_data.write_bytes(orjson.dumps(to_json(of_old_master)))
    settings = Settings(paths, cluster=ClusterSettings(BY_ETCD, "node1.test"))

    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            await nursery.start(main.serve, settings, _HungNodes())
            nursery.cancel_scope.cancel()

    named = decode_config(orjson.loads(paths.config_data.read_bytes()))
    assert named.nodes[named.cluster.master_node].name == "node1.test"
