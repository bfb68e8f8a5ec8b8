"""A new node gets what all nodes have in common of the settings (DESIGN 13, "Joining")."""

from pathlib import Path
from typing import Any

import attrs
import pytest

from common.errors import Conflict
from common.featuresettings import EtcdSettings, KeeperdSettings
from common.nodes.joining import NodeSettings, missing_etcd_files, settle_settings, shared_tables
from common.paths import Paths
from common.settings import ClusterSettings, ConfdSettings, MondSettings, Settings
from common.settingsfile import load_settings


def test_what_is_not_usual_on_the_master_is_so_on_a_new_node(tmp_path: Path) -> None:
    master = attrs.evolve(
        Settings(Paths.under_root(tmp_path)),
        confd=ConfdSettings(enabled="no", address="192.0.2.1"),
        mond=MondSettings(port=2815),
    )

    wanted = NodeSettings("node2.test", "192.0.2.2", 1811, shared_tables(master))
    settle_settings(load_settings(tmp_path), wanted)

    made = load_settings(tmp_path)
    # an address is a node's own
    assert made.confd == ConfdSettings(enabled="no")
    assert made.mond == MondSettings(port=2815)
    assert (made.noded.address, made.cluster.own_name) == ("192.0.2.2", "node2.test")
    assert made.confd_address == "192.0.2.2"


def test_usual_settings_are_not_written(tmp_path: Path) -> None:
    assert shared_tables(Settings(Paths.under_root(tmp_path))) == {}


def test_a_file_with_comments_alone_gets_the_settings_and_keeps_them(tmp_path: Path) -> None:
    file = tmp_path / "gantry.toml"
    file.write_text("# see the sample\n")

    assert settle_settings(load_settings(tmp_path), NodeSettings("node2.test", "192.0.2.2", 1811)) == file

    assert file.read_text().startswith("# see the sample\n[cluster]\n")
    assert load_settings(tmp_path).cluster.own_name == "node2.test"


def with_lease(folder: Path, **etcd: Any) -> Settings:
    return attrs.evolve(
        Settings(Paths.under_root(folder)),
        cluster=ClusterSettings(replication="etcd", node_name="node1.test"),
        etcd=EtcdSettings(endpoints=("http://192.0.2.1:2379", "http://192.0.2.2:2379"), **etcd),
        keeperd=KeeperdSettings(ttl_s=7.5, priority=3, watchdog="/dev/watchdog"),
    )


def test_under_a_lease_a_new_node_knows_etcd_and_the_lease_but_keeps_its_own_priority(tmp_path: Path) -> None:
    master = with_lease(tmp_path / "master", prefix="/lab/", user="gantry")

    settle_settings(load_settings(tmp_path), NodeSettings("node2.test", "192.0.2.2", 1811, shared_tables(master)))

    made = load_settings(tmp_path)
    assert made.cluster == ClusterSettings(replication="etcd", node_name="node2.test")
    assert made.etcd == master.etcd
    assert made.keeperd == KeeperdSettings(ttl_s=7.5)


def test_a_node_with_another_replication_or_another_prefix_is_refused(tmp_path: Path) -> None:
    wanted = NodeSettings("node2.test", "192.0.2.2", 1811, shared_tables(with_lease(tmp_path / "master")))
    settle_settings(load_settings(tmp_path), wanted)
    # what was written fits
    assert settle_settings(load_settings(tmp_path), wanted) is None

    apart = attrs.evolve(wanted, shared=shared_tables(with_lease(tmp_path / "master", prefix="/lab/")))
    with pytest.raises(Conflict, match='prefix = "/lab/"'):
        settle_settings(load_settings(tmp_path), apart)
    with pytest.raises(Conflict, match='replication = "nodes"'):
        settle_settings(load_settings(tmp_path), NodeSettings("node2.test", "192.0.2.2", 1811))


def test_files_for_etcd_that_a_machine_lacks_are_named(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").touch()
    settings = with_lease(tmp_path, ca_file=f"{tmp_path}/ca.crt", password_file=f"{tmp_path}/password")

    assert missing_etcd_files(settings) == [f"{tmp_path}/password"]
