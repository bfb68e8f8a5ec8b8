"""`gantry cluster recover`: the candidates that reply are compared first."""

import json
from pathlib import Path

from tests.bench.queued import put_jobs
from tests.support.etcds.etcd import Etcd
from tests.support.machines.leasefleet import LeaseFleet


def test_the_newest_files_go_on_after_all_of_etcd_was_lost(tmp_path: Path, module_etcd: Etcd) -> None:
    words = ("cluster", "recover", "--from-files", "--yes")
    with LeaseFleet(tmp_path, module_etcd, 2) as fleet:
        old, new = reversed(list(fleet))
        put_jobs(new.paths, 3)
        new.paths.epoch_file.write_text(f"7 {new.name}\n")
        for each in fleet:
            each.cluster.start("noded")

        refused = old.gantry(*words)
        done = new.gantry("--output", "json", *words)

        assert refused.code == 1
        assert f"'{new.name}' has newer files: configuration 1 and job 3, this node has configuration 1 and job 0" in (
            refused.err
        )
        assert done.code == 0, done
        assert json.loads(done.out) == {"master": new.name, "epoch": 8, "newer": [], "silent": []}
        # the old one comes too late
        assert "etcd has 4 keys of a cluster" in old.gantry(*words, "--accept-loss").err


def test_a_candidate_that_is_silent_is_told_and_a_loss_can_be_accepted(tmp_path: Path, module_etcd: Etcd) -> None:
    with LeaseFleet(tmp_path, module_etcd, 3) as fleet:
        old, new, silent = fleet
        put_jobs(new.paths, 3)
        for each in (old, new):
            each.cluster.start("noded")

        done = old.gantry("cluster", "recover", "--from-files", "--yes", "--accept-loss")

        assert done.code == 0, done
        assert f"newer than this node: {new.name}" in done.err
        assert f"not heard, and newer perhaps: {silent.name}" in done.err
        rows = {row.split()[0]: row.split()[3] for row in done.out.splitlines() if row.startswith("node")}
        assert rows == {old.name: "0", new.name: "3", silent.name: "-"}
