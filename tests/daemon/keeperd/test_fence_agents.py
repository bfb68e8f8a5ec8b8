"""An old master counts as fenced only by a program's word, within its time (lease.md 6)."""

import stat
from pathlib import Path

import attrs
import pytest
import trio

from common.errors import InvalidRequest
from common.featuresettings import KeeperdSettings
from common.lease.records import LastMaster
from common.paths import Paths
from common.settings import ClusterSettings, Settings
from daemons.keeperd.mastershipacts import Address, Fencing, check_programs

LAST = LastMaster(node="node2.test", epoch=6, boot_id="b", ttl_s=10.0)


def program(folder: Path, name: str, script: str) -> str:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    paths = Paths.under_root(tmp_path)
    paths.make_folders()
    return Settings(paths, cluster=ClusterSettings("etcd", "node1.test"))


def fenced_by(settings: Settings, *programs: str, limit_s: float = 60.0) -> bool:
    """Whether one round of these programs has fenced the node."""
    own = attrs.evolve(settings, keeperd=KeeperdSettings(fence=programs, fence_timeout_s=limit_s))
    return trio.run(Fencing(own).by_any, LAST.node, 7)


def test_programs_are_tried_in_order_until_one_has_done_it(settings: Settings, tmp_path: Path) -> None:
    told = tmp_path / "told"
    words = f'echo "$(basename $0) $1 $GANTRY_NODE $GANTRY_EPOCH" >> {told}'
    not_for_it = program(tmp_path, "other", f"{words}; exit 2")
    failing = program(tmp_path, "failing", f"{words}; exit 1")
    good = program(tmp_path, "good", words)
    never = program(tmp_path, "never", words)

    assert fenced_by(settings, not_for_it, failing, good, never)
    line = "node2.test node2.test 7"
    assert told.read_text().splitlines() == [f"other {line}", f"failing {line}", f"good {line}"]


def test_a_program_that_fails_is_missing_or_hangs_fences_nothing(settings: Settings, tmp_path: Path) -> None:
    failing = program(tmp_path, "failing", "exit 1")
    hanging = program(tmp_path, "hanging", "exec sleep 600")

    assert not fenced_by(settings, failing, str(tmp_path / "missing"))
    assert not fenced_by(settings, hanging, limit_s=0.1)


def test_a_program_that_always_says_yes_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="fences nothing"):
        check_programs(KeeperdSettings(fence=("/bin/true",)))
    check_programs(KeeperdSettings(fence=("/usr/local/sbin/fence-ipmi",)))


def test_the_address_is_brought_up_once_and_down_when_it_may_be_up(settings: Settings, tmp_path: Path) -> None:
    told = tmp_path / "told"
    up_down = program(tmp_path, "address", f'echo "$1 $GANTRY_NODE" >> {told}')
    own = attrs.evolve(settings, keeperd=KeeperdSettings(address_program=up_down))

    async def play() -> None:
        address = Address(own)
        # an earlier keeperd may have left it up
        await address.take_down()
        await address.bring_up()
        await address.bring_up()
        await address.take_down()

    trio.run(play)

    assert told.read_text().split() == ["down", "node1.test", "up", "node1.test", "down", "node1.test"]
