"""The opcodes on nodes, as far as they call no node."""

from pathlib import Path

import pytest

from common.errors import PrerequisiteError
from daemons.jobproc.testing import UnitTrial
from daemons.jobproc.units.nodes.add import NodeAddUnit
from tests.support.configs import small_config


def test_one_machine_takes_no_nodes(tmp_path: Path) -> None:
    trial = UnitTrial(tmp_path, config=small_config())

    with pytest.raises(
        PrerequisiteError, match=r"^'replication' in '\[cluster\]' is 'none', so nodes cannot be called"
    ):
        trial.carry_out(NodeAddUnit, {"node_name": "node2.test", "primary_ip": "192.0.2.2"})

    assert trial.locks == {"cluster/BGL": "exclusive"}


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"primary_ip": "192.0.2.300"}, "'192.0.2.300' is not an IP address"),
        ({"primary_ip": "192.0.2.1"}, "node 'node1.test' has the address 192.0.2.1 already"),
        (
            {"primary_ip": "192.0.2.2", "secondary_ip": "198.51.100.2"},
            "the nodes of this cluster have one address, so node 'node2.test' must not have a secondary one",
        ),
        ({"primary_ip": "192.0.2.2", "ndparams": {"x": 1}}, "there is no node parameter 'x'; known are oob_program, "),
        (
            {"primary_ip": "192.0.2.2", "ndparams": {"ssh_port": "many"}},
            "the node parameter 'ssh_port' cannot be 'many': a whole number is expected",
        ),
        (
            {"primary_ip": "192.0.2.2", "ndparams": {"exclusive_storage": True}},
            "'exclusive_storage' is for whole groups or the cluster, not for one node",
        ),
        ({"primary_ip": "192.0.2.2", "hv_state": {"x": 1}}, "'hv_state' of a node cannot be set here; leave it out"),
    ],
)
def test_a_node_with_wrong_parameters_is_not_called(tmp_path: Path, parameters: dict[str, object], text: str) -> None:
    trial = UnitTrial(tmp_path, config=small_config())

    with pytest.raises(PrerequisiteError) as raised:
        trial.carry_out(NodeAddUnit, {"node_name": "node2.test", **parameters})

    assert raised.value.message.startswith(text)
