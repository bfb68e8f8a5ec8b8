"""Forget in etcd what all candidates have of the configuration.

Theory. Changes are kept in etcd only as long as a candidate may lack them, so that etcd stays small. A candidate has a
change when it has acknowledged the file with it. One that was away too long is marked as stale by luxid and holds
nothing back; it may not become the master before it is complete again. The serial number up to which all others have
the file is noted in etcd before changes are forgotten: a copy below it is incomplete for ever, and no wconfd starts
from it.

Source: DESIGN section 14.
"""

from typing import Final, Protocol

import attrs
import trio

from common.errors import Unavailable
from common.lease.keys import Keys
from common.replication import NoLongerMaster
from common.system.log import get_log
from daemons.wconfd.lease.clusterfiles import ClusterFiles
from protocol.etcd.kv import Found, Get

# pause after each round, so that changes in a row are forgotten together
_TOGETHER_S: Final = 1.0
# pause while candidates lag: one of them may be marked as stale meanwhile, by another daemon
_LAGGING_S: Final = 30.0
_log: Final = get_log(__name__)


class Copied(Protocol):
    """What is asked of `NodesDistribution`."""

    def copied_serial(self, without: frozenset[str]) -> int | None: ...

    @property
    def lagging(self) -> frozenset[str]: ...

    @property
    def progress(self) -> trio.Event: ...


class Reader(Protocol):
    """What is asked of `protocol.etcd.client.EtcdClient`."""

    async def get(self, asked: Get, limit_s: float | None = None) -> Found: ...


@attrs.define
class Forgetting:
    _cluster: ClusterFiles
    _nodes: Copied
    _etcd: Reader
    _keys: Keys
    # text of the last failure that was logged
    _told: str = ""

    async def run(self) -> None:
        """Forget, until cancelled. Raises: NoLongerMaster."""
        while True:
            progress = self._nodes.progress
            try:
                await self._forget()
                self._told = ""
            except NoLongerMaster:
                raise
            except Unavailable as error:
                if error.message != self._told:
                    self._told = error.message
                    _log.warning("changes.not_forgotten", reason=error, effect="they stay in etcd until it succeeds")
            with trio.move_on_after(_LAGGING_S if len(self._cluster.uncopied) else float("inf")):
                await progress.wait()
            await trio.sleep(_TOGETHER_S)

    async def _forget(self) -> None:
        if not len(self._cluster.uncopied):
            return
        lagging = self._nodes.lagging
        serial_no = self._nodes.copied_serial(await self._stale() if lagging else frozenset())
        if serial_no is not None:
            await self._cluster.forget(serial_no)

    async def _stale(self) -> frozenset[str]:
        """The candidates that hold nothing back, by name. Raises: Unavailable."""
        found = await self._etcd.get(Get(self._keys.stales, is_prefix=True, keys_only=True))
        return frozenset(each.key.removeprefix(self._keys.stales) for each in found.values)
