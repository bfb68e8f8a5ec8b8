"""Jobs of a plan that never ran because it did not come to what they were for: `after: {test: failure}`.

Theory. Such a job ends as an error, as Ganeti's rule for dependencies is, but nothing failed: the job before it
succeeded. So it does not count where one exit code tells how several jobs went. A job that failed always counts, also
if another one was for its failure and succeeded: whoever reads the exit code must not take a failed test, of which an
alarm was told, for a test that passed.

Source: chained-jobs design; DESIGN section 6.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from common.errors import InvalidRequest
from common.queue.dependencies import Dependency
from common.queue.jobs import JobState
from common.words.outcome import Outcome

_ENDED_SO: Final[Mapping[str, JobState]] = {"success": JobState.SUCCESS, "error": JobState.ERROR}


def not_needed(outcomes: Sequence[Outcome]) -> frozenset[int]:
    """The ids of those that never ran because a job of them succeeded, or was not needed itself.

    Only jobs among `outcomes` are looked at.
    """
    by_id = {outcome.job_id: outcome for outcome in outcomes}
    found: set[int] = set()
    # a job depends on earlier ones only
    for job_id in sorted(by_id):
        outcome = by_id[job_id]
        if _never_ran(outcome) and any(_came_otherwise(each, by_id, found) for each in _depends(outcome)):
            found.add(job_id)
    return frozenset(found)


def _never_ran(outcome: Outcome) -> bool:
    return outcome.status == "error" and not any(map(outcome.has_begun, range(len(outcome.statuses))))


def _came_otherwise(each: Dependency, by_id: Mapping[int, Outcome], found: set[int]) -> bool:
    """Whether the job before did not end as wanted, and nothing failed."""
    before = by_id.get(each.job_id)
    if before is None or not each.wanted:
        return False
    is_well = before.is_success or before.job_id in found
    return is_well and _ENDED_SO.get(before.status) not in each.wanted


def _depends(outcome: Outcome) -> Iterator[Dependency]:
    depends = outcome.ops[0].get("depends") if outcome.ops else None
    for each in depends if isinstance(depends, list | tuple) else ():
        try:
            yield Dependency.from_wire(list(each) if isinstance(each, tuple) else each)
        except InvalidRequest:
            # a later version's form; then the job counts
            continue
