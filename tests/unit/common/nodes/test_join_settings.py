"""A new node gets what all nodes have in common of the settings (DESIGN 13, "Joining")."""

from pathlib import Path

import attrs

from common.nodes.joining.joinsettings import NodeSettings, settle_settings, shared_tables
from common.nodes.nodesettings import ConfdSettings, MondSettings
from common.paths import Paths
from common.settings import Settings, load_settings


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
