"""A change of the configuration is committed in the cluster before it is written here, or not made (DESIGN 14)."""

from collections.abc import Callable
from pathlib import Path

import attrs
import orjson
import pytest
import trio

from common.clusterinit import create_cluster
from common.errors import Conflict, Unavailable
from common.objects.codec import decode_config
from common.objects.config import Config
from common.paths import Paths
from common.replica.replica import NoLongerMaster
from daemons.wconfd.configfile import ConfigFile
from daemons.wconfd.configstore import ConfigStore, Step
from daemons.wconfd.core.config.configstate import advanced
from daemons.wconfd.distribution import ConfigChange, StateChange
from tests.support.fakes.copies import LOSS, REFUSAL, FakeDistribution

pytestmark = pytest.mark.trio


class Cluster(FakeDistribution):
    """Notes also what is in the file meanwhile."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self.is_lost = False
        # what was done, and the name of the cluster in the file then
        self.seen: list[tuple[str, str]] = []

    def before(self, change: StateChange) -> None:
        if self.is_lost:
            raise NoLongerMaster(LOSS)
        super().before(change)
        assert isinstance(change, ConfigChange)
        self.seen.append((f"commit {change.after.config.cluster.cluster_name}", name_in(self._path)))

    def take_back(self, change: StateChange) -> None:
        assert isinstance(change, ConfigChange)
        self.seen.append((f"back to {change.before.config.cluster.cluster_name}", name_in(self._path)))


class Disk(ConfigFile):
    """The real file; full on demand."""

    is_full = False

    def write(self, content: bytes, note: bytes = b"") -> None:
        if self.is_full:
            raise OSError(28, "No space left on device")
        super().write(content, note)


@attrs.frozen
class Wconfd:
    store: ConfigStore
    disk: Disk
    cluster: Cluster


def name_in(path: Path) -> str:
    return decode_config(orjson.loads(path.read_bytes())).cluster.cluster_name


def renaming(name: str) -> Step[None]:
    def step(config: Config, now: float) -> tuple[Config, None]:
        after = attrs.evolve(config, cluster=attrs.evolve(config.cluster, cluster_name=name))
        return advanced(config, after, now), None

    return step


@pytest.fixture
async def wconfd(tmp_path: Path, nursery: trio.Nursery) -> Wconfd:
    paths = Paths.under_root(tmp_path)
    create_cluster(paths, "cluster.test", "node1.test")
    disk, cluster = Disk(paths.config_data), Cluster(paths.config_data)
    store = ConfigStore(disk, disk.read(), cluster)
    nursery.start_soon(_until_lost, store)
    return Wconfd(store, disk, cluster)


async def _until_lost(store: ConfigStore) -> None:
    try:
        await store.run()
    except* NoLongerMaster:
        pass


async def test_it_is_committed_before_it_is_written(wconfd: Wconfd) -> None:
    await wconfd.store.change(renaming("other"))
    await wconfd.store.flush()

    assert wconfd.cluster.seen == [("commit other", "cluster.test")]
    assert name_in(wconfd.disk.path) == "other"


async def test_nothing_changes_while_it_cannot_be_committed(wconfd: Wconfd) -> None:
    before = wconfd.disk.path.stat()
    wconfd.cluster.is_away = True

    with pytest.raises(Unavailable, match=REFUSAL):
        await wconfd.store.change(renaming("other"))

    assert wconfd.store.config.cluster.cluster_name == "cluster.test"
    assert wconfd.disk.path.stat() == before

    wconfd.cluster.is_away = False
    await wconfd.store.change(renaming("other"))
    assert name_in(wconfd.disk.path) == "other"


async def test_what_cannot_be_written_here_is_taken_back_before_the_caller_hears_of_it(wconfd: Wconfd) -> None:
    wconfd.disk.is_full = True

    with pytest.raises(Unavailable, match="could not be written: No space left"):
        await wconfd.store.change(renaming("other"))

    assert wconfd.cluster.seen == [("commit other", "cluster.test"), ("back to cluster.test", "cluster.test")]
    assert wconfd.store.config.cluster.cluster_name == "cluster.test"


def _touched(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\n")


@pytest.mark.parametrize("change", [_touched, Path.unlink])
async def test_nothing_is_committed_over_a_file_of_another_program(
    wconfd: Wconfd, change: Callable[[Path], None]
) -> None:
    change(wconfd.disk.path)

    with pytest.raises(Conflict, match="nothing was written"):
        await wconfd.store.change(renaming("other"))

    assert wconfd.cluster.seen == []


async def test_a_file_that_was_changed_by_hand_is_committed_when_it_is_taken_over(wconfd: Wconfd) -> None:
    path = wconfd.disk.path
    path.write_bytes(path.read_bytes().replace(b"cluster.test", b"by-hand.test"))

    await wconfd.store.reload()

    assert wconfd.cluster.seen == [("commit by-hand.test", "by-hand.test")]
    assert wconfd.store.config.serial_no == 2


async def test_nothing_is_written_by_a_node_that_is_no_longer_the_master(wconfd: Wconfd) -> None:
    before = wconfd.disk.path.stat()
    wconfd.cluster.is_lost = True

    with pytest.raises(NoLongerMaster, match=LOSS):
        await wconfd.store.change(renaming("other"))

    assert wconfd.disk.path.stat() == before
    assert wconfd.store.config.cluster.cluster_name == "cluster.test"
