"""What is written down of a change of the master. Source: lease.md 2."""

from typing import cast

import attrs
import pytest
import trio

from common.lease.records import EtcdKeys, OperatorRequest, WantedKind
from daemons.keeperd.keys import Chronicle
from protocol.etcd.client import EtcdClient
from protocol.etcd.kv import Get, GetReply, Header, Put, Transaction, TransactionReply
from tests.unit.keeperd.playing import NEW, Play, mastered, request, vacated


@attrs.define
class Etcd:
    """Takes the history."""

    written: list[bytes] = attrs.Factory(list)
    has_written: trio.Event = attrs.Factory(trio.Event)

    async def get(self, asked: Get, limit_s: float | None = None) -> GetReply:
        return GetReply(Header("c", "m", 1, 1), [])

    async def transact(self, transaction: Transaction, limit_s: float | None = None) -> TransactionReply:
        self.written += [each.value for each in transaction.then if isinstance(each, Put)]
        self.has_written.set()
        return TransactionReply(Header("c", "m", 1, 1), succeeded=True)


@pytest.mark.parametrize(
    ("wanted", "cause"),
    [
        (None, "n2 was silent"),
        (request(WantedKind.SWITCHOVER), "switch-over"),
        (request(WantedKind.TAKEOVER, "n1"), "take-over"),
        # that one has not come
        (request(WantedKind.TAKEOVER, "n3"), "n2 was silent"),
    ],
)
def test_the_cause_is_what_an_operator_asked_of_this_node_or_what_became_of_the_last_master(
    wanted: OperatorRequest | None, cause: str
) -> None:
    etcd = Etcd()
    play = Play().campaigning(attrs.evolve(vacated(mastered(NEW, "n2", 1)), wanted=wanted))

    async def main() -> None:
        chronicle = Chronicle(cast(EtcdClient, etcd), EtcdKeys("/gantry/"), "n1")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(chronicle.run)
            chronicle.hear(play.keeper)
            play.win()
            chronicle.hear(play.keeper)
            play.become_ready()
            chronicle.hear(play.keeper)
            await etcd.has_written.wait()
            nursery.cancel_scope.cancel()

    trio.run(main)

    assert f'"cause":"{cause}"'.encode() in etcd.written[0]


def test_more_changes_than_can_wait_for_etcd_are_left_out() -> None:
    play = Play().campaigning(vacated(mastered(NEW, "n2", 1)))
    play.win()
    taking = play.keeper
    play.become_ready()
    chronicle = Chronicle(cast(EtcdClient, Etcd()), EtcdKeys("/gantry/"), "n1")

    for _ in range(20):
        chronicle.hear(taking)
        chronicle.hear(play.keeper)

    # the oldest wait
    assert chronicle._changes.statistics().current_buffer_used == 10
