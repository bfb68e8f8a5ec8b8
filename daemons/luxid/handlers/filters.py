"""Set filter rules, and try which jobs they would apply to.

Source: luxid.md 6.1; filters design.
"""

import re
import time
import uuid as uuids
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Final

import attrs

from common.errors import InvalidRequest, NotFound
from common.ids import JobId
from common.objects.filter import FilterRule, asked_rule
from common.queue.filters import read_rule
from common.queue.jobs import JobState
from common.queue.reasons import ReasonEntry, http_entry, without_owner
from common.queue.ruleloads import RuleLoads
from common.system.log import get_log
from daemons.luxid.config import ConfigCache, FilterRuleSync
from daemons.luxid.core.filters.filtering import Trial
from daemons.luxid.core.filters.judging import Loads
from daemons.luxid.core.query.jobs import JobView
from daemons.luxid.files.store import Store
from daemons.luxid.handlers.queries import JobRows
from protocol.client import Client
from protocol.luxi.queue import DeleteFilter, ReadRuleLoads, ReplaceFilter, TryFilterRule
from protocol.messages import AnyRequest
from protocol.peer import Peer
from protocol.wconfd import changes

# seconds; longer than wconfd waits for an owner to release the configuration
PATIENCE_S: Final = 15.0
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
# UUID for a rule that has none yet: it is the first among rules of its priority and watermark
_NO_UUID: Final = "00000000-0000-0000-0000-000000000000"
_WAITING: Final = frozenset({JobState.QUEUED, JobState.WAITING})
_log: Final = get_log(__name__)


@attrs.frozen
class FilterHandlers:
    """The methods about filter rules."""

    _store: Store
    _jobs: JobRows
    _rules: FilterRuleSync
    _loads: Loads
    _config: ConfigCache
    # wconfd's socket
    _wconfd: Path

    async def replace_filter(self, call: ReplaceFilter, peer: Peer) -> str:
        """Durability: the rule is in the configuration; and in force here.

        Raises: InvalidRequest: it can never match, or is malformed. Unavailable: nothing is changed, or may be.
            RemoteError: the rule is another one than the condition says.
        """
        # chosen here, so that a call that is delivered twice makes one rule
        uuid = call.uuid or str(uuids.uuid4())
        rule = self._make_rule(call, uuid, call.reason_trail)
        trail = without_owner(rule.reason_trail)
        if peer.speaker is not None:
            trail = (*trail, http_entry(peer.speaker.name, time.time_ns()))
        trail = (*trail, ReasonEntry("luxid", "", time.time_ns()))
        await self._change(changes.ReplaceFilterRule.of(attrs.evolve(rule, reason_trail=trail), call.condition))
        _log.info("filter.replaced", rule=uuid, action=rule.action.to_wire(), **peer.named)
        await self._rules.refresh()
        return uuid

    async def delete_filter(self, call: DeleteFilter, peer: Peer) -> None:
        """Raises: NotFound: there is no such rule. Unavailable: nothing is changed, or may be.
        RemoteError: as `replace_filter`.
        """
        if call.uuid not in (await self._config.current()).config.filters:
            raise NotFound(f"there is no filter rule {call.uuid!r:.60}; list them with 'gnt-filter list'")
        await self._change(changes.DeleteFilterRule(call.uuid, call.condition))
        _log.info("filter.deleted", rule=call.uuid, **peer.named)
        await self._rules.refresh()

    async def try_filter_rule(self, call: TryFilterRule, peer: Peer) -> tuple[JobId, ...]:
        """Return the queued jobs to which the rule would apply.

        Raises: InvalidRequest: it can never match, or is malformed. ConfigurationMissing.
        Cost: linear in the jobs that are not archived; other tasks run in between.
        """
        rule = self._make_rule(call, call.uuid or _NO_UUID, ())
        trial = Trial.of(rule, (await self._config.current()).config.filters.values())
        found: list[JobId] = []
        async with aclosing(self._jobs.every(archived=False)) as batches:
            async for batch in batches:
                waiting = (row.job for row in batch if isinstance(row, JobView) and row.state in _WAITING)
                found += [job.job_id for job in waiting if trial.is_for(job)]
        return tuple(found)

    async def read_rule_loads(self, _: ReadRuleLoads, __: Peer) -> RuleLoads:
        """Cost: as `Loads`."""
        return self._loads.read()

    def _make_rule(self, call: ReplaceFilter | TryFilterRule, uuid: str, trail: Sequence[object]) -> FilterRule:
        """The rule as it would be set now.

        Raises: InvalidRequest: it can never match, or is malformed.
        """
        if call.uuid is not None and not _UUID.fullmatch(call.uuid):
            raise InvalidRequest(f"{call.uuid!r:.60} is not a UUID; write it in lower-case hex, 8-4-4-4-12")
        rule = asked_rule(call.action, call.predicates, priority=call.priority, reason_trail=trail, uuid=uuid)
        return read_rule(attrs.evolve(rule, watermark=self._store.serial))

    async def _change(self, call: AnyRequest) -> None:
        """Let wconfd make the change as soon as no other owner has the configuration.

        Over a connection of its own, because it may wait while others read the configuration.

        Raises: Unavailable: nothing is changed, or may be.
        """
        async with Client(self._wconfd, daemon="wconfd") as client:
            await client.call_retrying(call, PATIENCE_S)
