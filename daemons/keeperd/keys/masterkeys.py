"""The keys of the mastership: win them, mark them, give them back.

Theory. A request that was not replied to may have been carried out. So whoever asks again reads, in the same
transaction, what is there if it does not hold, and knows by the nonce whether his first try has won. He asks until it
is known, or until the lease that he has asked for must have run out, and with it what he may have put.

Source: lease.md 4 and 7.
"""

from typing import Final

import attrs
import trio

from common.errors import DamagedFile
from common.lease.deadline import boottime
from common.lease.fence import Fence
from common.lease.keys import Keys
from common.lease.records import Accepted, LastMaster, MasterRecord, Verdict, Wanted, decode, encode
from common.system.log import get_log
from common.system.retrypauses import retry_pauses
from daemons.keeperd.core.events import CampaignLost, CampaignWon
from daemons.keeperd.identity import Identity
from daemons.keeperd.keys.viewing import number_in
from protocol.etcd.client import EtcdClient
from protocol.etcd.errors import EtcdError, EtcdUnknown, LeaseGone
from protocol.etcd.kv import Delete, Equals, Field, Get, KeyValue, LeaseId, Operation, Outcome, Put, Transaction

_REVOKE_S: Final = 2.0
_log: Final = get_log(__name__)


@attrs.frozen
class Campaigner:
    """What a campaign puts into the keys."""

    identity: Identity
    # seconds
    ttl_s: float
    watchdog_s: float


@attrs.frozen
class Won:
    """A mastership that this process has won."""

    event: CampaignWon
    lease: LeaseId

    @property
    def fence(self) -> Fence:
        return self.event.fence


