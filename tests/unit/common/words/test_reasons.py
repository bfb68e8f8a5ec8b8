"""A line that says why a job does not run. Source: DESIGN section 6, "Explain"."""

import pytest

from common.ids import JobId
from common.locks import LockMode, parse_lock
from common.queue.explanation import (
    BeingWritten,
    Ending,
    Faded,
    HeldByOrphan,
    Holding,
    InLine,
    Outlived,
    Reason,
    SilentNode,
    TakenUp,
    WaitsForJob,
    WaitsForLock,
)
from common.queue.jobs import JobState
from common.words.why import in_short

NODE = parse_lock("node/a")
MOMENT = BeingWritten("held")
HELD = Holding("job/4", JobId(4), NODE, LockMode.EXCLUSIVE, 940.0)


def after(job_id: int) -> Reason:
    return WaitsForJob(JobId(job_id), JobState.RUNNING, None, ())


@pytest.mark.parametrize(
    ("reasons", "line"),
    [
        ((), ""),
        ((MOMENT,), ""),
        ((MOMENT, after(4), MOMENT, after(5)),
         "waits for job/4, which is running, to end; waits for job/5, which is running, to end"),
        ((after(4), InLine(3, (JobId(1),))), "waits for job/4, which is running, to end"),
        # what only explains its place in the line is not the reason
        ((Faded(3.0, 3.0, 0), InLine(1, ())), "is first in line"),
        ((WaitsForLock(NODE, LockMode.SHARED, 880.0, (HELD,), 0.0),),
         "has waited 2m00s for node/a (shared), held by job/4 (exclusive, for 1m00s)"),
        ((HeldByOrphan("job/4", JobId(4), ("web1",), 940.0, 1060.0),),
         "job/4 has orphaned locks: its process is gone for 1m00s, and its command may still run on node 'web1'; the "
         "locks are kept until the node tells that it has ended, 1m00s are over, or an operator says by "
         "'gantry fenced' that the node is down"),
        ((HeldByOrphan("job/4", JobId(4), ("web1", "web2"), 940.0, None),),
         "job/4 has orphaned locks: its process is gone for 1m00s, and its command may still run on node 'web1' and "
         "'web2'; the locks are kept until the node tells that it has ended or an operator says by "
         "'gantry fenced' that the node is down"),
        ((Ending((311, 312)),), "is being killed and keeps its locks until all of it has ended: pid 311, 312"),
        ((Ending(()),), "is being killed and keeps its locks until all of it has ended"),
        ((Outlived((311,)),),
         "its process has died; what it started lives on, and the job fails when that has ended: pid 311"),
        ((SilentNode("web1", 940.0, 1240.0, may_run=False, why="no route"),),
         "waits for node 'web1', which has not answered for 1m00s, for 4m00s more; its command has not begun: no "
         "route"),
        ((SilentNode("web1", 940.0, None, may_run=True, why="no route"),),
         "waits for node 'web1', which has not answered for 1m00s; its command may run there: no route"),
        ((TakenUp("web1", 1),), "its process died; a new one takes its command on node 'web1' up"),
        ((TakenUp("web1", 3),),
         "its process died; a new one takes its command on node 'web1' up, after a pause, as 3 have died in a row"),
    ],
)  # fmt: skip
def test_a_line_tells_the_first_lasting_reason_and_others_of_its_kind(reasons: tuple[Reason, ...], line: str) -> None:
    assert in_short(reasons, 1000.0) == line
