"""A process that KILL does not end, as one that waits for a dead disk: here one that a freezer of version 1 holds."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from common.commands.cgroups import ControlGroup, find_groups
from common.queue.explanation import Ending
from protocol.luxi.jobs import CancelJob
from protocol.luxi.why import ExplainJobs
from protocol.wconfd.locks import ListAllLocksOwners
from tests.daemon.luxid.ops import command
from tests.support.checked import assert_all_is_free
from tests.support.cluster import Cluster
from tests.support.wait import wait_until


@pytest.fixture
def freezer(tmp_path: Path) -> Iterator[ControlGroup]:
    tree = find_groups("v1", tmp_path)
    if tree is None:
        pytest.skip("no freezer may be used here")
    group = tree.make("job-99.cg")
    try:
        yield group
    finally:
        write(group, "freezer.state", "THAWED")
        wait_until(group.remove, what="the freezer is removed")
        tree.sweep()


def write(group: ControlGroup, name: str, text: str) -> None:
    Path(group.folder, name).write_text(text)


def test_a_job_whose_process_cannot_be_killed_stays_canceling_with_its_locks(
    tmp_path: Path, freezer: ControlGroup
) -> None:
    settings = '[luxid]\nkill_grace_s = 0.1\nsweep_s = 3600.0\n[jobproc]\ncgroups = "off"\n'
    with Cluster(tmp_path / "root", settings=settings) as cluster:
        cluster.start()
        file = tmp_path / "pid"
        script = f"echo $$ > {file}.new; mv {file}.new {file}; exec sleep 600"
        job_id = cluster.submit(command("sh", "-c", script, locks={"node/n1": "exclusive"}))
        wait_until(file.exists, what="the command runs")
        pid = int(file.read_text())
        write(freezer, "cgroup.procs", str(pid))
        write(freezer, "freezer.state", "FROZEN")

        cluster.luxi(CancelJob(job_id, kill=True))
        wait_until(lambda: "job.not_killed" in cluster.log("luxid"), what="luxid tells that it does not end")

        assert cluster.status(job_id) == "canceling"
        assert {owner.ident for _, owners in cluster.wconf(ListAllLocksOwners()) for owner, _ in owners} == {job_id}
        assert Ending((pid,)) in (cluster.luxi(ExplainJobs((job_id,)))[0] or ())
        assert f"pids={pid} " in cluster.log("luxid")

        write(freezer, "freezer.state", "THAWED")
        assert cluster.wait(job_id) == ["canceled"]
        assert_all_is_free(cluster)
