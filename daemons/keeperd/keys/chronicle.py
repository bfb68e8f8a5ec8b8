"""The last changes of the master, in etcd.

Source: lease.md 2.
"""

import time
from collections.abc import Sequence
from typing import Final

import orjson
import trio

from common.errors import GantryError
from common.lease.fence import Fence
from common.lease.keys import Keys
from common.lease.records import Change, WantedKind
from common.system.log import get_log
from common.system.retrypauses import retry_pauses
from common.wire import structure, unstructure
from daemons.keeperd.core.keeper import Keeper
from daemons.keeperd.core.states import State, View
from protocol.etcd.client import EtcdClient
from protocol.etcd.errors import EtcdError
from protocol.etcd.kv import Equals, Field, Get, KeyValue, Put, Transaction

_MOST: Final = 100
# changes that wait for etcd; more have gone by meanwhile
_WAITING: Final = 10
_log: Final = get_log(__name__)


class Chronicle:
    """Writes each mastership of this node down once it serves."""

    def __init__(self, client: EtcdClient, keys: Keys, node: str) -> None:
        self._client = client
        self._keys = keys
        self._node = node
        self._cause = ""
        self._sender, self._changes = trio.open_memory_channel[tuple[Fence, Change]](_WAITING)
        self._state = State.OFF

    def hear(self, keeper: Keeper) -> None:
        """Take in the next state of keeperd."""
        before, self._state = self._state, keeper.state
        if keeper.state is State.TAKING and before is not State.TAKING:
            # the view is still the one before this mastership
            self._cause = _cause(keeper.view, self._node)
        elif keeper.state is State.MASTER and before is State.TAKING and keeper.held is not None:
            change = Change(at=time.time(), epoch=keeper.held.epoch, node=self._node, cause=self._cause)
            try:
                self._sender.send_nowait((keeper.held.fence, change))
            except trio.WouldBlock:
                _log.info("history.not_written", epoch=change.epoch, reason="earlier changes wait for etcd")

    async def run(self) -> None:
        """Write for ever; what etcd does not take is left out after some tries."""
        async for fence, change in self._changes:
            for pause_s, _ in zip(retry_pauses(), range(_WAITING), strict=False):
                try:
                    await self._write(fence, change)
                    break
                except EtcdError as error:
                    _log.info("history.not_written", epoch=change.epoch, reason=error.message)
                await trio.sleep(pause_s)

    async def read(self) -> Sequence[Change]:
        """Oldest first. Raises: as `EtcdClient`."""
        found = await self._client.get(Get(self._keys.history))
        return _read(found.values)

    async def _write(self, fence: Fence, change: Change) -> None:
        found = await self._client.get(Get(self._keys.history))
        before = _read(found.values)
        if any(each.epoch == change.epoch for each in before):
            return
        when = [
            Equals(self._keys.epoch, Field.MODIFIED, fence.epoch_revision),
            Equals(self._keys.history, Field.MODIFIED, found.values[0].mod_revision if found.values else 0),
        ]
        content = orjson.dumps(unstructure([*before, change][-_MOST:]))
        await self._client.transact(Transaction(when, [Put(self._keys.history, content)]))


def _read(values: Sequence[KeyValue]) -> list[Change]:
    try:
        return [each for pair in values for each in structure(orjson.loads(pair.value), list[Change], pair.key)]
    except (orjson.JSONDecodeError, GantryError) as error:
        _log.error("key.damaged", key=values[0].key, reason=error)
        return []


def _cause(view: View | None, node: str) -> str:
    """Why this node has become the master, by what was there before."""
    if view is None or view.last_master is None:
        return "the first master"
    wish, last = view.wanted, view.last_master
    if wish is not None and wish.node in ("", node):
        word = "switch-over" if wish.kind is WantedKind.SWITCHOVER else "take-over"
        return f"{word}, asked by {wish.by}" if wish.by else word
    if last.node == node:
        return "it was the master before, and was stopped" if last.clean else "it was the master before, and failed"
    return f"{last.node} has given it up" if last.clean else f"{last.node} was silent"
