"""What wconfd keeps for luxid and rapid: totals of resources, schedules, and sessions of the web page."""

import re
import secrets
from collections.abc import Callable
from typing import Final, TypeVar

import attrs
import trio

from common.access import Role
from common.conditions import Condition, check_condition
from common.errors import Conflict, Denied, InvalidRequest
from common.resources import Resource
from common.schedules.schedule import Schedule, settled
from common.system.log import get_log
from common.webaccess.sessions import KeptSession
from daemons.wconfd.core.keptrows import Rows
from daemons.wconfd.filestores import KeptStore
from protocol.peer import Peer
from protocol.serving.route import Publisher
from protocol.wconfd.config import (
    ChangeSessions,
    FollowSessions,
    PutSchedule,
    ReadResources,
    ReadSchedules,
    RemoveResourceTotal,
    RemoveSchedule,
    SessionsNow,
    SetResourceTotal,
    SettleRuns,
)
from protocol.wconfd.locks import KEPT_CHANGED, RESOURCES, SCHEDULES

T = TypeVar("T")

# as the uses of jobs name them (`common.queue.terms`)
_NAME: Final = re.compile(r"[a-z][a-z0-9._-]{0,62}", re.ASCII)
_NODE: Final = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9._-]{0,252})?", re.ASCII)
_TOTAL_END: Final = 2**63
_log: Final = get_log(__name__)


# The totals of resources and the schedules, as luxid reads and changes them; luxid has checked the schedules.
#
# Source: DESIGN section 16.


@attrs.frozen
class KeptHandlers:
    _resources: KeptStore[Resource]
    _schedules: KeptStore[Schedule]
    _publisher: Publisher

    async def read_resources(self, _: ReadResources, __: Peer) -> tuple[Resource, ...]:
        resources = (row.value for row in self._resources.state.values())
        return tuple(sorted(resources, key=lambda each: (each.node, each.name)))

    async def set_resource(self, call: SetResourceTotal, peer: Peer) -> None:
        resource = call.resource
        _check(resource)

        def step(rows: Rows[Resource]) -> tuple[Rows[Resource], bool]:
            had = rows.get(resource.key)
            is_so = had is not None and had.value == resource
            # a second delivery finds what it wants; but what had to be new is not
            if not is_so or (call.condition is not None and call.condition.is_there is False):
                _check_row(call.condition, resource.key, rows)
            if is_so:
                return rows, False
            return self._resources.with_value(rows, resource), True

        if await self._resources.change(step):
            _log.info("resource.set", resource=resource.key, total=resource.total, by=peer)
            self._publisher.publish(KEPT_CHANGED, RESOURCES)

    async def remove_resource(self, call: RemoveResourceTotal, peer: Peer) -> bool:
        key = Resource(call.node, call.name, 0).key
        is_gone = await _remove(self._resources, key, lambda rows: _check_row(call.condition, key, rows))
        if is_gone:
            _log.info("resource.removed", resource=key, by=peer)
            self._publisher.publish(KEPT_CHANGED, RESOURCES)
        return is_gone

    async def read_schedules(self, _: ReadSchedules, __: Peer) -> tuple[Schedule, ...]:
        return tuple(sorted((row.value for row in self._schedules.state.values()), key=lambda each: each.name))

    async def put_schedule(self, call: PutSchedule, peer: Peer) -> None:
        """A second delivery finds what it wants already there."""
        schedule = call.schedule

        def step(rows: Rows[Schedule]) -> tuple[Rows[Schedule], bool]:
            for row in rows.values():
                if row.value.name == schedule.name and row.value.uuid != schedule.uuid:
                    raise Conflict(f"there is a schedule '{schedule.name}' already; choose another name, or change it")
            had = rows.get(schedule.uuid)
            after = schedule if had is None else attrs.evolve(schedule, runs=had.value.runs)
            if had is not None and had.value == after:
                return rows, False
            return self._schedules.with_value(rows, after), True

        if await self._schedules.change(step):
            _log.info("schedule.put", schedule=schedule.name, uuid=schedule.uuid, by=peer)
            self._publisher.publish(KEPT_CHANGED, SCHEDULES)

    async def remove_schedule(self, call: RemoveSchedule, peer: Peer) -> bool:
        is_gone = await _remove(self._schedules, call.uuid)
        if is_gone:
            _log.info("schedule.removed", uuid=call.uuid, by=peer)
            self._publisher.publish(KEPT_CHANGED, SCHEDULES)
        return is_gone

    async def settle_runs(self, call: SettleRuns, _: Peer) -> None:
        """No event: luxid, which alone settles runs, knows of them."""

        def step(rows: Rows[Schedule]) -> tuple[Rows[Schedule], None]:
            for each in call.settlements:
                if (row := rows.get(each.uuid)) is None:
                    continue
                after = settled(row.value, each.run, each.settled_at)
                if after is not row.value:
                    rows = self._schedules.with_value(rows, after)
            return rows, None

        await self._schedules.change(step)


