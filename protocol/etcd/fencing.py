"""The transactions by which a daemon of the master writes, and what their outcomes mean; no I/O.

Theory. Two things can be wrong with a write. It may come from a node that is the master no longer: the fence refuses it
(`common.lease.records`). And it may come late: a member of etcd that was stopped for a while carries out what was sent
to it long ago, after the same transaction was sent to another member, had its effect, and was followed by newer ones;
or after its daemon has died and was started again under the same mastership. So each daemon has a key of its own, its
sequence, which each of its transactions compares and puts: what is late finds it moved, and is refused. The value of
the sequence names the transaction, so that one that was sent twice, and refused the second time, is known to have had
its effect. A daemon moves its sequence before it reads what is there; from then on nothing of its predecessor's
arrives.

Source: DESIGN section 14; lease.md 4 and 9 (9, 15, 22).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs

from common.lease.changes import KeyChange
from common.lease.records import EtcdKeys, Fence
from protocol.etcd.kv import (
    ComparedField,
    Delete,
    Equals,
    Get,
    KeyValue,
    Nested,
    Operation,
    Put,
    Transaction,
    TransactionReply,
)

# changes that are operations of the transaction itself; more are nested
_FLAT: Final = 100
# operations of one nested transaction: with 60 of them a transaction stays below etcd's 128
_NESTED: Final = 50


@attrs.frozen
class Committed:
    """The transaction has had its effect."""

    # at which it had it
    revision: int


@attrs.frozen
class FenceClosed:
    """Nothing of this daemon's is carried out any more."""

    why: str


@attrs.frozen
class SequenceMoved:
    """The sequence is at this revision, and not where it was expected; the fence holds."""

    revision: int
    # names the transaction that has moved it; empty: nothing has
    token: str


Verdict = Committed | FenceClosed | SequenceMoved


@attrs.frozen
class FencedWriter:
    """A daemon under a mastership. Args: name: of the daemon."""

    keys: EtcdKeys
    fence: Fence
    name: str

    @property
    def sequence(self) -> str:
        return self.keys.sequence(self.name)

    def claim(self, after: int, token: str) -> Transaction:
        """Move the sequence, and do nothing else. Args: after: revision of the sequence; 0: there is none."""
        return self._moving([], after, token)

    def commit(self, changes: Sequence[KeyChange], after: int, token: str) -> Transaction:
        """Args: changes: as they are stored, each key once."""
        return self._moving(_nested([_operation(change) for change in changes]), after, token)

    def part(self, part: KeyChange, after: int) -> Transaction:
        """Put a part of a change whose last transaction will move the sequence."""
        return Transaction([*self._holds, self._stands(after)], [_operation(part)], self._telling)

    def settle(self, after: int) -> Transaction:
        """Let no transaction that expects the sequence there have an effect any more; even a full etcd does this."""
        return Transaction([*self._holds, self._stands(after)], [Delete(self.sequence)], self._telling)

    def forget(self, revisions: Mapping[str, int]) -> Transaction:
        """Remove those of at most 100 keys whose revisions are these."""
        then = [
            Nested([Equals(key, ComparedField.MODIFIED, number)], [Delete(key)]) for key, number in revisions.items()
        ]
        return Transaction(self._holds, then, self._telling)

    def clear(self, folders: Iterable[str]) -> Transaction:
        """Remove all parts of these changes."""
        return Transaction(self._holds, [Delete(folder, is_prefix=True) for folder in folders], self._telling)

    def judge(self, outcome: TransactionReply, token: str = "") -> Verdict:
        """Tell the effect of one of these transactions. Args: token: as it was given to it."""
        if outcome.succeeded:
            return Committed(outcome.header.revision)
        master, epoch, sequence = (each[0] if each else None for each in outcome.found)
        if (why := self._broken_fence(master, epoch)) is not None:
            return FenceClosed(why)
        last = sequence.value.decode(errors="replace") if sequence is not None else ""
        revision = sequence.mod_revision if sequence is not None else 0
        return Committed(revision) if token and last == token else SequenceMoved(revision, last)

    @property
    def _holds(self) -> Sequence[Equals]:
        return [
            Equals(self.keys.master, ComparedField.CREATED, self.fence.master_revision),
            Equals(self.keys.epoch, ComparedField.MODIFIED, self.fence.epoch_revision),
        ]

    @property
    def _telling(self) -> Sequence[Operation]:
        return [Get(self.keys.master, keys_only=True), Get(self.keys.epoch), Get(self.sequence)]

    def _stands(self, after: int) -> Equals:
        return Equals(self.sequence, ComparedField.MODIFIED, after)

    def _moving(self, then: Sequence[Operation], after: int, token: str) -> Transaction:
        move = Put(self.sequence, token.encode())
        return Transaction([*self._holds, self._stands(after)], [*then, move], self._telling)

    def _broken_fence(self, master: KeyValue | None, epoch: KeyValue | None) -> str | None:
        if epoch is None or epoch.mod_revision != self.fence.epoch_revision:
            now = epoch.value.decode(errors="replace") if epoch is not None else "gone"
            return f"the epoch in etcd is {now}, that of this mastership was {self.fence.epoch}"
        if master is None:
            return f"its lease of epoch {self.fence.epoch} has run out"
        if master.create_revision != self.fence.master_revision:
            return f"the key '{self.keys.master}' of etcd was made anew since epoch {self.fence.epoch} began"
        return None


def _operation(change: KeyChange) -> Put | Delete:
    return Delete(change.key) if change.value is None else Put(change.key, change.value)


def _nested(operations: Sequence[Put | Delete]) -> Sequence[Operation]:
    if len(operations) <= _FLAT:
        return operations
    return [Nested([], operations[at : at + _NESTED]) for at in range(0, len(operations), _NESTED)]


# Which changes of parts are needed still: those that some key points to; no I/O.
#
# Source: `common.lease.changes`.


class LiveParts:
    """The folders of parts of one daemon, and the keys that point into each."""

    def __init__(self) -> None:
        self._pointing: dict[str, set[str]] = {}
        # key -> folder, and revision of the pointer
        self._pointers: dict[str, tuple[str, int]] = {}
        self._garbage: list[str] = []

    def found(self, folder: str, pointers: Iterable[tuple[str, int]]) -> None:
        """These keys point into the folder, at these revisions; with none it is garbage."""
        self._pointing[folder] = set()
        for key, revision in pointers:
            self._pointing[folder].add(key)
            self._pointers[key] = (folder, revision)
        if not self._pointing[folder]:
            self._drop(folder)

    def replaced(self, keys: Iterable[str]) -> None:
        """These keys have been put or removed, and point nowhere now."""
        for key in keys:
            if key in self._pointers:
                self._unpoint(key)

    def forgotten(self, keys: Iterable[tuple[str, int]]) -> None:
        """These keys have been removed, those whose revisions were these."""
        for key, revision in keys:
            if key in self._pointers and self._pointers[key][1] == revision:
                self._unpoint(key)

    @property
    def has_garbage(self) -> bool:
        return bool(self._garbage)

    def take_garbage(self, most: int) -> Sequence[str]:
        """Return folders that nothing points to; each once."""
        taken, self._garbage = self._garbage[:most], self._garbage[most:]
        return taken

    def _unpoint(self, key: str) -> None:
        folder, _ = self._pointers.pop(key)
        self._pointing[folder].discard(key)
        if not self._pointing[folder]:
            self._drop(folder)

    def _drop(self, folder: str) -> None:
        del self._pointing[folder]
        self._garbage.append(folder)
