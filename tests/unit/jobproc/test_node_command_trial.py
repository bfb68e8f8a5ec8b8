"""A command on a node in a trial, which has one machine."""

from pathlib import Path

import pytest

from common.errors import PrerequisiteError
from common.objects.initial import NewUuids, initial_config
from common.objects.kinds import GroupUuid, NodeUuid
from daemons.jobproc.testing import UnitTrial
from daemons.jobproc.units.command import RunCommandUnit


def trial(folder: Path) -> UnitTrial:
    uuids = NewUuids(cluster="cluster", node=NodeUuid("uuid-1"), group=GroupUuid("group"))
    return UnitTrial(folder, config=initial_config("cluster.test", "web1.test", now=0.0, uuids=uuids))


def test_the_master_is_a_node_as_well_and_its_lock_is_taken(tmp_path: Path) -> None:
    made = trial(tmp_path)

    made.carry_out(RunCommandUnit, {"argv": ["echo", "hello"], "node": "web1", "dry_run": True})

    assert made.locks == {"cluster/BGL": "shared", "node/uuid-1": "shared"}


def test_other_nodes_are_unknown(tmp_path: Path) -> None:
    with pytest.raises(PrerequisiteError, match="there is no node 'web2'"):
        trial(tmp_path).carry_out(RunCommandUnit, {"argv": ["true"], "node": "web2"})
