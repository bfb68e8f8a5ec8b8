"""The state of wconfd for those who watch it: events of locks and configuration, and numbers; the methods are ours.

Source: DESIGN sections 6, 8 and 15.
"""

import time
from collections.abc import Callable

import attrs

from common.metrics import Metrics, gauge, joined, read
from common.objects.config import Config
from common.system.processuse import own_use
from common.system.program import release
from common.system.watch import unwatched
from daemons.wconfd.configstore import ConfigStore
from daemons.wconfd.core.config.changes import job_limits
from daemons.wconfd.filestores import ReservationStore
from daemons.wconfd.locks.deaths import LockOwnerDeaths
from daemons.wconfd.locks.lockstore import LockStore
from protocol.metrics import DaemonMetrics
from protocol.peer import Peer
from protocol.serving.route import Publisher, Stream
from protocol.serving.service import CallCounts
from protocol.wconfd.daemon import ReadWconfdMetrics
from protocol.wconfd.locks import CONFIG_CHANGED, Holdings, SubscribeToChanges


def tell_config(publisher: Publisher, before: Config, after: Config) -> None:
    """Send a change of the configuration to the subscribers."""
    concerns_luxid = before.filters != after.filters or job_limits(before) != job_limits(after)
    publisher.publish(CONFIG_CHANGED, after.serial_no, concerns_luxid)


@attrs.frozen(kw_only=True)
class StateNow(Metrics):
    """Locks and configuration at this moment."""

    held: int = gauge("locks_held", "Locks held, a shared one counted for each holder.")
    owners: int = gauge("lock_owners", "Jobs and other owners that hold locks.")
    waiting: int = gauge("lock_requests_waiting", "Requests that wait for locks.")
    longest_wait_s: float = gauge("longest_lock_wait_seconds", "Time for which the oldest request has waited.")
    ghosts: int = gauge("ghosts", "Dead owners whose locks are kept for a command on a node.")
    oldest_ghost_s: float = gauge(
        "oldest_ghost_seconds", "Time since the death of the first owner of orphaned locks; 0: there are none."
    )
    serial_no: int = gauge("config_serial", "Serial number of the configuration.")


@attrs.frozen
class StateHandlers:
    _locks: LockStore
    _config: ConfigStore
    _reservations: ReservationStore
    _deaths: LockOwnerDeaths
    _calls: CallCounts
    # of the numbers of commits to etcd; None: there is no lease
    _commits: Callable[[], Metrics | None] = lambda: None

    async def subscribe(self, _: SubscribeToChanges, __: Peer) -> Stream[tuple[tuple[Holdings, ...], int]]:
        # no checkpoint between reading the state and subscribing
        return self._locks.publisher.subscribe((tuple(self._locks.rows()), self._config.config.serial_no))

    async def read_metrics(self, _: ReadWconfdMetrics, __: Peer) -> DaemonMetrics:
        """Cost: linear in owners of locks and in those that wait."""
        name, commits = "wconfd", self._commits()
        families = [
            *read(self._calls, self._deaths.counts, self._now(), daemon=name),
            *read(self._locks.counts, daemon=name, store="locks"),
            *read(self._config.counts, daemon=name, store="config"),
            *read(self._reservations.counts, daemon=name, store="reservations"),
            *(read(commits) if commits is not None else ()),
        ]
        return DaemonMetrics(own_use(release(), unwatched()), joined(families))

    def _now(self) -> StateNow:
        state = self._locks.state
        return StateNow(
            held=state.table.held_count(),
            owners=state.table.owner_count(),
            waiting=state.waiting_count,
            longest_wait_s=self._locks.since.longest_wait_s(),
            ghosts=len(state.may_run.orphans),
            oldest_ghost_s=max((time.time() - orphan.since for orphan in self._locks.news.orphans()), default=0.0),
            serial_no=self._config.config.serial_no,
        )
