"""What a job becomes whose file was lost on the master and is fetched from another node. Pure.

Theory. The copy may be older than the file that was lost: the job may have run since. So nothing that is fetched starts
by itself. A job that has ended there is as it was. One that had started by its copy, or by anything that this cluster
knows of it, ends as an error, as nobody can say how far it came. All others come back on hold, until an operator has
judged them.

Source: DESIGN section 11, "a job that is missing on the master"; section 3, invariant 5.
"""

from collections.abc import Sequence

import attrs

from common.queue.jobs import Job, JobState, to_timestamp
from common.queue.terms import Hold, terms_of, with_terms
from daemons.luxid.core.copies.replaydecisions import progress
from daemons.luxid.core.queue.recovery import fail_job

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
