"""The transactions of one daemon under one mastership, one after the other, each with its effect known.

Source: DESIGN section 14; `protocol.etcd.fencing`.
"""

import secrets
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import trio

from common.errors import Unavailable
from common.lease.changes import (
    KeyChange,
    Pointer,
    decode_list,
    decode_stored,
    folder_of,
    is_large,
    pack,
    part_key,
    stored,
)
from common.lease.deadline import Deadline, boottime
from common.lease.records import EtcdKeys, Fence
from common.replica.replica import NoLongerMaster
from common.system.log import get_log
from protocol.etcd.fencing import Committed, FenceClosed, FencedWriter, LiveParts, SequenceMoved
from protocol.etcd.kv import (
    Compacted,
    EtcdError,
    EtcdFull,
    Get,
    GetReply,
    KeyValue,
    TooLarge,
    Transaction,
    TransactionReply,
)

# Send a transaction to etcd until it is known what has become of it, or this node's own deadline has passed.
#
# Source: DESIGN section 14; lease.md 7.


# seconds; pauses after tries that told nothing
_PAUSES_S: Final[Sequence[float]] = (0.02, 0.1, 0.3, 1.0)
# seconds; a try takes a round of all members, then users are told that etcd is silent
_TRY_S: Final = 3.0
_log: Final = get_log(__name__)


class Etcd(Protocol):
    """What is asked of `protocol.etcd.client.EtcdClient`."""

    async def get(self, asked: Get, limit_s: float | None = None) -> GetReply: ...

    async def transact(self, transaction: Transaction, limit_s: float | None = None) -> TransactionReply: ...


class UntilKnown:
    """Asks etcd for a daemon of the master.

    Raises, all methods:
        NoLongerMaster: the deadline has passed. What was sent may have had its effect.
    """

    def __init__(self, client: Etcd, deadline: Deadline) -> None:
        self._client = client
        self._deadline = deadline
        # by `boottime`; since when no reply has decided anything; None: the last one has
        self.silent_since_s: float | None = None
        # tries after the first one of a request
        self.retries = 0

    async def transact(self, transaction: Transaction) -> TransactionReply:
        """Raises:
        EtcdFull: etcd refuses what needs space; an earlier try may have had its effect.
        TooLarge: nothing was carried out.
        """
        tries = 0
        while True:
            try:
                outcome = await self._client.transact(transaction, min(self._left_s(), _TRY_S))
            except (EtcdFull, TooLarge):
                self._heard()
                raise
            except (EtcdError, Unavailable) as error:
                await self._pause(tries, error)
                tries += 1
                continue
            self._heard()
            # a reply that came too late is none: from then on nothing is written here either
            self._left_s()
            return outcome

    async def get(self, asked: Get, since: int = 0) -> GetReply:
        """Read.

        Args: since: a reply of a member that does not know this revision yet is none.
        Raises: Compacted.
        """
        tries = 0
        while True:
            try:
                found = await self._client.get(asked, min(self._left_s(), _TRY_S))
                if found.header.revision >= since:
                    self._heard()
                    return found
                error: Exception = Unavailable(f"a member of etcd is at revision {found.header.revision} of {since}")
            except Compacted:
                raise
            except (EtcdError, Unavailable) as failure:
                error = failure
            await self._pause(tries, error)
            tries += 1

    def _left_s(self) -> float:
        left_s = self._deadline.until_s - boottime()
        if left_s <= 0:
            raise NoLongerMaster(
                "this node's own deadline has passed: its lease could not be renewed in time, so another node may have "
                "become the master"
            )
        return left_s

    async def _pause(self, tries: int, error: Exception) -> None:
        self.retries += 1
        if self.silent_since_s is None:
            self.silent_since_s = boottime()
            _log.warning("etcd.unknown", error=error, effect="the same request is sent until its outcome is known")
        await trio.sleep(min(_PAUSES_S[min(tries, len(_PAUSES_S) - 1)], max(0.0, self._left_s())))

    def _heard(self) -> None:
        if self.silent_since_s is not None:
            _log.info("etcd.known", waited_s=round(boottime() - self.silent_since_s, 1))
        self.silent_since_s = None


# Find the parts that a daemon has left in etcd under earlier masterships, or before it died.
#
# Source: `common.lease.changes`.


_PAGE: Final = 1000
_MOST_GETS: Final = 100


async def find_parts(etcd: UntilKnown, parts: str, live: LiveParts) -> None:
    """Tell `live` of all folders of parts. While nobody writes any; one request if there are none.

    Args: parts: the beginning of the keys of the daemon's parts.
    Raises: DamagedFile; NoLongerMaster.
    """
    for folder in await _folders(etcd, parts):
        listed = (await etcd.get(Get(part_key(folder, 0)))).values
        keys = decode_list(listed[0].key, listed[0].value) if listed else []
        found = await _read(etcd, keys)
        live.found(folder, [(each.key, each.mod_revision) for each in found if _points_to(each, folder)])


async def _folders(etcd: UntilKnown, parts: str) -> Sequence[str]:
    folders: dict[str, None] = {}
    after = ""
    while True:
        found: GetReply = await etcd.get(Get(parts, is_prefix=True, keys_only=True, limit=_PAGE, after=after))
        folders.update(dict.fromkeys(folder_of(each.key) for each in found.values))
        if not found.more:
            return list(folders)
        after = found.values[-1].key


async def _read(etcd: UntilKnown, keys: Sequence[str]) -> Sequence[KeyValue]:
    values: list[KeyValue] = []
    for at in range(0, len(keys), _MOST_GETS):
        outcome = await etcd.transact(Transaction([], [Get(key) for key in keys[at : at + _MOST_GETS]]))
        values += [each for found in outcome.found for each in found]
    return values


