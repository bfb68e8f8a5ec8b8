"""What happens to locks and configuration, told as it happens and explained when asked.

Source: DESIGN sections 6 and 8; the methods are ours.
"""

import attrs

from common.access import Role
from common.objects.config import Config
from daemons.wconfd.configstore import ConfigStore
from daemons.wconfd.core.config.limits import job_limits
from daemons.wconfd.core.locks.explain import explain_holdings, explain_wait
from daemons.wconfd.lockstore import LockStore
from protocol.peer import Peer
from protocol.service import Route
from protocol.stream import Stream
from protocol.wconfd.explain import ExplainHoldings, ExplainWait, HoldingsExplanation, WaitExplanation
from protocol.wconfd.subscribe import CONFIG_CHANGED, Subscribe


@attrs.frozen
class EventHandlers:
    _locks: LockStore
    _config: ConfigStore

    async def subscribe(self, _: Subscribe, __: Peer) -> Stream:
        # no checkpoint between the reading of the state and the subscription
        return self._locks.publisher.subscribe([self._locks.rows(), self._config.config.serial_no])

    async def explain_wait(self, call: ExplainWait, _: Peer) -> WaitExplanation:
        since = self._locks.since
        return explain_wait(
            self._locks.state,
            call.owner,
            held_since=since.held,
            waiting_since=since.waiting,
            counting_since=since.started,
        )

    async def explain_holdings(self, call: ExplainHoldings, _: Peer) -> HoldingsExplanation:
        since = self._locks.since
        held = explain_holdings(self._locks.state, call.owners, held_since=since.held)
        return HoldingsExplanation(held, since.started)

    def tell_config(self, before: Config, after: Config) -> None:
        concerns_luxid = before.filters != after.filters or job_limits(before) != job_limits(after)
        self._locks.publisher.publish(CONFIG_CHANGED, after.serial_no, concerns_luxid)


def event_routes(locks: LockStore, config: ConfigStore) -> tuple[Route, ...]:
    """The rows of the daemon's table that tell and explain; changes of the configuration are told from now on."""
    to = EventHandlers(locks, config)
    config.watchers.append(to.tell_config)
    return (
        Route(Subscribe, to.subscribe, role=Role.READ),
        Route(ExplainWait, to.explain_wait, role=Role.READ),
        Route(ExplainHoldings, to.explain_holdings, role=Role.READ),
    )