async def _remove(store: KeptStore[T], key: str, check: Callable[[Rows[T]], None] = lambda _: None) -> bool:
    """Remove a row; return whether there was one. Args: check: of the rows, before; raises if it is to stay."""

    def step(rows: Rows[T]) -> tuple[Rows[T], bool]:
        if key not in rows:
            return rows, False
        check(rows)
        return rows.delete(key), True

    return await store.change(step)


def _check_row(condition: Condition | None, key: str, rows: Rows[Resource]) -> None:
    """Raises: PreconditionFailed."""
    if condition is not None:
        row = rows.get(key)
        check_condition(condition, f"resource '{key}'", None if row is None else row.value.tag)


def _check(resource: Resource) -> None:
    if _NAME.fullmatch(resource.name) is None or _NODE.fullmatch(resource.node) is None:
        raise InvalidRequest(
            f"no resource can be named {resource.key!r:.80}; write NAME or NODE:NAME, with a NAME of 1 to 63 of a-z, "
            "0-9, '.', '_' and '-' that begins with a letter"
        )
    if not 0 <= resource.total < _TOTAL_END:
        raise InvalidRequest(f"the total of '{resource.key}' must be 0 to {_TOTAL_END - 1}, got {resource.total}")


# The sessions of the web page, as rapid notes and follows them.
#
# Source: DESIGN sections 15 and 16.


class SessionHandlers:
    """Args: gateway: rapid's user, if it has one of its own."""

    def __init__(self, store: KeptStore[KeptSession], gateway: int | None) -> None:
        self._store = store
        self._gateway = gateway
        # of the state that was told last; another run of this daemon has other stamps
        self._run = secrets.token_hex(8)
        self._changes = 0
        self._changed = trio.Event()

    async def follow_sessions(self, call: FollowSessions, peer: Peer) -> SessionsNow:
        """Raises: Denied."""
        self._check(peer)
        while call.known == self._stamp:
            await self._changed.wait()
        return SessionsNow(self._stamp, tuple(row.value for row in self._store.state.values()))

    async def change_sessions(self, call: ChangeSessions, peer: Peer) -> None:
        """Raises: Denied. Unavailable: the file could not be written; nothing has changed."""
        self._check(peer)

        def step(rows: Rows[KeptSession]) -> tuple[Rows[KeptSession], bool]:
            before = rows
            for session in call.noted:
                had = rows.get(session.key)
                if had is None or had.value != session:
                    rows = self._store.with_value(rows, session)
            for key in call.ended:
                if key in rows:
                    rows = rows.delete(key)
            return rows, rows is not before

        if await self._store.change(step):
            self._changes += 1
            self._changed.set()
            self._changed = trio.Event()

    @property
    def _stamp(self) -> str:
        return f"{self._run}-{self._changes}"

    def _check(self, peer: Peer) -> None:
        # whoever notes a session is whom it names
        if peer.role < Role.FULL and peer.uid != self._gateway:
            raise Denied("the sessions of the web page are for rapid alone")
