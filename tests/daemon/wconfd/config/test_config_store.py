"""The configuration on disk: durable before visible, shared writes, and files that others touch."""

import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import attrs
import orjson
import pytest
import trio
import trio.testing

from common.clusterinit import create_cluster
from common.errors import ConfigurationError, Conflict, DamagedFile, NotFound, Unavailable
from common.objects.codec import decode_config
from common.objects.config import Config
from common.objects.kinds import GroupUuid, NodeUuid
from common.paths import Paths
from daemons.wconfd import configstore
from daemons.wconfd.configfile import ConfigFile
from daemons.wconfd.configstore import ConfigStore, Step
from daemons.wconfd.core.config.configstate import ConfigState, advanced
from daemons.wconfd.distribution import ConfigDistribution, LocalDistribution
from tests.support.wait import wait_until_async

pytestmark = pytest.mark.trio


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    paths = Paths.under_root(tmp_path)
    create_cluster(paths, "cluster.test", "node1.test")
    return paths


class Disk(ConfigFile):
    """The real file, but slow until it is let go on, and full on demand."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.may_go = threading.Event()
        self.may_go.set()
        self.is_full = False
        self.write_count = 0

    def write(self, content: bytes, note: bytes = b"") -> None:
        self.write_count += 1
        assert self.may_go.wait(20)
        if self.is_full:
            raise OSError(28, "No space left on device")
        super().write(content, note)


class Nodes(ConfigDistribution):
    """Records the states to spread, and spreads none; optionally its disk is full the first time."""

    def __init__(self, *, first_fails: bool = False) -> None:
        self.told: list[tuple[int, frozenset[NodeUuid] | None]] = []
        self._first_fails = first_fails

    async def spread(
        self, state: ConfigState, only: frozenset[NodeUuid] | None = None, *, anew: bool = False
    ) -> frozenset[NodeUuid]:
        self.told.append((state.config.serial_no, only))
        await trio.lowlevel.checkpoint()
        if self._first_fails and len(self.told) == 1:
            raise OSError(28, "No space left on device")
        return frozenset(state.config.nodes)


def renaming(name: str) -> Step[str]:
    def step(config: Config, now: float) -> tuple[Config, str]:
        after = attrs.evolve(config, cluster=attrs.evolve(config.cluster, cluster_name=name))
        return advanced(config, after, now), name

    return step


def refusing(config: Config, now: float) -> tuple[Config, str]:
    raise ConfigurationError(f"no, at serial {config.serial_no}")


def on_disk(paths: Paths) -> Config:
    return decode_config(orjson.loads(paths.config_data.read_bytes()))


async def start_on(disk: Disk, nursery: trio.Nursery, nodes: Nodes | None = None) -> ConfigStore:
    store = ConfigStore(disk, disk.read(), nodes or Nodes())
    await nursery.start(store.run)
    return store


async def test_a_change_is_on_disk_and_visible_when_it_returns(paths: Paths, nursery: trio.Nursery) -> None:
    store = ConfigStore.load(paths)
    before = store.config
    await nursery.start(store.run)

    answer = await store.change(renaming("other"))

    assert answer == "other"
    assert store.config.cluster.cluster_name == "other"
    assert (store.config.serial_no, store.config.mtime > before.mtime) == (before.serial_no + 1, True)
    assert on_disk(paths) == store.config
    assert paths.config_data.read_bytes() == store.state.encoded.content
    assert stat.S_IMODE(paths.config_data.stat().st_mode) == 0o640


async def test_a_change_is_not_visible_before_it_is_durable(paths: Paths, nursery: trio.Nursery) -> None:
    disk = Disk(paths.config_data)
    store = await start_on(disk, nursery)
    disk.may_go.clear()
    nursery.start_soon(store.change, renaming("other"))
    await wait_until_async(lambda: disk.write_count == 1, what="the write to begin")

    assert store.config.cluster.cluster_name == "cluster.test"

    disk.may_go.set()
    assert (await store.settled()).config.cluster.cluster_name == "other"


async def test_changes_that_wait_share_a_write_and_a_refused_one_concerns_nobody(
    paths: Paths, nursery: trio.Nursery
) -> None:
    disk = Disk(paths.config_data)
    store = await start_on(disk, nursery)
    answers: list[object] = []

    async def change(step: Step[str]) -> None:
        try:
            answers.append(await store.change(step))
        except ConfigurationError as error:
            answers.append(error.message)

    disk.may_go.clear()
    async with trio.open_nursery() as callers:
        callers.start_soon(change, renaming("first"))
        await wait_until_async(lambda: disk.write_count == 1, what="the first write to begin")
        for step in (renaming("second"), refusing, renaming("third")):
            callers.start_soon(change, step)
            await trio.testing.wait_all_tasks_blocked()
        disk.may_go.set()

    assert sorted(map(str, answers)) == ["first", "no, at serial 3", "second", "third"]
    assert disk.write_count == 2
    assert (store.config.cluster.cluster_name, store.config.serial_no) == ("third", 4)


async def test_a_failed_write_is_an_error_and_memory_goes_back(paths: Paths, nursery: trio.Nursery) -> None:
    disk = Disk(paths.config_data)
    store = await start_on(disk, nursery)
    before = store.state
    disk.is_full = True

    with pytest.raises(Unavailable, match=r"could not be written: No space left on device; nothing was changed"):
        await store.change(renaming("other"))

    assert store.state is before
    disk.is_full = False
    await store.change(renaming("third"))
    assert (store.config.cluster.cluster_name, store.config.serial_no) == ("third", before.config.serial_no + 1)


async def test_a_change_of_nothing_writes_nothing(paths: Paths, nursery: trio.Nursery) -> None:
    disk = Disk(paths.config_data)
    store = await start_on(disk, nursery)

    await store.change(renaming("cluster.test"))

    assert (disk.write_count, store.config.serial_no) == (0, 1)


async def test_a_file_changed_by_another_program_is_not_overwritten(paths: Paths, nursery: trio.Nursery) -> None:
    store = ConfigStore.load(paths)
    await nursery.start(store.run)
    theirs = paths.config_data.read_bytes() + b"\n"
    paths.config_data.write_bytes(theirs)

    for _ in range(2):
        with pytest.raises(Conflict, match=r"changed by another program.*restart wconfd"):
            await store.change(renaming("other"))

    assert paths.config_data.read_bytes() == theirs
    assert store.config.cluster.cluster_name == "cluster.test"


async def test_a_removed_file_is_not_brought_back(paths: Paths, nursery: trio.Nursery) -> None:
    store = ConfigStore.load(paths)
    await nursery.start(store.run)
    paths.config_data.unlink()

    with pytest.raises(Conflict, match="was removed"):
        await store.flush()

    assert not paths.config_data.exists()


async def test_changes_begun_before_the_end_are_written_and_later_ones_refused(paths: Paths) -> None:
    disk = Disk(paths.config_data)
    async with trio.open_nursery() as nursery:
        store = await start_on(disk, nursery)
        disk.may_go.clear()
        async with trio.open_nursery() as callers:
            callers.start_soon(store.change, renaming("first"))
            await wait_until_async(lambda: disk.write_count == 1, what="the write to begin")
            callers.start_soon(store.change, renaming("second"))
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
            disk.may_go.set()
    assert on_disk(paths).cluster.cluster_name == "second"

    with pytest.raises(Unavailable, match="shutting down"):
        await store.change(renaming("third"))


async def test_the_nodes_are_told_of_the_state_at_the_start_and_of_changes(paths: Paths, nursery: trio.Nursery) -> None:
    nodes = Nodes()
    store = await start_on(Disk(paths.config_data), nursery, nodes)
    await wait_until_async(lambda: nodes.told == [(1, None)], what="the first telling", state=lambda: nodes.told)

    await store.change(renaming("other"))

    await wait_until_async(lambda: nodes.told[-1] == (2, None), what="the second telling", state=lambda: nodes.told)


async def test_nodes_that_could_not_be_told_are_told_later(
    paths: Paths, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    nodes = Nodes(first_fails=True)

    await start_on(Disk(paths.config_data), nursery, nodes)

    await wait_until_async(lambda: nodes.told == [(1, None)] * 2, what="another telling", state=lambda: nodes.told)


async def test_only_an_urgent_change_returns_after_the_nodes_were_told(
    paths: Paths, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    # after its failure the telling in the background pauses: what is told now is told for a caller
    monkeypatch.setattr(configstore, "_RETRY_S", 3600.0)
    nodes = Nodes(first_fails=True)
    store = await start_on(Disk(paths.config_data), nursery, nodes)
    await wait_until_async(lambda: nodes.told, what="the telling that fails")

    def trust(config: Config, now: float) -> tuple[Config, None]:
        cluster = attrs.evolve(config.cluster, candidate_certs={config.cluster.master_node: "AA"})
        return advanced(config, attrs.evolve(config, cluster=cluster), now), None

    await store.change(renaming("other"))
    assert nodes.told == [(1, None)]

    await store.change(trust)
    assert nodes.told == [(1, None), (3, None)]


async def test_a_flush_writes_and_tells_the_nodes_of_the_group(paths: Paths, nursery: trio.Nursery) -> None:
    nodes, disk = Nodes(), Disk(paths.config_data)
    store = await start_on(disk, nursery, nodes)
    (group,) = store.config.nodegroups

    await store.flush(group)
    await store.flush(GroupUuid("none"))

    assert (1, frozenset(store.config.nodes)) in nodes.told
    assert (1, frozenset()) in nodes.told
    assert (disk.write_count, store.config.serial_no) == (2, 1)


async def test_this_node_gets_its_ssconf_files_and_only_what_differs_is_written(paths: Paths) -> None:
    local = LocalDistribution(paths)
    config = on_disk(paths)
    kept = paths.ssconf_file("node_list").stat().st_ino
    other = attrs.evolve(config, cluster=attrs.evolve(config.cluster, cluster_name="other"))

    left_out = await local.spread(ConfigState.of(other))

    assert left_out == frozenset()
    assert paths.ssconf_file("cluster_name").read_text() == "other\n"
    assert stat.S_IMODE(paths.ssconf_file("cluster_name").stat().st_mode) == 0o444
    assert paths.ssconf_file("node_list").stat().st_ino == kept


async def test_other_nodes_are_reported_as_not_told(paths: Paths) -> None:
    config = on_disk(paths)
    (node,) = config.nodes.values()
    second = NodeUuid("second")
    two = attrs.evolve(config, nodes={**config.nodes, second: attrs.evolve(node, uuid=second, name="node2.test")})

    local = LocalDistribution(paths)

    assert await local.spread(ConfigState.of(two)) == {second}
    assert await local.spread(ConfigState.of(two), frozenset({second})) == {second}


async def test_a_missing_configuration_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"config\.data'; make a cluster with 'gnt-cluster init'"):
        ConfigStore.load(Paths.under_root(tmp_path))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: b"", r"damaged at byte 0 of 0: it is not JSON"),
        (lambda text: text[:100], r"damaged at byte \d+ of 100: it is not JSON"),
        (lambda text: text.replace(b'"serial_no":1', b'"serial_no":"1"', 1), r"damaged at \$\.cluster\.serial_no: "),
        (lambda text: text.replace(b'"version"', b'"vision"', 1), r"unknown key 'vision'"),
        (lambda text: text.replace(b'"fake"]', b'"kvm"]', 1), r"inconsistent: hypervisor 'kvm' is enabled"),
    ],
)
async def test_a_damaged_configuration_is_refused_with_place_and_remedy(
    paths: Paths, damage: Callable[[bytes], bytes], message: str
) -> None:
    damaged = damage(paths.config_data.read_bytes())
    paths.config_data.write_bytes(damaged)

    with pytest.raises(DamagedFile, match=message) as refusal:
        ConfigStore.load(paths)

    assert f"'cp BACKUP {paths.config_data}'" in refusal.value.message
    assert paths.config_data.read_bytes() == damaged


async def test_no_node_of_a_new_cluster_has_the_address_of_the_cluster(tmp_path: Path) -> None:
    config = create_cluster(Paths.under_root(tmp_path), "cluster.test", "node1.test")

    (node,) = config.nodes.values()
    assert config.cluster.master_ip not in {node.primary_ip, node.secondary_ip}


async def test_a_cluster_is_made_once_and_keeps_what_is_left_of_an_older_one(tmp_path: Path) -> None:
    paths = Paths.under_root(tmp_path)
    paths.make_folders()
    paths.serial_file.write_text("41\n")

    config = create_cluster(paths, "cluster.test", "node1.test")

    assert paths.serial_file.read_text() == "41\n"
    assert (paths.version_file.read_text(), paths.locks_data.read_text()) == ("1\n", "[[],[]]")
    assert stat.S_IMODE(os.stat(paths.tempres_data).st_mode) == 0o600
    assert on_disk(paths) == config
    with pytest.raises(Conflict, match="there is a cluster already"):
        create_cluster(paths, "other.test", "node1.test")
    assert on_disk(paths) == config
