"""A disk that takes nothing: an error, nothing changed, and on when it is well again (wconfd.md, BUG-4)."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.daemon.wconfd.holder import Holder
from tests.daemon.wconfd.wire import Refused, Wire, WireOwner
from tests.support.cluster import Cluster
from tests.support.wait import wait_until

Job = Callable[[int], WireOwner]
N = [["node/n", "exclusive"]]


class Disk:
    """A file system of its own below the state files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._filler = folder / "filler"

    def fill(self) -> None:
        with self._filler.open("wb", buffering=0) as file:
            try:
                while file.write(b"x" * 4096):
                    pass
            except OSError:
                return

    def make_room(self) -> None:
        self._filler.unlink()

    def set_read_only(self) -> None:
        self._mount("-o", "remount,ro")

    def set_writable(self) -> None:
        self._mount("-o", "remount,rw")

    def _mount(self, *options: str) -> None:
        subprocess.run(["mount", *options, str(self._folder)], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    folder = tmp_path / "lib"
    folder.mkdir()
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "gantry-test", str(folder)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("this system does not let us mount a small file system")
    yield Disk(folder)
    subprocess.run(["umount", "-l", str(folder)], check=True)


def check_refused_until_well(
    cluster: Cluster, call: Wire, job: Job, *, reason: str, hurt: Callable[[], None], heal: Callable[[], None]
) -> None:
    call("tryUpdateLocks", job(1), N)
    call("updateLocksWaiting", job(2), 0, N)
    before, content = call("listLocksWaitingStatus"), cluster.paths.locks_data.read_bytes()

    hurt()
    for method, args in (
        ("freeLocks", [job(1)]),
        ("tryUpdateLocks", [job(3), [["node/m", "shared"]]]),
        ("updateLocksWaiting", [job(3), 0, [["node/n", "shared"]]]),
        ("opportunisticLockUnion", [job(3), [["node/m", "shared"]]]),
        ("flushConfig", []),
    ):
        with pytest.raises(Refused, match=f"could not be written: .*{reason}.*; nothing was changed"):
            call(method, *args)
    assert call("listLocksWaitingStatus") == before
    assert call("waitLocks", job(2), 0) is False
    assert cluster.paths.locks_data.read_bytes() == content

    heal()
    assert call("freeLocks", job(1)) == []
    assert call("waitLocks", job(2), 30) is True
    assert call("flushConfig") == []
    assert "locks.recovered" in cluster.log("wconfd")
    assert list(cluster.paths.locks_data.parent.glob("*.tmp")) == []


def test_a_full_disk(disk: Disk, cluster: Cluster, call: Wire, job: Job) -> None:
    check_refused_until_well(cluster, call, job, reason="No space left", hurt=disk.fill, heal=disk.make_room)


def test_a_folder_that_cannot_be_written(disk: Disk, cluster: Cluster, call: Wire, job: Job) -> None:
    check_refused_until_well(cluster, call, job, reason="Read-only", hurt=disk.set_read_only, heal=disk.set_writable)


def test_who_died_meanwhile_is_freed_as_soon_as_there_is_room_and_no_sweep_is_needed(
    disk: Disk, cluster: Cluster, call: Wire, spawn: Callable[[int], Holder]
) -> None:
    dying = spawn(1)
    call("tryUpdateLocks", dying.owner, N)
    disk.fill()
    dying.kill()
    wait_until(lambda: cluster.log("wconfd").count("owner.not_freed") >= 2, what="the burial fails again and again")
    assert call("listLocks", dying.owner) == N

    disk.make_room()

    wait_until(lambda: call("listAllLocks") == [], what="the dead hold nothing")