def _points_to(each: KeyValue, folder: str) -> bool:
    found = decode_stored(each.key, each.value)
    return isinstance(found, Pointer) and found.folder == folder


# folders of parts that one transaction removes
_MOST_FOLDERS: Final = 100


class FencedSequence:
    """Sends changes; one caller at a time. `forget` may be called at any time.

    Raises, all methods:
        NoLongerMaster: the fence has refused it, another process writes under this name, or the deadline has passed.
    """

    def __init__(self, etcd: UntilKnown, keys: EtcdKeys, fence: Fence, name: str) -> None:
        self._etcd = etcd
        self._writer = FencedWriter(keys, fence, name)
        self._parts = keys.parts_of(name)
        self._nonce = secrets.token_hex(8)
        # of the last transaction of this process
        self._number = 0
        # at which the sequence stands; 0: there is none
        self._at = 0
        # of etcd, at which the last change was committed, or the sequence was claimed
        self.revision = 0
        self._live = LiveParts()

    async def claim(self) -> None:
        """Let nothing of an earlier process of this name have an effect any more; find what it left behind.

        Raises: DamagedFile: parts in etcd are not ours.
        """
        token = self._token()
        while True:
            found = await self._etcd.get(Get(self._writer.sequence))
            after = found.values[0].mod_revision if found.values else 0
            try:
                verdict = await self._send(self._writer.claim(after, token), token)
            except EtcdFull as full:
                await self._settle(after, token, full, is_claim=True)
                self.revision = max(found.header.revision, self._at)
                break
            if isinstance(verdict, Committed):
                self._at = self.revision = verdict.revision
                break
        await find_parts(self._etcd, self._parts, self._live)

    async def put(self, changes: Sequence[KeyChange]) -> int:
        """Commit a change, merged before; return its revision.

        Raises: EtcdFull, TooLarge: it has had no effect.
        """
        token = self._token()
        if is_large(changes):
            return await self._put_large(changes, token)
        revision = await self._move(stored(changes), token)
        self._live.replaced(change.key for change in changes)
        return revision

    async def forget(self, revisions: Mapping[str, int]) -> None:
        """Remove those of at most 100 keys whose revisions are these. Raises: EtcdError: etcd refuses it."""
        await self._send(self._writer.forget(revisions))
        self._live.forgotten(revisions.items())

    @property
    def has_garbage(self) -> bool:
        return self._live.has_garbage

    async def clear_garbage(self) -> None:
        """Remove parts that nothing points to. Cancellation: some stay until the daemon is started again."""
        while self._live.has_garbage:
            await self._send(self._writer.clear(self._live.take_garbage(_MOST_FOLDERS)))

    async def _put_large(self, changes: Sequence[KeyChange], token: str) -> int:
        packed = pack(changes, f"{self._parts}{token}/")
        try:
            for part in packed.parts:
                verdict = await self._send(self._writer.part(part, self._at))
                if isinstance(verdict, SequenceMoved):
                    raise self._foreign(verdict)
            revision = await self._move(packed.last, token)
        except (EtcdFull, TooLarge):
            self._live.found(packed.folder, [])
            raise
        self._live.replaced(change.key for change in changes)
        self._live.found(packed.folder, [(key, revision) for key in packed.pointing])
        return revision

    async def _move(self, changes: Sequence[KeyChange], token: str) -> int:
        while True:
            try:
                verdict = await self._send(self._writer.commit(changes, self._at, token), token)
            except EtcdFull as full:
                return await self._settle(self._at, token, full)
            if isinstance(verdict, Committed):
                self._at = self.revision = verdict.revision
                return verdict.revision
            if not verdict.token.startswith(self._nonce):
                raise self._foreign(verdict)
            # sent while etcd was full and the sequence had been removed already: nothing could keep it from arriving
            _log.warning("commits.late", transaction=verdict.token, revision=verdict.revision)
            self._at = verdict.revision

    async def _settle(self, after: int, token: str, full: EtcdFull, *, is_claim: bool = False) -> int:
        """After a refusal for want of space: let no earlier try of the transaction have its effect any more.

        Returns the revision if one has had it. Raises: `full`: none has, unless it is for a claim.
        """
        if after:
            outcome = await self._etcd.transact(self._writer.settle(after))
            verdict = self._judge(outcome, token)
            if not outcome.succeeded and isinstance(verdict, Committed):
                self._at = self.revision = verdict.revision
                return verdict.revision
            if isinstance(verdict, SequenceMoved) and verdict.revision:
                raise self._foreign(verdict)
        self._at = 0
        if is_claim:
            return 0
        raise full

    async def _send(self, transaction: Transaction, token: str = "") -> Committed | SequenceMoved:
        return self._judge(await self._etcd.transact(transaction), token)

    def _judge(self, outcome: TransactionReply, token: str) -> Committed | SequenceMoved:
        verdict = self._writer.judge(outcome, token)
        if isinstance(verdict, FenceClosed):
            raise NoLongerMaster(f"etcd has refused a write: {verdict.why}")
        return verdict

    def _foreign(self, moved: SequenceMoved) -> NoLongerMaster:
        return NoLongerMaster(
            f"another process writes to etcd as '{self._writer.name}' under this mastership (its transaction "
            f"'{moved.token}', revision {moved.revision})"
        )

    def _token(self) -> str:
        self._number += 1
        return f"{self._nonce}-{self._number}"
