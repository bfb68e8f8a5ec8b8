"""Events of locks and configuration, sent as they happen.

Source: DESIGN sections 6 and 8; the method is ours.
"""

import time
from collections.abc import Callable

import attrs

from common.metrics import CallTally, CommitWork
from common.objects.config import Config
from common.system.processes import own_use
from common.system.program import release
from common.system.watch import unwatched
from daemons.wconfd.configstore import ConfigStore
from daemons.wconfd.core.config.changes import job_limits
from daemons.wconfd.locks.deaths import LockOwnerDeaths
from daemons.wconfd.locks.lockstore import LockStore
from daemons.wconfd.steps import StepStatistics
from daemons.wconfd.tempresstore import ReservationStore
from protocol.peer import Peer
from protocol.serving.route import Publisher, Stream
from protocol.wconfd.daemon import FileWork, LocksNow, ReadMetrics, WconfdMetrics
from protocol.wconfd.locks import CONFIG_CHANGED, Holdings, Subscribe


@attrs.frozen
class SubscriptionHandlers:
    _locks: LockStore
    _config: ConfigStore

    async def subscribe(self, _: Subscribe, __: Peer) -> Stream[tuple[tuple[Holdings, ...], int]]:
        # no checkpoint between reading the state and subscribing
        return self._locks.publisher.subscribe((tuple(self._locks.rows()), self._config.config.serial_no))


def tell_config(publisher: Publisher, before: Config, after: Config) -> None:
    """Send a change of the configuration to the subscribers."""
    concerns_luxid = before.filters != after.filters or job_limits(before) != job_limits(after)
    publisher.publish(CONFIG_CHANGED, after.serial_no, concerns_luxid)


# Numbers of wconfd for graphs and alerts; the method is ours.
#
# Source: DESIGN section 15.


@attrs.frozen
class WconfdMetricHandlers:
    _locks: LockStore
    _config: ConfigStore
    _reservations: ReservationStore
    _deaths: LockOwnerDeaths
    _tally: CallTally
    # None: there is no lease
    _commits: Callable[[], CommitWork] | None = None

    async def read_metrics(self, _: ReadMetrics, __: Peer) -> WconfdMetrics:
        """Cost: linear in owners of locks and in those that wait."""
        return WconfdMetrics(
            process=own_use(release(), unwatched()),
            calls=self._tally.read(),
            locks=self._locks_now(),
            config_serial=self._config.config.serial_no,
            files={
                "locks": _work(self._locks.statistics()),
                "config": _work(self._config.statistics()),
                "reservations": _work(self._reservations.statistics()),
            },
            backstop_wakeups=self._deaths.swept,
            commits=self._commits() if self._commits is not None else None,
        )

    def _locks_now(self) -> LocksNow:
        state = self._locks.state
        return LocksNow(
            held=state.table.held_count(),
            owners=state.table.owner_count(),
            waiting=state.waiting_count,
            longest_wait_s=self._locks.since.longest_wait_s(),
            ghosts=len(state.guards.ghosts),
            oldest_ghost_s=max((time.time() - ghost.since for ghost in self._locks.news.ghosts()), default=0.0),
        )


def _work(done: StepStatistics) -> FileWork:
    return FileWork(changes=done.steps, failures=done.failures, write=done.times)
