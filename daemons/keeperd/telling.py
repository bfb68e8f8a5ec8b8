"""Let all nodes know who is the master: they refuse what an earlier one sends from then on.

Source: lease.md 7; noded.md 6.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import trio

from common.lease.fence import Fence
from common.nodes.ssconffiles import node_ips
from common.settings import Settings
from common.system.inthread import in_thread
from common.system.log import get_log
from common.system.retrypauses import retry_pauses
from daemons.keeperd.core.claims import Claimed, judge_claims
from daemons.keeperd.core.events import Event, NodesTold, OwnNodeSilent
from protocol.noded.clients.certificates import CertificateFiles
from protocol.noded.clients.client import NodeClient
from protocol.noded.clients.nodes import NodeAddress
from protocol.noded.clients.outcomes import Failed, FailureKind, Outcome, Replied
from protocol.noded.mastership import ClaimEpoch, GetStanding

# limit of the first round, and of later ones: the take-over does not wait for silent nodes
_FIRST_S: Final = 0.5
_ROUND_S: Final = 2.0
# nodes are asked so long what they know, before a campaign
_ASK_S: Final = 0.5
_log: Final = get_log(__name__)


class NodeTeller:
    """The node daemons, for the epochs of masters. A context manager."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._client = NodeClient(CertificateFiles.of(settings.paths))

    async def close(self) -> None:
        await self._client.aclose()

    async def highest_epoch(self) -> int:
        """The highest that any node reports at once; 0: none knows one."""
        nodes = await self._nodes()
        outcomes = await self._client.call_nodes(nodes, GetStanding(), _ASK_S, even_paused=True)
        return max((one.value.epoch for one in outcomes.values() if isinstance(one, Replied)), default=0)

    async def tell(self, fence: Fence, report: Callable[[Event], None]) -> None:
        """Let all nodes know the epoch, this node first, and ask again those that do not reply; returns when all know.

        Args: report: is told when this node knows, and all others know or were silent; and again when one replies.
        """
        call = ClaimEpoch(fence.epoch, self._settings.cluster.own_name)
        own, *others = await self._nodes()
        if not await self._tell_own(own, call, fence.epoch, report):
            return
        silent, pauses = others, retry_pauses()
        is_first = True
        while is_first or silent:
            asked = silent
            limit_s = _FIRST_S if is_first else _ROUND_S
            outcomes = await self._client.call_nodes(asked, call, limit_s, even_paused=True)
            claimed = await self._judge(asked, outcomes, fence.epoch)
            silent = [node for node in asked if node.name in claimed.silent]
            if is_first or claimed.higher or len(silent) < len(asked):
                report(NodesTold(fence.epoch, higher=claimed.higher, silent=claimed.silent))
                count, names = len(asked) - len(silent) + 1, ",".join(claimed.silent)
                _log.info("epoch.told", epoch=fence.epoch, nodes=count, silent=names)
            if claimed.higher:
                return
            is_first = False
            if silent:
                await trio.sleep(next(pauses))

    async def _tell_own(self, own: NodeAddress, call: ClaimEpoch, epoch: int, report: Callable[[Event], None]) -> bool:
        """Tell this node's own daemon; false: it knows a higher epoch. The machine decides how long that may take."""
        pauses = retry_pauses()
        began_at = trio.current_time()
        while True:
            outcomes = await self._client.call_nodes([own], call, _ROUND_S, even_paused=True)
            outcome = outcomes[own.name]
            if isinstance(outcome, Replied):
                return True
            if higher := (await self._judge([own], outcomes, epoch)).higher:
                report(NodesTold(epoch, higher=higher))
                return False
            _log.warning("epoch.not_told", node=own.name, reason=outcome, going_on="again until it replies")
            report(OwnNodeSilent(epoch, trio.current_time() - began_at))
            await trio.sleep(next(pauses))

    async def _judge(self, asked: Sequence[NodeAddress], outcomes: Mapping[str, Outcome[None]], epoch: int) -> Claimed:
        """Asks those that have refused what they know."""
        granted = [name for name, outcome in outcomes.items() if isinstance(outcome, Replied)]
        refusing = [node for node in asked if _has_refused(outcomes[node.name])]
        told = await self._client.call_nodes(refusing, GetStanding(), _ROUND_S, even_paused=True) if refusing else {}
        standings = {name: one.value for name, one in told.items() if isinstance(one, Replied)}
        names = [node.name for node in asked]
        return judge_claims(names, granted, standings, epoch, self._settings.cluster.own_name)

    async def _nodes(self) -> Sequence[NodeAddress]:
        """All nodes, this one first."""
        ips = dict(await in_thread(node_ips, self._settings.paths))
        own_name, port = self._settings.cluster.own_name, self._settings.noded.port
        own_ip = ips.pop(own_name, None) or self._settings.noded.address or "127.0.0.1"
        return [NodeAddress(own_name, own_ip, port), *(NodeAddress(name, ip, port) for name, ip in ips.items())]


def _has_refused(outcome: Outcome[None]) -> bool:
    return isinstance(outcome, Failed) and outcome.kind in (FailureKind.REFUSED, FailureKind.OUTDATED)
