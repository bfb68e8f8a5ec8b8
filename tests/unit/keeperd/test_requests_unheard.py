"""What operators ask of the mastership while etcd is away (DESIGN section 14)."""

from typing import cast

import attrs
import pytest
import trio

from common.errors import Conflict
from common.lease.records import EtcdKeys
from daemons.keeperd.handlers import RequestHandlers
from daemons.keeperd.renewer import Renewer
from daemons.keeperd.shell import Shell
from protocol.etcd.client import EtcdClient
from protocol.etcd.kv import EtcdUnknown, Get, GetReply, Transaction, TransactionReply
from protocol.keeperd import Switchover, Takeover
from protocol.peer import Peer
from tests.unit.keeperd.playing import ME


@attrs.define
class SilentEtcd:
    # changes that it was asked for
    asked: list[Transaction] = attrs.Factory(list)

    async def get(self, asked: Get, limit_s: float | None = None) -> GetReply:
        raise EtcdUnknown("no member has replied")

    async def transact(self, transaction: Transaction, limit_s: float | None = None) -> TransactionReply:
        self.asked.append(transaction)
        raise EtcdUnknown("no member has replied")


@pytest.mark.parametrize("call", [Switchover("n2"), Takeover("n2")])
def test_a_move_is_refused_and_not_begun_while_etcd_does_not_reply(call: Switchover | Takeover) -> None:
    etcd = SilentEtcd()
    requests = RequestHandlers(Shell(ME), cast(EtcdClient, etcd), EtcdKeys("/gantry/"), cast(Renewer, None))

    async def ask() -> str:
        peer = Peer(pid=1, uid=0, gid=0)
        return await (
            requests.switchover(call, peer) if isinstance(call, Switchover) else requests.takeover(call, peer)
        )

    with pytest.raises(Conflict, match="without it nobody can become the master: no member has replied"):
        trio.run(ask)
    assert etcd.asked == []
