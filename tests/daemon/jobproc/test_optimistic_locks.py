"""Units that choose their locks by what they read before they hold any. DESIGN section 7."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from common.locks import LockMode, LockRequest, parse_lock
from daemons.jobproc.opcodelocks import MOST_ROUNDS, covers
from protocol.wconfd.changes import ChangeNodes
from protocol.wconfd.config import ReadConfig
from tests.daemon.luxid.ops import gated
from tests.support.cluster import Cluster
from tests.support.daemons.forkserver import JobHost

OPCODES = """
from typing import ClassVar
import attrs
from common.lockdecl import LockDeclaration
from common.opcodes.base import OpCode

@attrs.frozen(kw_only=True)
class OpDrift(OpCode):
    OP_ID: ClassVar[str] = "OP_DRIFT"
    settles_after: int

    def lock_declaration(self):
        return LockDeclaration(bgl=None)
"""
UNITS = """
from drift_opcodes import OpDrift
from common.locks import LockLevel, LockMode, LockRequest, member_lock
from daemons.jobproc.units.base import LogicalUnit

class DriftUnit(LogicalUnit):
    OPCODE = OpDrift
    is_optimistic = True
    reads = 0

    def expand_names(self, context):
        self.reads += 1

    def declare_locks(self, level, context):
        if level is not LockLevel.NODE:
            return ()
        return [LockRequest(member_lock(level, f"n{min(self.reads, self.op.settles_after)}"), LockMode.EXCLUSIVE)]

    def run(self, context):
        return sorted(map(str, context.locks.held))
"""


@pytest.fixture
def host(tmp_path: Path) -> Iterator[JobHost]:
    """A fork server with a unit that wants other locks each time that it declares them."""
    package = tmp_path / "site"
    info = package / "drift-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: drift\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[gantry.opcodes]\ndrift = drift_opcodes\n[gantry.units]\ndrift = drift_units\n"
    )
    (package / "drift_opcodes.py").write_text(OPCODES)
    (package / "drift_units.py").write_text(UNITS)
    host = JobHost(tmp_path)
    try:
        host.start_server(PYTHONPATH=str(package))
        yield host
    finally:
        host.close()


def test_a_unit_that_needs_other_locks_frees_its_own_and_begins_again(host: JobHost) -> None:
    job = host.run(1, {"OP_ID": "OP_DRIFT", "settles_after": 2})

    assert job.ops[0].result == ["node/n2"]
    assert host.wconfd.methods == ["updateLocksWaiting", "freeLocks", "updateLocksWaiting", "freeLocks"]
    assert [entry.message for entry in job.ops[0].log] == [
        "the configuration has changed meanwhile: the job needs other locks"
    ]


def test_a_unit_that_never_has_the_right_locks_fails_and_keeps_none(host: JobHost) -> None:
    job = host.run(1, {"OP_ID": "OP_DRIFT", "settles_after": 10**6})

    error, (text, reason) = job.ops[0].result
    assert (error, reason) == ("OpPrereqError", "temp_insufficient_resources")
    assert text.startswith(f"the configuration has changed {MOST_ROUNDS} times while the job waited for its locks")
    assert host.wconfd.methods.count("updateLocksWaiting") == MOST_ROUNDS
    assert host.wconfd.owners() == []


def test_a_job_takes_the_locks_that_its_nodes_need_after_they_were_moved(tmp_path: Path) -> None:
    with Cluster(tmp_path / "c") as cluster:
        cluster.start()
        for name in ("east", "west"):
            cluster.wait(cluster.submit({"OP_ID": "OP_GROUP_ADD", "group_name": name}))
        config: Any = cluster.wconf_wire(ReadConfig())
        groups = {group["name"]: group["uuid"] for group in config["nodegroups"].values()}
        (node,) = config["nodes"].values()
        holder = cluster.submit({**gated(tmp_path / "go"), "locks": {f"node/{node['uuid']}": "shared"}})
        cluster.wait(holder, status="running")
        move = cluster.submit({"OP_ID": "OP_GROUP_ASSIGN_NODES", "group_name": "west", "nodes": [node["name"]]})
        cluster.wait(move, status="waiting")

        # the node is in another group than the one whose lock the job asks for
        moved = {**node, "group": groups["east"]}
        cluster.wconf(ChangeNodes(nodes=(moved,), removed=(), certificates={}, may_fall_short=True))
        (tmp_path / "go").touch()

        assert cluster.wait(move) == ["success"]
        after: Any = cluster.wconf_wire(ReadConfig())
        assert after["nodes"][node["uuid"]]["group"] == groups["west"]


def test_a_group_covers_its_members_and_a_shared_lock_no_exclusive_one() -> None:
    held = {parse_lock("node/[lockset]"): LockMode.SHARED, parse_lock("instance/i1"): LockMode.EXCLUSIVE}

    def is_covered(name: str, mode: LockMode) -> bool:
        return covers(held, [LockRequest(parse_lock(name), mode)])

    assert is_covered("node/n1", LockMode.SHARED)
    assert not is_covered("node/n1", LockMode.EXCLUSIVE)
    assert is_covered("instance/i1", LockMode.SHARED)
    assert not is_covered("instance/[lockset]", LockMode.SHARED)
    assert not is_covered("nodegroup/g1", LockMode.SHARED)
