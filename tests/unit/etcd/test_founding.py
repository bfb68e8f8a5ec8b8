"""What etcd has of a cluster before one begins there: values that are not ours are refused (DESIGN section 14)."""

import pytest
import trio

from common.errors import DamagedFile
from common.lease.records import EtcdKeys
from protocol.etcd.founding import look
from protocol.etcd.kv import Get, GetReply, Header, KeyValue, Transaction, TransactionReply

pytestmark = pytest.mark.trio
KEYS = EtcdKeys("/gantry/")


class Etcd:
    """Has one key."""

    def __init__(self, key: str, value: bytes) -> None:
        self._values = (KeyValue(key, value, create_revision=3, mod_revision=3),)

    async def get(self, asked: Get, limit_s: float | None = None) -> GetReply:
        await trio.lowlevel.checkpoint()
        return GetReply(Header("1", "1", 7, 1), self._values)

    async def transact(self, transaction: Transaction, limit_s: float | None = None) -> TransactionReply:
        raise AssertionError(transaction)


async def test_an_epoch_that_is_no_number_is_refused_with_its_key() -> None:
    with pytest.raises(DamagedFile, match=r"the key '/gantry/epoch' of etcd has a value that is not ours: b'x'"):
        await look(Etcd(KEYS.epoch, b"x"), KEYS)
