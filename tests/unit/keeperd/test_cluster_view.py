"""What `gantry cluster` tells of the other candidates (DESIGN section 14)."""

from pathlib import Path

import attrs
import pytest
import trio

from common.featuresettings import EtcdSettings
from common.lease.records import EtcdKeys, Role
from common.paths import Paths
from common.settings import ClusterSettings, Settings
from daemons.keeperd.clusterview import ClusterViews
from daemons.keeperd.core.keeper import Keeper
from daemons.keeperd.core.states import NodeMemory, View
from daemons.keeperd.identity import KeeperIdentity
from daemons.keeperd.keys import Chronicle
from protocol.etcd.address import EtcdAddress
from protocol.etcd.client import EtcdClient
from protocol.keeperd import ClusterView
from tests.unit.keeperd.playing import ME, NEW, mastered, member, vacated


@pytest.fixture(autouse=True)
def is_impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daemons.keeperd.clusterview._ASK_S", 0.1)


def shown(root: Path, view: View | None) -> ClusterView:
    """What node 'n1' shows; n1 and n2 are the candidates."""
    settings = Settings(
        paths=Paths.under_root(root),
        cluster=ClusterSettings("etcd", "n1"),
        # nobody listens there
        etcd=EtcdSettings(endpoints=("http://127.0.0.1:1",)),
    )
    settings.paths.make_folders()
    settings.paths.ssconf_file("master_candidates").write_text("n1\nn2\n")
    keys = EtcdKeys("/gantry/")

    async def look() -> ClusterView:
        async with EtcdClient(EtcdAddress.of(settings)) as client:
            chronicle = Chronicle(client, keys, "n1")
            views = ClusterViews(settings, client, keys, KeeperIdentity("n1", "nonce", "boot", ""), chronicle)
            return await views.view(Keeper(ME, NodeMemory(), view=view), None, ())

    return trio.run(look)


@pytest.mark.parametrize(("view", "told"), [(NEW, ["n1", "n2"]), (None, ["n1"])])
def test_a_candidate_is_silent_only_where_etcd_was_read(tmp_path: Path, view: View | None, told: list[str]) -> None:
    assert [each.name for each in shown(tmp_path, view).members] == told


def test_a_node_that_has_lost_its_mastership_is_not_the_master_although_its_key_is_there(tmp_path: Path) -> None:
    assert shown(tmp_path / "own", mastered(NEW, "n1", 4)).master == ""
    assert shown(tmp_path / "other", mastered(NEW, "n2", 4)).master == "n2"


def test_one_node_at_most_is_shown_as_the_master_the_one_whose_key_it_is(tmp_path: Path) -> None:
    """The record of a master that was killed says for two leases that it is the master."""
    records = {each: attrs.evolve(member(each), role=Role.MASTER, state="master") for each in ("n2", "n3")}
    taken = attrs.evolve(mastered(NEW, "n2", 4), others=records)

    def roles(root: Path, view: View) -> dict[str, Role]:
        return {each.name: each.role for each in shown(root, view).members if each.name != "n1"}

    assert roles(tmp_path / "taken", taken) == {"n2": Role.MASTER, "n3": Role.WAS_MASTER}
    assert roles(tmp_path / "vacant", vacated(taken)) == {"n2": Role.WAS_MASTER, "n3": Role.WAS_MASTER}
