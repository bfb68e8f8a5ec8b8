"""What the file of a job becomes when a luxid starts: what is in etcd, or what is here.

Theory. Whatever luxid writes is in etcd first, so the entry of a file is never older than the file, but for one case:
the process of a job has written it since. That process can be told by its livelock: as long as the file and the entry
name the same one, both were written by it, or by luxid when it gave the job to it, and the one that is further in the
job is the later. This holds on the node of the process and on a candidate that has a copy.

The file of a job that a process of another node had may be older than what that process has done, and nobody here will
know. So its next opcode counts as begun: it is never run twice. It ends as one whose process has died, or is taken up
if its command runs on a node.

Source: DESIGN section 14; `daemons.luxid.core.queue.recovery`.
"""

import attrs

from common.queue.jobs import FINAL, Job, JobState, OpEvent, Timestamp, apply_event, replace_op
from common.queue.tries import tries_so_far

# how far a try of an opcode is; a process takes an opcode back from waiting to queued, which is no step back
_RANKS = {JobState.QUEUED: 0, JobState.WAITING: 1, JobState.RUNNING: 2, JobState.CANCELING: 3}
_STARTABLE = (JobState.QUEUED, JobState.WAITING)


@attrs.frozen(order=True)
class _Progress:
    ended: int
    # failed tries of the next opcode
    tries: int
    rank: int
    lines: int


def has_process(job: Job) -> bool:
    """Whether a process may have the job, by its file alone."""
    return job.livelock is not None and job.next_index is not None


def is_later(here: Job, entry: Job, *, is_own: bool) -> bool:
    """Whether the process of the job has written the file here after what the entry holds.

    Args: is_own: whether that process was one of this node, and no other node has been the master since.
    """
    if here.livelock is None or here.livelock != entry.livelock:
        return False
    return is_own or progress(here) > progress(entry)


def is_lost(here: Job | None, *, is_own: bool) -> bool:
    """Whether nobody here can know what the process of a job has done. Args: here: the file; None: there is none."""
    return not is_own or here is None


def as_begun(job: Job, now: Timestamp) -> Job:
    """The job of which a lost process may have begun the next opcode; one that has ended stays as it is."""
    index = job.next_index
    if index is None or job.ops[index].state not in _STARTABLE:
        return job
    return replace_op(job, index, apply_event(job.ops[index], OpEvent.LOCKED, now))


def progress(job: Job) -> _Progress:
    """How far a copy of a job is; the later of two copies is not the lower one."""
    index = job.next_index
    rank = 0 if index is None else _RANKS[job.ops[index].state]
    ended = sum(op.state in FINAL for op in job.ops)
    return _Progress(ended, tries_so_far(job), rank, job.next_log_serial)
