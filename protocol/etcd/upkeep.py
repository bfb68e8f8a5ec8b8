"""Keep etcd from filling up, and get it out of it: what the present master does now and then.

    upkeep = Upkeep(client)
    look = await upkeep.keep()         # once a minute, and when something was refused because etcd is full
    problems(look)                     # for operators (`protocol.etcd.upkeepplan`)

Source: lease.md 5; `protocol.etcd.upkeepplan` decides.
"""

from collections.abc import Sequence
from typing import Final, assert_never

import trio

from common.system.log import get_log
from protocol.etcd.address import Endpoint
from protocol.etcd.client import EtcdClient
from protocol.etcd.kv import EtcdDenied, EtcdError
from protocol.etcd.questions import Alarm, MemberStatus
from protocol.etcd.upkeepplan import Compact, Defragment, Disarm, MoveLeader, Step, StoreLook, next_step

# compaction and defragmentation of three members, and what leads there
_MOST_STEPS: Final = 20
# looks until what a step has caused is seen: that another member leads, or that space is free
_LOOKS: Final = 50
_PAUSE_S: Final = 0.1
# etcd counts space as free after its next commits, which come each tenth of a second
_FREEING_S: Final = 0.5
_log: Final = get_log(__name__)


class Upkeep:
    """Only one node should do this at a time; that several do it harms nothing but speed."""

    def __init__(self, client: EtcdClient) -> None:
        self._client = client
        # revision at the last time: watchers and readers of pages may still want what came after
        self._before = 0
        self._emptied: dict[Endpoint, int] = {}

    async def look(self) -> StoreLook:
        """Ask all members how they are. Members that do not reply are no error."""
        found: dict[Endpoint, MemberStatus] = {}
        silent: dict[Endpoint, str] = {}
        quotas: dict[Endpoint, int] = {}
        alarms: list[Alarm] = []

        async def ask(endpoint: Endpoint) -> None:
            try:
                found[endpoint] = await self._client.status(endpoint)
                quotas[endpoint] = found[endpoint].quota or await self._client.quota(endpoint)
            except EtcdError as error:
                # a member that keeps its quota to itself has replied nevertheless
                if endpoint not in found:
                    silent[endpoint] = error.message

        async def ask_alarms() -> None:
            try:
                alarms.extend(await self._client.alarms())
            except EtcdError as error:
                _log.info("etcd.alarms_unknown", reason=error.message)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask_alarms)
            for endpoint in self._client.endpoints:
                nursery.start_soon(ask, endpoint)
        # in the order of the settings
        ordered = {each: found[each] for each in self._client.endpoints if each in found}
        return StoreLook(ordered, silent, quotas, alarms)

    async def keep(self) -> StoreLook:
        """Do all that etcd needs now; return what was seen last.

        A step that fails is logged, and tried again the next time.
        Cancellation: between any two steps; a member may go on with its step.
        """
        look = await self.look()
        compact_to, self._before = self._before, look.revision
        done: list[Step] = []
        # revision before which this round has made etcd forget
        forgotten = 0
        while len(done) < _MOST_STEPS and (step := next_step(look, done, compact_to, self._emptied)) is not None:
            done.append(step)
            worked = await self._try(step, look)
            if worked and isinstance(step, Compact):
                forgotten = step.revision
            elif worked and isinstance(step, Defragment):
                self._emptied[step.endpoint] = forgotten
            if not isinstance(step, Compact) or look.is_full:
                look = await self._look_after(step)
        return look

    async def _try(self, step: Step, look: StoreLook) -> bool:
        """Whether it worked."""
        try:
            await self._carry_out(step, look)
        except EtcdDenied as error:
            _log.warning("etcd.upkeep_denied", step=step, reason=error.message, next="give its user the role root")
        except EtcdError as error:
            _log.warning("etcd.upkeep_failed", step=step, reason=error.message, next="tried again later")
        else:
            if not isinstance(step, Compact):
                _log.info("etcd.upkeep", step=step)
            return True
        return False

    async def _carry_out(self, step: Step, look: StoreLook) -> None:
        match step:
            case Compact(revision):
                await self._client.compact(revision)
                # one that lags behind would be defragmented in vain, and full etcd may see no change after which its
                # free space counts
                for endpoint in look.members if look.is_full else ():
                    await self._client.compact_at(endpoint, revision)
            case MoveLeader(leader, member_id):
                await self._client.move_leader(leader, member_id)
            case Defragment(endpoint):
                await self._client.defragment(endpoint)
            case Disarm(alarm):
                await self._client.disarm(alarm)
            case _:
                assert_never(step)

    async def _look_after(self, step: Step) -> StoreLook:
        """Look again, when what the step has caused can be seen."""
        if isinstance(step, Compact):
            await trio.sleep(_FREEING_S)
        look = await self.look()
        for _ in range(_LOOKS if isinstance(step, MoveLeader) else 0):
            if _agree(list(look.members.values())):
                break
            await trio.sleep(_PAUSE_S)
            look = await self.look()
        return look


def _agree(members: Sequence[MemberStatus]) -> bool:
    leaders = {each.leader for each in members}
    return len(leaders) == 1 and "" not in leaders
