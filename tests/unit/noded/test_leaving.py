"""A node that leaves: a caller that was heard before may still bring files."""

from pathlib import Path

import trio

from common.ids import JobId
from common.paths import Paths
from daemons.noded.files.queuefiles import QueueFileCopies
from daemons.noded.handlers.membership import MembershipHandlers
from protocol.noded.membership import NodeLeaveCluster


class LateQueue(QueueFileCopies):
    """A queue to which a job comes just after it was purged for the first time."""

    def __init__(self, paths: Paths) -> None:
        super().__init__(paths)
        self.late = paths.job_file(JobId(7))
        self.purges = 0

    async def purge(self) -> None:
        await super().purge()
        self.purges += 1
        if self.purges == 1:
            self.late.write_bytes(b"{}")


async def nothing_runs() -> None:
    pass


def test_a_job_that_comes_while_the_node_leaves_is_removed(tmp_path: Path) -> None:
    paths = Paths.under_root(tmp_path)
    paths.make_folders()
    queue = LateQueue(paths)
    ended = trio.Event()
    handlers = MembershipHandlers(paths, queue, "node2.test", ended.set, nothing_runs)

    trio.run(handlers.leave_cluster, NodeLeaveCluster(modify_ssh_setup=False))

    assert ended.is_set()
    assert not queue.late.exists()
