"""The numbers of wconfd.

Source: protocol/wconfd/metrics.py.
"""

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from daemons.rapid.metrics.families import by, counter, gauge
from protocol.wconfd.metrics import WconfdMetrics


def lock_families(told: WconfdMetrics) -> Iterator[Metric]:
    locks = told.locks
    yield gauge("locks_held", "Locks held, a shared one counted for each holder.", locks.held)
    yield gauge("lock_owners", "Jobs and other owners that hold locks.", locks.owners)
    yield gauge("lock_requests_waiting", "Requests that wait for locks.", locks.waiting)
    yield gauge("longest_lock_wait_seconds", "Time for which the oldest request has waited.", locks.longest_wait_s)
    yield gauge("ghosts", "Dead owners whose locks are kept for a command on a node.", locks.ghosts)
    yield gauge(
        "oldest_ghost_seconds", "Time since the death of the oldest ghost; 0: there is none.", locks.oldest_ghost_s
    )
    yield gauge("config_serial", "Serial number of the configuration.", told.config_serial)
    changes = {name: work.changes for name, work in told.files.items()}
    failures = {name: work.failures for name, work in told.files.items()}
    yield counter("state_changes", "Changes of a state file, of which several may share a write.", by(changes), "store")
    yield counter("state_write_failures", "Writes of a state file that failed.", by(failures), "store")
