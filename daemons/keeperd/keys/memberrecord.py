"""This node's record among the members, under a lease of its own: what others see of it, and no proof of anything.

Theory. The record's lease is not the master's, so writing it renews no mastership. A living keeperd of the same name on
another machine is found by its nonce: then this one does not write over it.

Source: lease.md 2.
"""

import time
from collections.abc import Callable, Collection
from typing import Final

import attrs
import trio

from common.lease.keys import Keys
from common.lease.records import MemberRecord, encode
from common.system.log import get_log
from daemons.keeperd.identity import Identity
from protocol.etcd.client import EtcdClient
from protocol.etcd.errors import EtcdError, LeaseGone
from protocol.etcd.kv import Delete, Equals, Field, Get, LeaseId, Put, Transaction

# renewals within the life of a record, and its life in leases of a mastership
_RENEWALS: Final = 3
_LIVES: Final = 2
_END_S: Final = 1.0
_log: Final = get_log(__name__)


class Membership:
    """Args:
    describe: makes the record as it is now.
    own_nonces: of this keeperd, and of those that ran here before.
    """

    def __init__(
        self,
        client: EtcdClient,
        keys: Keys,
        identity: Identity,
        own_nonces: Collection[str],
        describe: Callable[[], MemberRecord],
        ttl_s: float,
    ) -> None:
        self._client = client
        self._key = keys.member(identity.node)
        self._identity = identity
        self._own_nonces = own_nonces
        self._describe = describe
        self._ttl_s = _LIVES * ttl_s
        self._lease: LeaseId = 0
        self._written: MemberRecord | None = None
        self._changed = trio.Event()
        self._told: str = ""
        # whether the record was written once, or was found to be a twin's
        self.has_looked = False

    def tell(self) -> None:
        """The record has changed."""
        self._changed.set()

    async def run(self) -> None:
        """Keep the record there until cancelled; then remove it."""
        try:
            while True:
                self._changed = trio.Event()
                try:
                    await self._renew()
                    self._told = ""
                except EtcdError as error:
                    self._lease, self._written = 0, None
                    if self._told != error.code:
                        self._told = error.code
                        _log.warning("member.not_told", reason=error.message, going_on="again until it succeeds")
                with trio.move_on_after(self._ttl_s / _RENEWALS):
                    await self._changed.wait()
        finally:
            with trio.CancelScope(shield=True), trio.move_on_after(_END_S):
                await self._remove()

    async def _renew(self) -> None:
        if self._lease:
            try:
                await self._client.renew(self._lease)
            except LeaseGone:
                self._lease, self._written = 0, None
        if not self._lease:
            self._lease = (await self._client.grant(int(self._ttl_s))).lease
        record = self._describe()
        if self._written is None or attrs.evolve(record, at=0.0) != attrs.evolve(self._written, at=0.0):
            await self._write(attrs.evolve(record, at=time.time()))

    async def _write(self, record: MemberRecord) -> None:
        found = await self._client.get(Get(self._key))
        revision = 0
        for pair in found.values:
            revision = pair.mod_revision
            if not any(f'"{nonce}"'.encode() in pair.value for nonce in self._own_nonces):
                _log.error("member.twin", node=self._identity.node, effect="this node does not take part")
                self.has_looked = True
                return
        put = Put(self._key, encode(record), self._lease)
        outcome = await self._client.transact(Transaction([Equals(self._key, Field.MODIFIED, revision)], [put]))
        if outcome.succeeded:
            self._written, self.has_looked = record, True

    async def _remove(self) -> None:
        if self._written is None:
            return
        try:
            found = await self._client.get(Get(self._key))
            for pair in found.values:
                if f'"{self._identity.nonce}"'.encode() in pair.value:
                    when = [Equals(self._key, Field.MODIFIED, pair.mod_revision)]
                    await self._client.transact(Transaction(when, [Delete(self._key)]))
        except EtcdError as error:
            _log.info("member.not_removed", reason=error.message, effect="its lease runs out")
