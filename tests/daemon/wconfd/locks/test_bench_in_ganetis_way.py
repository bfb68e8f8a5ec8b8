"""The benchmark's owners of locks, as they wait in front of a real Ganeti: our wconfd sends SIGHUP, too."""

import os
import signal

from protocol.wconfd.locks import ListAllLocks
from tests.bench.conversations import SLEEP, Conversation, hold, prepared
from tests.bench.locks import hand_overs
from tests.support.cluster import Cluster


def test_owners_hand_a_lock_over_by_sighup(cluster: Cluster) -> None:
    assert hand_overs(cluster, 40, pid=os.getpid()) > 0


def test_a_signal_before_the_sleep_is_not_lost(cluster: Cluster) -> None:
    heard = []

    def conversation() -> Conversation:
        heard.append((yield prepared(ListAllLocks())))
        os.kill(os.getpid(), signal.SIGHUP)
        heard.append((yield SLEEP))

    hold(cluster.paths.wconfd_socket, [conversation()])

    assert heard == [[], None]
