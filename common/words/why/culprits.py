"""The jobs that stop others, from luxid's reasons.

Source: DESIGN section 6, "Explain".
"""

from collections.abc import Iterator, Sequence

from common.queue.explanation import Holding, LetsPass, LockChain, Reason, WaitsForJob, WaitsForLock


def culprits(reasons: Sequence[Reason] | None) -> Iterator[int]:
    """The jobs that block a job with these reasons, by their locks or because it depends on them."""
    for reason in reasons or ():
        if isinstance(reason, WaitsForJob):
            yield reason.job_id
        elif isinstance(reason, WaitsForLock):
            yield from _job_ids(reason.holders)
        elif isinstance(reason, LetsPass):
            yield from reason.job_ids
        elif isinstance(reason, LockChain):
            # an owner that is not a job has no reasons of its own: go on with the jobs that block that owner
            for wait in reason.waits:
                if wait.job_id is None:
                    yield from _job_ids(wait.holders)


def _job_ids(holders: Sequence[Holding]) -> Iterator[int]:
    return (holder.job_id for holder in holders if holder.job_id is not None)
