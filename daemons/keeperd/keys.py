"""What keeperd reads and writes in etcd."""

import time
from collections.abc import Callable, Collection, Sequence
from typing import Final, TypeVar

import attrs
import orjson
import trio

from common.errors import DamagedFile, GantryError
from common.lease.deadline import boottime
from common.lease.records import (
    FORMAT,
    AcceptedRestore,
    Change,
    EtcdKeys,
    Fence,
    LastMaster,
    Maintenance,
    MasterRecord,
    MemberRecord,
    OperatorReply,
    OperatorRequest,
    WantedKind,
    decode,
    encode,
)
from common.shapes import Lenient
from common.system.log import get_log
from common.system.shortages import retry_pauses
from common.wire import structure, unstructure
from daemons.keeperd.core.events import CampaignLost, CampaignWon
from daemons.keeperd.core.keeper import Keeper
from daemons.keeperd.core.states import State, View
from daemons.keeperd.identity import KeeperIdentity
from protocol.etcd.client import EtcdClient
from protocol.etcd.kv import (
    ComparedField,
    Delete,
    Equals,
    EtcdDenied,
    EtcdError,
    EtcdUnknown,
    Get,
    KeyValue,
    LeaseGone,
    LeaseId,
    Operation,
    Put,
    Transaction,
    TransactionReply,
)
from protocol.etcd.questions import Alarm

# This node's record among the members, under a lease of its own: what others see of it, and no proof of anything.
#
# Theory. The record's lease is not the master's, so writing it renews no mastership. A living keeperd of the same name
# on another machine is found by its nonce: then this one does not write over it.
#
# Source: lease.md 2.


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
        keys: EtcdKeys,
        identity: KeeperIdentity,
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
        outcome = await self._client.transact(Transaction([Equals(self._key, ComparedField.MODIFIED, revision)], [put]))
        if outcome.succeeded:
            self._written, self.has_looked = record, True

    async def _remove(self) -> None:
        if self._written is None:
            return
        try:
            found = await self._client.get(Get(self._key))
            for pair in found.values:
                if f'"{self._identity.nonce}"'.encode() in pair.value:
                    when = [Equals(self._key, ComparedField.MODIFIED, pair.mod_revision)]
                    await self._client.transact(Transaction(when, [Delete(self._key)]))
        except EtcdError as error:
            _log.info("member.not_removed", reason=error.message, effect="its lease runs out")


# One linear read of all that keeperd decides by.
#
# Source: lease.md 2 and 7.


T = TypeVar("T", bound=Lenient)


class ClusterViewer:
    """Args: own_nonces: of this keeperd, and of those that ran here before, whose records may still be there."""

    def __init__(
        self, client: EtcdClient, keys: EtcdKeys, identity: KeeperIdentity, own_nonces: Collection[str]
    ) -> None:
        self._client = client
        self._keys = keys
        self._identity = identity
        self._own_nonces = own_nonces
        # when etcd has replied last, by BOOTTIME; None: never
        self.heard_at: float | None = None
        # what etcd has raised
        self.alarms: Sequence[Alarm] = ()

    async def look(self, *, elsewhere: bool = False) -> View:
        """Read all of it at one revision. Raises: as `EtcdClient`.

        Args: elsewhere: at another member than the last time; some releases read from a paused member what is old.
        """
        if elsewhere:
            self._client.turn()
        keys, node = self._keys, self._identity.node
        single = (keys.master, keys.epoch, keys.last_master, keys.maintenance, keys.wanted, keys.accepted)
        marks = (keys.stale(node), keys.synced(node))
        gets = [*map(Get, single), *map(Get, marks), Get(keys.members, is_prefix=True)]
        outcome = await self._client.transact(Transaction((), gets))
        self.alarms = await self._alarms()
        self.heard_at = boottime()
        found = {pair.key: pair for pairs in outcome.found[:-1] for pair in pairs}
        members = self._members(outcome.found[-1])
        own = members.pop(node, None)
        master, epoch = found.get(keys.master), found.get(keys.epoch)
        return View(
            cluster_id=outcome.header.cluster_id,
            revision=outcome.header.revision,
            master=None if master is None else _master(master),
            master_revision=master.create_revision if master else 0,
            epoch=number_in(epoch),
            epoch_revision=epoch.mod_revision if epoch else 0,
            last_master=_record(found.get(keys.last_master), LastMaster),
            maintenance=_record(found.get(keys.maintenance), Maintenance),
            wanted=_record(found.get(keys.wanted), OperatorRequest),
            is_stale=keys.stale(node) in found,
            synced=number_in(found.get(keys.synced(node))),
            others=members,
            has_twin=own is not None and own.nonce not in self._own_nonces,
            accepted=_record(found.get(keys.accepted), AcceptedRestore),
            is_full=any(alarm.is_full for alarm in self.alarms),
        )

    async def _alarms(self) -> Sequence[Alarm]:
        """As they were, if they cannot be asked for: some users may not."""
        try:
            return await self._client.alarms()
        except EtcdDenied as error:
            _log.debug("alarms.unknown", reason=error.message)
            return self.alarms

    def _members(self, pairs: Sequence[KeyValue]) -> dict[str, MemberRecord]:
        records = (_record(pair, MemberRecord) for pair in pairs)
        return {record.node: record for record in records if record is not None}


