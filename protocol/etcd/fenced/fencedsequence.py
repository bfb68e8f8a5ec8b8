"""The transactions of one daemon under one mastership, one after the other, each with its effect known.

Source: DESIGN section 14; protocol/etcd/fenced/fencing.py.
"""

import secrets
from collections.abc import Mapping, Sequence
from typing import Final

from common.lease.dirty import Change
from common.lease.fence import Fence
from common.lease.keys import Keys
from common.lease.packing import is_large, pack, stored
from common.replication import NoLongerMaster
from common.system.log import get_log
from protocol.etcd.errors import EtcdFull, TooLarge
from protocol.etcd.fenced.fencing import Committed, FencedWriter, Moved, Refused
from protocol.etcd.fenced.liveparts import LiveParts
from protocol.etcd.fenced.partsweep import find_parts
from protocol.etcd.fenced.untilknown import UntilKnown
from protocol.etcd.kv import Get, Outcome, Transaction

# folders of parts that one transaction removes
_MOST_FOLDERS: Final = 100
_log: Final = get_log(__name__)


class FencedSequence:
    """Sends changes; one caller at a time. `forget` may be called at any time.

    Raises, all methods:
        NoLongerMaster: the fence has refused it, another process writes under this name, or the deadline has passed.
    """

    def __init__(self, etcd: UntilKnown, keys: Keys, fence: Fence, name: str) -> None:
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

    async def put(self, changes: Sequence[Change]) -> int:
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

    async def _put_large(self, changes: Sequence[Change], token: str) -> int:
        packed = pack(changes, f"{self._parts}{token}/")
        try:
            for part in packed.parts:
                verdict = await self._send(self._writer.part(part, self._at))
                if isinstance(verdict, Moved):
                    raise self._foreign(verdict)
            revision = await self._move(packed.last, token)
        except (EtcdFull, TooLarge):
            self._live.found(packed.folder, [])
            raise
        self._live.replaced(change.key for change in changes)
        self._live.found(packed.folder, [(key, revision) for key in packed.pointing])
        return revision

    async def _move(self, changes: Sequence[Change], token: str) -> int:
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
            if isinstance(verdict, Moved) and verdict.revision:
                raise self._foreign(verdict)
        self._at = 0
        if is_claim:
            return 0
        raise full

    async def _send(self, transaction: Transaction, token: str = "") -> Committed | Moved:
        return self._judge(await self._etcd.transact(transaction), token)

    def _judge(self, outcome: Outcome, token: str) -> Committed | Moved:
        verdict = self._writer.judge(outcome, token)
        if isinstance(verdict, Refused):
            raise NoLongerMaster(f"etcd has refused a write: {verdict.why}")
        return verdict

    def _foreign(self, moved: Moved) -> NoLongerMaster:
        return NoLongerMaster(
            f"another process writes to etcd as '{self._writer.name}' under this mastership (its transaction "
            f"'{moved.token}', revision {moved.revision})"
        )

    def _token(self) -> str:
        self._number += 1
        return f"{self._nonce}-{self._number}"
