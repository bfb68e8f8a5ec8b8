"""What is still committed when etcd fills up (lease.md 5)."""

from pathlib import Path

import pytest

from common.errors import Unavailable
from common.lease.deadline import FullnessReader, FullnessWriter
from common.lease.records import Fullness
from daemons.luxid.core.copies.etcdroom import BOUNDLESS, FEW, EtcdRoom


@pytest.mark.parametrize("level", [Fullness.FINE, Fullness.WARN, Fullness.SLOW])
def test_what_can_wait_is_committed_below_the_reserve(level: Fullness) -> None:
    EtcdRoom(lambda: level).check()


@pytest.mark.parametrize(("level", "words"), [(Fullness.RESERVED, "etcd is nearly full"), (Fullness.FULL, "is full")])
def test_what_can_wait_is_refused_in_the_reserve(level: Fullness, words: str) -> None:
    with pytest.raises(Unavailable, match=f"{words}.*see 'gantry cluster'"):
        EtcdRoom(lambda: level).check()


def test_masses_are_slowed_down_before_the_reserve() -> None:
    slow = EtcdRoom(lambda: Fullness.SLOW)
    assert slow.pause_s(FEW) == 0
    assert 0 < slow.pause_s(100) < slow.pause_s(500) <= slow.pause_s(10**6) == slow.pause_s(10**7)
    assert EtcdRoom(lambda: Fullness.WARN).pause_s(10**6) == BOUNDLESS.pause_s(10**6) == 0


def test_readers_see_what_is_written_also_by_the_next_writer(tmp_path: Path) -> None:
    path = tmp_path / "fullness"
    assert FullnessReader(path).level is Fullness.FINE
    writer, reader = FullnessWriter(path), FullnessReader(path)
    for level in Fullness:
        writer.set(level)
        assert reader.level is level
    again = FullnessWriter(path)
    assert reader.level.name == "FINE"
    again.set(Fullness.SLOW)
    assert reader.level.name == "SLOW"
    path.write_bytes(b"\xff")
    assert reader.level.name == "FULL"
