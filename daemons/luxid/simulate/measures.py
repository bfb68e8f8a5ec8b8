"""The results of a run: its length, the waits, and the time spent on waiting for locks."""

import math
import statistics
from collections.abc import Sequence

import attrs

from daemons.luxid.simulate.replay import Run


@attrs.frozen
class Measures:
    """The results of one policy; all times in seconds."""

    policy: str
    # time from the first arrival to the last end
    makespan_s: float
    # waits from arrival until the work begins; the 95th percentile is a wait that occurred (nearest rank)
    mean_wait_s: float
    p95_wait_s: float
    longest_wait_s: float
    # time with a slot and without locks, over all jobs; and its share of all time in slots
    blocked_s: float
    blocked_share: float
    # longest wait divided by that of the first policy; None: no job waited there
    starvation: float | None


def measure(policy: str, runs: Sequence[Run], baseline: Sequence[Run]) -> Measures:
    """Args: runs, baseline: at least one."""
    waits = sorted(run.wait_s for run in runs)
    blocked_s = math.fsum(run.blocked_s for run in runs)
    in_slots_s = math.fsum(run.ended_s - run.started_s for run in runs)
    longest_before_s = max(run.wait_s for run in baseline)
    return Measures(
        policy=policy,
        makespan_s=max(run.ended_s for run in runs) - min(run.job.arrival_s for run in runs),
        mean_wait_s=statistics.fmean(waits),
        p95_wait_s=waits[math.ceil(0.95 * len(waits)) - 1],
        longest_wait_s=waits[-1],
        blocked_s=blocked_s,
        blocked_share=blocked_s / in_slots_s if in_slots_s else 0.0,
        starvation=waits[-1] / longest_before_s if longest_before_s else None,
    )
