"""Numbers of the commits of a daemon to etcd, where its changes are replicated under a lease.

Counters and the histogram begin anew with each daemon.
"""

import attrs

from common.metrics.histogram import Distribution
from common.shapes import Lenient


@attrs.frozen(kw_only=True)
class CommitWork(Lenient):
    # commits that were carried out, and those that were not
    commits: int = 0
    failures: int = 0
    # requests that were sent again, since it was not known what had become of them
    retries: int = 0
    # commits that wait
    waiting: int = 0
    # changes that some candidate may lack
    uncopied: int = 0
    # seconds since etcd has replied last, while something waits for it; 0: nothing does
    silent_s: float = 0.0
    # whether etcd has refused the last change for want of space
    is_full: bool = False
    # seconds of transactions, with their retries
    durations: Distribution = attrs.field(factory=Distribution)
