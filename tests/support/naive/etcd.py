"""An etcd of a dictionary, which may lose replies, carry requests out late, and be full."""

from collections.abc import Callable, Sequence

import trio

from protocol.etcd.kv import (
    ComparedField,
    Delete,
    Equals,
    EtcdFull,
    EtcdUnknown,
    Get,
    GetReply,
    Header,
    KeyValue,
    Nested,
    Operation,
    Put,
    TransactionReply,
)
from protocol.etcd.kv import Transaction as Txn


class NaiveEtcd:
    """A client and its etcd in one.

    Args: fate: called for each transaction: "done"; "lost": carried out, without a reply; "late": kept for
        `deliver_late`, without a reply; "dropped": not carried out, without a reply.
    """

    def __init__(self, fate: Callable[[], str] = lambda: "done") -> None:
        self.values: dict[str, KeyValue] = {}
        self.revision = 1
        self.is_full = False
        self.late: list[Txn] = []
        self.transactions: list[Txn] = []
        self._fate = fate

    async def get(self, asked: Get, limit_s: float | None = None) -> GetReply:
        await trio.lowlevel.checkpoint()
        return self._found(asked)

    async def transact(self, transaction: Txn, limit_s: float | None = None) -> TransactionReply:
        await trio.lowlevel.checkpoint()
        self.transactions.append(transaction)
        fate = self._fate()
        if fate == "late":
            self.late.append(transaction)
        if fate in ("late", "dropped"):
            raise EtcdUnknown("no reply")
        outcome = self.carry_out(transaction)
        if fate == "lost":
            raise EtcdUnknown("no reply")
        return outcome

    def deliver_late(self) -> None:
        """Carry out what was kept; its replies go nowhere."""
        late, self.late = self.late, []
        for transaction in late:
            try:
                self.carry_out(transaction)
            except EtcdFull:
                continue

    def carry_out(self, transaction: Txn) -> TransactionReply:
        operations = [*transaction.then, *transaction.otherwise]
        if self.is_full and any(isinstance(each, Put) for each in operations):
            raise EtcdFull("etcd is full")
        succeeded = all(self._holds(each) for each in transaction.when)
        # comparisons of nested transactions are of the state before all
        chosen = _flat(transaction.then if succeeded else transaction.otherwise, self._holds)
        found = [self._found(each).values for each in chosen if isinstance(each, Get)]
        writes = [each for each in chosen if not isinstance(each, Get)]
        if any(isinstance(each, Put) or self._matching(each.key, each.is_prefix) for each in writes):
            self.revision += 1
        for each in writes:
            self._write(each)
        return TransactionReply(self._header(), succeeded, found)

    def _write(self, operation: Put | Delete) -> None:
        if isinstance(operation, Delete):
            for key in self._matching(operation.key, operation.is_prefix):
                del self.values[key]
            return
        old = self.values.get(operation.key)
        created = old.create_revision if old else self.revision
        self.values[operation.key] = KeyValue(operation.key, operation.value, created, self.revision)

    def _holds(self, equals: Equals) -> bool:
        found = self.values.get(equals.key)
        if found is None:
            return equals.number == 0
        return equals.number == (found.create_revision if equals.field is ComparedField.CREATED else found.mod_revision)

    def _matching(self, key: str, is_prefix: bool) -> Sequence[str]:
        return sorted(each for each in self.values if (each.startswith(key) if is_prefix else each == key))

    def _found(self, asked: Get) -> GetReply:
        keys = [key for key in self._matching(asked.key, asked.is_prefix) if key > asked.after]
        shown = keys[: asked.limit] if asked.limit else keys
        return GetReply(self._header(), [self.values[key] for key in shown], len(shown) < len(keys))

    def _header(self) -> Header:
        return Header("1", "1", self.revision, 1)


def _flat(operations: Sequence[Operation], holds: Callable[[Equals], bool]) -> Sequence[Put | Delete | Get]:
    flat: list[Put | Delete | Get] = []
    for each in operations:
        if not isinstance(each, Nested):
            flat.append(each)
        elif all(holds(one) for one in each.when):
            flat += each.then
    assert len({each.key for each in flat if isinstance(each, Put)}) == sum(isinstance(each, Put) for each in flat)
    return flat
