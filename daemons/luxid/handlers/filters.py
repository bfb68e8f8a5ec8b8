"""Setting filter rules.

Source: luxid.md 6.1; filters design.
"""

import re
import time
import uuid as uuids
from pathlib import Path
from typing import Any, Final

import attrs

from common.errors import InvalidRequest, NotFound
from common.objects.filter import FilterRule
from common.queue.filters import check_parts, read_rule
from common.queue.reasons import ReasonEntry
from common.system.log import get_log
from daemons.luxid.configcache import ConfigCache
from daemons.luxid.filterrules import FilterRules
from daemons.luxid.scheduler import Scheduler
from protocol.client import Client
from protocol.luxi.filters import DeleteFilter, ReplaceFilter
from protocol.messages import Request
from protocol.peer import Peer
from protocol.wconfd import changes

# longer than wconfd waits for somebody to give back the configuration
PATIENCE_S: Final = 15.0
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_log: Final = get_log(__name__)


@attrs.frozen
class Filters:
    """The methods about filter rules."""

    _scheduler: Scheduler
    _rules: FilterRules
    _config: ConfigCache
    # wconfd's socket
    _wconfd: Path

    async def replace_filter(self, call: ReplaceFilter, peer: Peer) -> str:
        """Durability: the rule is in the configuration; and in force here.

        Raises: InvalidRequest: it can never match, or is none. Unavailable: nothing is changed, or may be.
        """
        if call.uuid is not None and not _UUID.fullmatch(call.uuid):
            raise InvalidRequest(f"{call.uuid!r:.60} is no UUID; write it in lower-case hex, 8-4-4-4-12")
        # chosen here: a call that is delivered twice makes one rule
        uuid = call.uuid or str(uuids.uuid4())
        rule = read_rule(self._make_rule(call, uuid))
        wire = changes.ReplaceFilter(
            uuid, rule.priority, rule.predicates, rule.action, rule.reason_trail, rule.watermark
        )
        await self._change(wire)
        _log.info("filter.replaced", rule=uuid, action=rule.action, uid=peer.uid, client_pid=peer.pid)
        await self._rules.refresh()
        return uuid

    async def delete_filter(self, call: DeleteFilter, peer: Peer) -> None:
        """Raises: NotFound: there is no such rule. Unavailable: nothing is changed, or may be."""
        if call.uuid not in (await self._config.current()).config.filters:
            raise NotFound(f"there is no filter rule {call.uuid!r:.60}; list them with 'gnt-filter list'")
        await self._change(changes.DeleteFilter(call.uuid))
        _log.info("filter.deleted", rule=call.uuid, uid=peer.uid, client_pid=peer.pid)
        await self._rules.refresh()

    def _make_rule(self, call: ReplaceFilter, uuid: str) -> FilterRule:
        action = check_parts(call.priority, call.predicates, call.action).to_wire()
        now = ReasonEntry("luxid", "", time.time_ns())
        return FilterRule(
            watermark=self._scheduler.store.serial,
            priority=call.priority,
            predicates=call.predicates,
            action=action,
            reason_trail=(*(ReasonEntry.from_wire(entry) for entry in call.reason_trail), now),
            uuid=uuid,
        )

    async def _change(self, call: Request[Any]) -> None:
        """Let wconfd make the change as soon as nobody else has the configuration.

        Over a connection of its own: it may wait, and others read the configuration meanwhile.

        Raises: Unavailable: nothing is changed, or may be.
        """
        async with Client(self._wconfd, daemon="wconfd") as client:
            await client.call_retrying(call, PATIENCE_S)
