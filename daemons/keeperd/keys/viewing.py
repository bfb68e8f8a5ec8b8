"""One linear read of all that keeperd decides by.

Source: lease.md 2 and 7.
"""

from collections.abc import Collection, Sequence
from typing import Final, TypeVar

from common.errors import DamagedFile
from common.lease.deadline import boottime
from common.lease.keys import Keys
from common.lease.records import FORMAT, Accepted, LastMaster, Maintenance, MasterRecord, MemberRecord, Wanted, decode
from common.shapes import Lenient
from common.system.log import get_log
from daemons.keeperd.core.states import View
from daemons.keeperd.identity import Identity
from protocol.etcd.client import EtcdClient
from protocol.etcd.errors import EtcdDenied
from protocol.etcd.kv import Get, KeyValue, Transaction
from protocol.etcd.maintenance import Alarm

T = TypeVar("T", bound=Lenient)
_log: Final = get_log(__name__)


class Viewer:
    """Args: own_nonces: of this keeperd, and of those that ran here before, whose records may still be there."""

    def __init__(self, client: EtcdClient, keys: Keys, identity: Identity, own_nonces: Collection[str]) -> None:
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
            wanted=_record(found.get(keys.wanted), Wanted),
            is_stale=keys.stale(node) in found,
            synced=number_in(found.get(keys.synced(node))),
            others=members,
            has_twin=own is not None and own.nonce not in self._own_nonces,
            accepted=_record(found.get(keys.accepted), Accepted),
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
