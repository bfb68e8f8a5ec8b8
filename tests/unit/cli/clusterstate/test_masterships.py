"""The line of `gantry status` that tells who holds the mastership. Source: DESIGN section 14."""

import attrs
import pytest

from cli.clusterstate.masterships import etcd_line, mastership_json, mastership_line
from common.lease.records import Fullness
from protocol.keeperd import ClusterView

VIEW = ClusterView(asked="node1", state="master", master="node1", epoch=7, ttl_s=10.0, valid_s=8.0)


def test_the_line_tells_who_has_it_and_how_keeperd_here_stands() -> None:
    assert mastership_line(VIEW) == (
        "mastership: this node has it, epoch 7, valid for 8.0s without a renewal; keeperd here: master"
    )
    other = attrs.evolve(VIEW, asked="node2", state="follow", valid_s=None)
    assert mastership_line(other) == "mastership: node1 has it, epoch 7; keeperd here: follow"
    nobody = attrs.evolve(VIEW, state="wait", master="")
    assert mastership_line(nobody) == (
        "mastership: nobody has it, last epoch 7; keeperd here: wait; see 'gantry cluster'"
    )
    assert mastership_json(VIEW) == {"master": "node1", "epoch": 7, "state": "master", "valid_s": 8.0}


@pytest.mark.parametrize(
    ("heard_s", "alarms", "level", "words"),
    [
        (0.5, (), Fullness.SLOW, ""),
        (0.5, (), Fullness.RESERVED, "etcd: nearly full, only jobs that are queued already are started and ended"),
        (0.5, (), Fullness.FULL, "etcd: full, no change is acknowledged"),
        (0.5, ("NOSPACE",), Fullness.FINE, "etcd: full, no change is acknowledged"),
        (42.0, ("NOSPACE",), Fullness.FULL, "etcd: silent for 42s, no change is acknowledged"),
        (None, (), Fullness.FINE, "etcd: has never replied to this node"),
    ],
)
def test_a_line_tells_when_etcd_is_not_well(
    heard_s: float | None, alarms: tuple[str, ...], level: Fullness, words: str
) -> None:
    view = attrs.evolve(VIEW, etcd_heard_s=heard_s, alarms=alarms)
    assert etcd_line(view, level) == (f"{words}; see 'gantry cluster'" if words else "")
