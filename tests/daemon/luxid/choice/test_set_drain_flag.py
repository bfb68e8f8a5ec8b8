"""SetDrainFlag (luxid.md 2.7)."""

import pytest

from common.errors import RemoteError
from protocol.luxi.queries import QueryConfigValues
from protocol.luxi.queue import SetDrainFlag
from tests.daemon.luxid.ops import dummy
from tests.support.cluster import Cluster


def test_the_flag_is_a_file_and_survives_a_restart(cluster: Cluster) -> None:
    assert cluster.luxi(SetDrainFlag(True)) is True
    assert cluster.paths.drain_file.read_bytes() == b""
    cluster.kill("luxid")
    cluster.start("luxid")

    with pytest.raises(RemoteError, match="drained"):
        cluster.submit(dummy())


def test_opening_an_open_queue_is_answered(cluster: Cluster) -> None:
    """luxid.md 13, BUG-3."""
    assert cluster.luxi(SetDrainFlag(False)) is True


def test_a_queue_is_opened_again(cluster: Cluster) -> None:
    cluster.luxi(SetDrainFlag(True))
    assert cluster.luxi(QueryConfigValues(("drain_flag",))) == (True,)

    cluster.luxi(SetDrainFlag(False))

    assert cluster.luxi(QueryConfigValues(("drain_flag",))) == (False,)
    assert cluster.wait(cluster.submit(dummy())) == ["success"]


def test_a_flag_made_by_hand_counts_at_once(cluster: Cluster) -> None:
    cluster.paths.drain_file.touch()

    with pytest.raises(RemoteError, match="drained"):
        cluster.submit(dummy())
