"""Units of a job whose command may still run on a node that does not reply: kept with its locks, and through a restart.

Source: DESIGN sections 14 and 16; everyday.md section e.
"""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from common.ids import JobId
from common.resources import Resource
from protocol.luxi.jobs import CancelJob
from protocol.luxi.queue import ReadResourceUse, SetResource
from protocol.wconfd.locks import ListOrphanedLocks
from tests.daemon.luxid.ops import process_of
from tests.support.machines.fleet import Fleet
from tests.support.wait import wait_until

USES = [["gantry:terms", '{"uses":{"licences":1}}', 1]]


def used(fleet: Fleet) -> dict[JobId, int]:
    (row,) = fleet.master.luxi(ReadResourceUse())
    return dict(row.users)


def _size(path: Path) -> int:
    return path.stat().st_size


def test_an_orphan_keeps_the_units_of_its_job_until_its_node_has_told_the_end(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    # a luxid that starts needs the votes of two nodes
    with Fleet(tmp_path_factory.mktemp("g"), 2) as fleet:
        master, (node, voter) = fleet.master, fleet.nodes
        node.start()
        voter.start()
        master.start("noded", "wconfd", "forkserver", "luxid")
        master.luxi(SetResource(Resource("", "licences", 1)))
        op = {
            "OP_ID": "OP_RUN_COMMAND",
            "argv": ["sh", "-c", "echo begun; exec sleep 600"],
            "node": node.name,
            "reason": USES,
        }
        job = master.submit(op)
        master.wait(job, status="running")
        wait_until(lambda: any(map(_size, master.paths.output.glob(f"job-{job}.0*"))), what="it is followed")
        pid = process_of(master, job)
        master.kill("forkserver")
        node.kill()
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: "job.orphaned" in master.log("luxid"), what="its death is known")
        assert used(fleet) == {job: 1}
        done: Any = master.luxi(CancelJob(job, kill=True))
        assert done.is_done, done.message
        master.wait(job, status="canceled")
        wait_until(
            lambda: [each.owner.ident for each in master.wconf(ListOrphanedLocks())] == [job], what="it is an orphan"
        )
        other = master.submit({"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], "reason": USES})

        assert used(fleet) == {job: 1}
        master.start("forkserver")
        master.restart("luxid")
        free = master.submit({"OP_ID": "OP_RUN_COMMAND", "argv": ["true"]})
        master.wait(free, status="success")
        wait_until(lambda: used(fleet) == {job: 1}, what="the totals are known", state=lambda: used(fleet))
        assert master.status(other) == "queued"

        node.start()
        master.wait(other, status="success")
