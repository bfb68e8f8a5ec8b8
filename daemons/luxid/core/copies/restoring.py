"""What a job becomes whose file was lost on the master and is fetched from another node. Pure.

Theory. The copy may be older than the file that was lost: the job may have run since. So nothing that is fetched starts
by itself. A job that has ended there is as it was. One that had started by its copy, or by anything that this cluster
knows of it, ends as an error, as nobody can say how far it came. All others come back on hold, until an operator has
judged them.

Source: DESIGN section 11, "a job that is missing on the master"; section 3, invariant 5.
"""

from collections.abc import Sequence

import attrs

from common.queue.jobs import FINAL, Job, JobState, OpEvent, Timestamp, apply_event, replace_op, to_timestamp
from common.queue.reasons import tries_so_far
from common.queue.terms import Hold, terms_of, with_terms
from daemons.luxid.core.queue.recovery import fail_job

# What the file of a job becomes when a luxid starts: what is in etcd, or what is here.
#
# Theory. Whatever luxid writes is in etcd first, so the entry of a file is never older than the file, but for one case:
# the process of a job has written it since. That process can be told by its livelock: as long as the file and the entry
# name the same one, both were written by it, or by luxid when it gave the job to it, and the one that is further in the
# job is the later. This holds on the node of the process and on a candidate that has a copy.
#
# The file of a job that a process of another node had may be older than what that process has done, and nobody here
# will know. So its next opcode counts as begun: it is never run twice. It ends as one whose process has died, or is
# taken up if its command runs on a node.
#
# Source: DESIGN section 14; `daemons.luxid.core.queue.recovery`.


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


REPAIR_SOURCE = "gnt:daemon:luxid:repair"


def furthest(copies: Sequence[tuple[str, Job]]) -> tuple[str, Job]:
    """The copy that is furthest in the job; there must be one. Args: copies: node -> what it has."""
    return max(copies, key=lambda copy: progress(copy[1]))


def why_started(job: Job, signs: Sequence[str]) -> str:
    """Why a job counts as started; empty: nothing shows it. Args: signs: what is known here, such as 'its output'."""
    found = list(signs)
    if job.livelock is not None or any(op.state is not JobState.QUEUED or op.exec_at is not None for op in job.ops):
        found.insert(0, "its copy")
    return ", ".join(found)


def restored(job: Job, node: str, signs: Sequence[str], now_s: float) -> Job:
    """The job as it is to be written.

    Args:
        node: whose copy it is.
        signs: as for `why_started`.
        now_s: seconds since the epoch.
    """
    now_ns = int(now_s * 1e9)
    if job.next_index is None:
        return job
    if why := why_started(job, signs):
        text = (
            f"the file of job {job.job_id} was lost on the master and fetched from node '{node}'; the job had started "
            f"({why}), and how far it came is not known"
        )
        return fail_job(job, text, REPAIR_SOURCE, to_timestamp(now_s), now_ns)
    terms = terms_of(job)
    if terms.hold is not None:
        return job
    words = f"its file was lost on the master and fetched from node {node}"
    return with_terms(job, attrs.evolve(terms, hold=Hold("gantry", now_s, words)), now_ns)