def _master(pair: KeyValue) -> MasterRecord:
    record = _record(pair, MasterRecord)
    # not ours to judge: as one of a later release
    return record or MasterRecord(node="", nonce="", epoch=0, ttl_s=0.0, format=FORMAT + 1)


def _record(pair: KeyValue | None, kind: type[T]) -> T | None:
    if pair is None:
        return None
    try:
        return decode(pair.value, kind, pair.key)
    except DamagedFile as error:
        _log.error("key.damaged", key=pair.key, reason=error.message)
        return None


def number_in(pair: KeyValue | None) -> int:
    """The number that a key holds as text; 0: there is none."""
    if pair is None:
        return 0
    text = pair.value.strip()
    if text.isdigit():
        return int(text)
    _log.error("key.damaged", key=pair.key, value=text[:40])
    return 0


# The keys of the mastership: win them, mark them, give them back.
#
# Theory. A request that was not replied to may have been carried out. So whoever asks again reads, in the same
# transaction, what is there if it does not hold, and knows by the nonce whether his first try has won. He asks until it
# is known, or until the lease that he has asked for must have run out, and with it what he may have put.
#
# Source: lease.md 4 and 7.


_REVOKE_S: Final = 2.0


@attrs.frozen
class Campaigner:
    """What a campaign puts into the keys."""

    identity: KeeperIdentity
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
    def __init__(self, client: EtcdClient, keys: EtcdKeys, campaigner: Campaigner) -> None:
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
            Equals(self._keys.master, ComparedField.CREATED, 0),
            Equals(self._keys.epoch, ComparedField.MODIFIED, epoch_revision),
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

    def _fence(self, record: MasterRecord, lease: LeaseId, outcome: TransactionReply) -> Fence | None:
        """The mastership that is won; None: somebody else was quicker."""
        if outcome.succeeded:
            return Fence(record.epoch, outcome.header.revision, outcome.header.revision)
        pairs = {pair.key: pair for found in outcome.found for pair in found}
        master, epoch = pairs.get(self._keys.master), pairs.get(self._keys.epoch)
        found = _record(master, MasterRecord)
        if master is None or epoch is None or found is None:
            return None
        # a late transaction of an earlier campaign has put another lease, which nobody renews
        if master.lease != lease or (found.nonce, found.epoch) != (record.nonce, record.epoch):
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

    async def remove_wanted(self, wanted: OperatorRequest, refusal: str) -> None:
        """Remove an operator's request, if it is still this one, and say what became of it. Raises: EtcdError."""
        found = await self._client.get(Get(self._keys.wanted))
        for pair in found.values:
            if _record(pair, OperatorRequest) == wanted:
                when = [Equals(self._keys.wanted, ComparedField.MODIFIED, pair.mod_revision)]
                verdict = OperatorReply(nonce=wanted.nonce, refusal=refusal)
                then: list[Operation] = [Delete(self._keys.wanted), Put(self._keys.verdict, encode(verdict))]
                await self._client.transact(Transaction(when, then))

    async def accept(self, accepted: AcceptedRestore) -> None:
        """Take a restored etcd as it is, unless somebody else has changed epoch or acceptance. Raises: EtcdError."""
        outcome = await self._client.transact(Transaction((), [Get(self._keys.epoch), Get(self._keys.accepted)]))
        epoch, before = ((found[0] if found else None) for found in outcome.found)
        if number_in(epoch) >= accepted.epoch:
            return
        when = [
            Equals(self._keys.epoch, ComparedField.MODIFIED, epoch.mod_revision if epoch else 0),
            Equals(self._keys.accepted, ComparedField.MODIFIED, before.mod_revision if before else 0),
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
            Equals(self._keys.master, ComparedField.CREATED, fence.master_revision),
            Equals(self._keys.epoch, ComparedField.MODIFIED, fence.epoch_revision),
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

    async def _until_known(self, transaction: Transaction, until: float) -> TransactionReply:
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


# The last changes of the master, in etcd.
#
# Source: lease.md 2.


_MOST: Final = 100
# changes that wait for etcd; more have gone by meanwhile
_WAITING: Final = 10


class Chronicle:
    """Writes each mastership of this node down once it serves."""

    def __init__(self, client: EtcdClient, keys: EtcdKeys, node: str) -> None:
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
            Equals(self._keys.epoch, ComparedField.MODIFIED, fence.epoch_revision),
            Equals(self._keys.history, ComparedField.MODIFIED, found.values[0].mod_revision if found.values else 0),
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
    request, last = view.wanted, view.last_master
    if request is not None and request.node in ("", node):
        word = "switch-over" if request.kind is WantedKind.SWITCHOVER else "take-over"
        return f"{word}, asked by {request.by}" if request.by else word
    if last.node == node:
        return "it was the master before, and was stopped" if last.clean else "it was the master before, and failed"
    return f"{last.node} has given it up" if last.clean else f"{last.node} was silent"
