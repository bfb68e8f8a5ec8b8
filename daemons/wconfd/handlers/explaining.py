"""Who holds locks, who waits for them and why, and since when.

Source: DESIGN section 6, "Explain"; the methods are ours.
"""

import attrs

from daemons.wconfd.core.locks.explain import explain_holdings, explain_wait
from daemons.wconfd.locks.lockstore import LockStore
from protocol.peer import Peer
from protocol.wconfd.explain import ExplainHoldings, ExplainWait, HoldingsExplanation, WaitExplanation


@attrs.frozen
class ExplainingHandlers:
    _locks: LockStore

    async def explain_wait(self, call: ExplainWait, _: Peer) -> WaitExplanation:
        since = self._locks.since
        return explain_wait(
            self._locks.state,
            call.owner,
            held_since=since.held,
            waiting_since=since.waiting,
            counting_since=since.started,
            ghost_s=self._locks.news.ghost_s,
        )

    async def explain_holdings(self, call: ExplainHoldings, _: Peer) -> HoldingsExplanation:
        since = self._locks.since
        held = explain_holdings(self._locks.state, call.owners, held_since=since.held)
        return HoldingsExplanation(held, since.started)