class MasterKeys:
    def __init__(self, client: EtcdClient, keys: Keys, campaigner: Campaigner) -> None:
        self._client = client
        self._keys = keys
        self._by = campaigner

    async def campaign(self, above: int, epoch_revision: int) -> Won | CampaignLost:
        """Try to become the master with the epoch after this one.

        Args: epoch_revision: modification revision of the key `epoch` when it was decided; 0: there was none.
        """
        sent_at = boottime()
        try:
            granted = await self._client.grant(int(self._by.ttl_s))
        except EtcdError as error:
            return CampaignLost(error.message)
        identity = self._by.identity
        record = MasterRecord(
            node=identity.node,
            nonce=identity.nonce,
            epoch=above + 1,
            ttl_s=granted.ttl_s,
            watchdog_s=self._by.watchdog_s,
        )
        when = [
            Equals(self._keys.master, Field.CREATED, 0),
            Equals(self._keys.epoch, Field.MODIFIED, epoch_revision),
        ]
        puts = [
            Put(self._keys.master, encode(record), granted.lease),
            Put(self._keys.epoch, str(record.epoch).encode()),
            Put(self._keys.last_master, encode(self._last(record, is_clean=False))),
        ]
        asked = Transaction(when, puts, [Get(self._keys.master), Get(self._keys.epoch)])
        try:
            fence = self._fence(record, granted.lease, await self._until_known(asked, sent_at + granted.ttl_s))
        except EtcdError as error:
            await self._revoke(granted.lease)
            return CampaignLost(error.message)
        if fence is None:
            await self._revoke(granted.lease)
            return CampaignLost()
        return Won(CampaignWon(fence, record, sent_at), granted.lease)

    def _fence(self, record: MasterRecord, lease: LeaseId, outcome: Outcome) -> Fence | None:
        """The mastership that is won; None: somebody else was quicker."""
        if outcome.succeeded:
            return Fence(record.epoch, outcome.header.revision, outcome.header.revision)
        pairs = {pair.key: pair for found in outcome.found for pair in found}
        master, epoch = pairs.get(self._keys.master), pairs.get(self._keys.epoch)
        # a late transaction of an earlier campaign has put another lease, which nobody renews
        if master is None or epoch is None or master.lease != lease or not _is_of(master, record):
            return None
        return Fence(record.epoch, master.create_revision, epoch.mod_revision)

    async def release(self, won: Won, *, is_clean: bool) -> None:
        """Remove the key of the master, if it is still that of this mastership, and its lease. Never raises."""
        record = won.event.record
        removal: list[Operation] = [Delete(self._keys.master)]
        if is_clean:
            removal.append(Put(self._keys.last_master, encode(self._last(record, is_clean=True))))
        try:
            await self._until_known(Transaction(self._when(won.fence), removal), boottime() + record.ttl_s)
        except EtcdError as error:
            _log.warning("master.not_released", epoch=record.epoch, reason=error.message, effect="its lease runs out")
        await self._revoke(won.lease)

    async def mark_leaving(self, won: Won, node: str) -> bool:
        """Note in the key for whom it is going to be free; return whether it is still ours. Raises: EtcdError."""
        record = attrs.evolve(won.event.record, leaving_for=node)
        put = Put(self._keys.master, encode(record), won.lease)
        outcome = await self._until_known(Transaction(self._when(won.fence), [put]), boottime() + record.ttl_s)
        return outcome.succeeded

    async def remove_wanted(self, wanted: Wanted, refusal: str) -> None:
        """Remove an operator's wish, if it is still this one, and say what became of it. Raises: EtcdError."""
        found = await self._client.get(Get(self._keys.wanted))
        for pair in found.values:
            if _decoded_wanted(pair) == wanted:
                when = [Equals(self._keys.wanted, Field.MODIFIED, pair.mod_revision)]
                verdict = Verdict(nonce=wanted.nonce, refusal=refusal)
                then: list[Operation] = [Delete(self._keys.wanted), Put(self._keys.verdict, encode(verdict))]
                await self._client.transact(Transaction(when, then))

    async def accept(self, accepted: Accepted) -> None:
        """Take a restored etcd as it is, unless somebody else has changed epoch or acceptance. Raises: EtcdError."""
        outcome = await self._client.transact(Transaction((), [Get(self._keys.epoch), Get(self._keys.accepted)]))
        epoch, before = ((found[0] if found else None) for found in outcome.found)
        if number_in(epoch) >= accepted.epoch:
            return
        when = [
            Equals(self._keys.epoch, Field.MODIFIED, epoch.mod_revision if epoch else 0),
            Equals(self._keys.accepted, Field.MODIFIED, before.mod_revision if before else 0),
        ]
        puts: list[Operation] = [
            Delete(self._keys.master),
            # restored with the rest; its files are those that count now
            Delete(self._keys.stale(accepted.node)),
            Put(self._keys.epoch, str(accepted.epoch).encode()),
            Put(self._keys.accepted, encode(accepted)),
        ]
        await self._client.transact(Transaction(when, puts))

    def _when(self, fence: Fence) -> list[Equals]:
        return [
            Equals(self._keys.master, Field.CREATED, fence.master_revision),
            Equals(self._keys.epoch, Field.MODIFIED, fence.epoch_revision),
        ]

    def _last(self, record: MasterRecord, *, is_clean: bool) -> LastMaster:
        return LastMaster(
            node=record.node,
            epoch=record.epoch,
            boot_id=self._by.identity.boot_id,
            ttl_s=record.ttl_s,
            watchdog_s=record.watchdog_s,
            clean=is_clean,
        )

    async def _until_known(self, transaction: Transaction, until: float) -> Outcome:
        """Raises: EtcdUnknown: it is not known at this time, by `boottime`. EtcdError: a certain refusal."""
        pauses = retry_pauses()
        while True:
            try:
                return await self._client.transact(transaction)
            except EtcdUnknown:
                if boottime() >= until:
                    raise
            await trio.sleep(next(pauses))

    async def _revoke(self, lease: LeaseId) -> None:
        try:
            await self._client.revoke(lease, _REVOKE_S)
        except LeaseGone:
            pass
        except EtcdError as error:
            _log.info("lease.not_revoked", reason=error.message, effect="it runs out")


def _is_of(pair: KeyValue, record: MasterRecord) -> bool:
    try:
        found = decode(pair.value, MasterRecord, pair.key)
    except DamagedFile:
        return False
    return found.nonce == record.nonce and found.epoch == record.epoch


def _decoded_wanted(pair: KeyValue) -> Wanted | None:
    try:
        return decode(pair.value, Wanted, pair.key)
    except DamagedFile:
        return None
