"""The queue as a whole, as luxid's feed tells it.

Source: `protocol.luxi.feed`.
"""

from daemons.luxid.files.store import Store
from daemons.luxid.jobs.livejobs import LiveJobs
from protocol.luxi.feed import QueueState


def queue_state(store: Store, jobs: LiveJobs) -> QueueState:
    """The present state."""
    counts = jobs.queue.counts()
    return QueueState(
        is_drained=store.is_drained,
        running=counts.starting + counts.running + counts.orphaned,
        max_running_jobs=jobs.queue.slots,
        ready=counts.ready,
        blocked=counts.blocked,
        deferred=counts.deferred,
        held=counts.held,
        obstacles=tuple(sorted(jobs.obstacles)),
    )
