"""The numbers of a daemon's commits, for graphs and alerts."""

from common.lease.deadline import boottime
from common.metrics.commitwork import CommitWork
from protocol.etcd.fenced.commits import Commits


def work_of(commits: Commits, uncopied: int) -> CommitWork:
    """Args: uncopied: changes that some candidate may lack."""
    done, state = commits.statistics(), commits.state
    return CommitWork(
        commits=done.commits,
        failures=done.failures,
        retries=done.retries,
        waiting=done.waiting,
        uncopied=uncopied,
        silent_s=0.0 if state.silent_since_s is None else boottime() - state.silent_since_s,
        is_full=state.is_full,
        durations=done.durations,
    )
