"""Changes of queued jobs that a user asks for: name, labels, begin, hold, priority.

A change that is asked for twice changes nothing the second time. A hold that an operator put on somebody's job is
lifted by operators only.

Source: DESIGN section 16; `protocol.luxi.jobs.JobChange`.
"""

from typing import Final

import attrs

from common.errors import Denied, InvalidRequest
from common.queue.jobs import SUBMIT_PRIORITIES, Job, set_priority
from common.queue.submitter import submitter
from common.queue.terms import Hold, JobTerms, check_hold_words, check_label, check_name, checked, terms_of, with_terms
from protocol.luxi.jobs import JobChange

_UNCHANGED: Final = JobChange()


@attrs.frozen
class Changer:
    """Who asks for a change."""

    # "": not known
    name: str
    is_operator: bool


def check_change(change: JobChange) -> None:
    """Raises: InvalidRequest: no job can be changed so; says what and the rule."""
    if change == _UNCHANGED:
        raise InvalidRequest("nothing to change is given; name, labels, begin, hold, release or priority")
    if change.hold is not None and change.release:
        raise InvalidRequest("a job is either held or released, not both")
    if change.name is not None:
        check_name(change.name)
    if change.hold is not None:
        check_hold_words(change.hold)
    for key, value in change.labels.items():
        check_label(key, value)
    if both := sorted(change.labels.keys() & set(change.without_labels)):
        raise InvalidRequest(f"label '{both[0]}' is to be set and removed")
    checked(JobTerms(begin_at=change.begin_at))
    if change.priority is not None and change.priority not in SUBMIT_PRIORITIES.values():
        raise InvalidRequest(f"priority must be -10 (high), 0 (normal) or 10 (low), got {change.priority}")


def is_for_running(change: JobChange) -> bool:
    """Whether the change can be made while the job has a process: it is of nothing but its priority."""
    return attrs.evolve(change, priority=None) == _UNCHANGED


def changed_job(job: Job, change: JobChange, by: Changer, now_ns: int) -> Job:
    """A job without a process as it is after the change; the very same one if nothing changes.

    Raises:
        InvalidRequest: it would have too many labels.
        Denied: somebody else's hold.
    """
    before = terms_of(job)
    after = checked(
        attrs.evolve(
            before,
            name=before.name if change.name is None else change.name,
            labels=_labels(before, change),
            begin_at=before.begin_at if change.begin_at is None else change.begin_at or None,
            hold=_hold(job, before.hold, change, by, now_ns / 1e9),
        )
    )
    if after != before:
        job = with_terms(job, after, now_ns)
    if change.priority is None or job.next_index is None or set_priority(job, change.priority) == job:
        return job
    return set_priority(job, change.priority)


def change_words(before: Job, after: Job, change: JobChange) -> str:
    """What has become of the job, in a sentence. Args: after: the very same job if nothing was changed."""
    what = f"job {after.job_id}"
    is_changed = after is not before
    hold = terms_of(before).hold
    # a job that was held already, or not at all, may have changed in something else
    also = f"{what} was changed; it" if is_changed else what
    if change.release:
        return f"{also} was not held" if hold is None else f"{what} is released"
    if change.hold is not None:
        return f"{what} is held" if hold is None else f"{also} is held already{f' by {hold.by}' if hold.by else ''}"
    if is_for_running(change):
        return f"{what} has priority {change.priority}"
    return f"{what} was changed" if is_changed else f"{what} was so already"


def _labels(before: JobTerms, change: JobChange) -> dict[str, str]:
    kept = {key: value for key, value in before.labels.items() if key not in change.without_labels}
    return {**kept, **change.labels}


def _hold(job: Job, before: Hold | None, change: JobChange, by: Changer, now_s: float) -> Hold | None:
    if change.hold is not None and before is None:
        return Hold(by.name, now_s, change.hold)
    if not change.release or before is None:
        return before
    if not (by.is_operator or before.by in ("", by.name, submitter(job))):
        raise Denied(f"job {job.job_id} is held by {before.by!r}; only an operator releases it")
    return None
