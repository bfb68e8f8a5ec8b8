"""A disk that takes nothing: an error, nothing changed, and on when it is well again (wconfd.md, BUG-4)."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.daemon.wconfd.conftest import NO_SWEEP
from tests.daemon.wconfd.holder import Holder
from tests.daemon.wconfd.wire import Refused, Wire, WireOwner
from tests.support.cluster import Cluster
from tests.support.fakes.durable import durable_locks
from tests.support.wait import wait_until

Job = Callable[[int], WireOwner]
N = [["node/n", "exclusive"]]
NO_JOURNAL = f"{NO_SWEEP}lock_journal = false\n"


@pytest.fixture(params=[NO_SWEEP, NO_JOURNAL], ids=["journal", "no journal"])
def cluster(idle: Cluster, request: pytest.FixtureRequest) -> Cluster:
    idle.configure(request.param)
    idle.start("wconfd")
    return idle


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

    def is_read_only(self) -> bool:
        """Try to make it so; while a file is open for writing that cannot be done."""
        try:
            self.set_read_only()
        except subprocess.CalledProcessError:
            return False
        return True

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


def spend_room(call: Wire, job: Job) -> None:
    """Change locks on a full disk until nothing is left of the room that the journal has."""
    for turn in range(2000):
        try:
            call("tryUpdateLocks", job(9), [["network/w", "release" if turn % 2 else "shared"]])
        except Refused:
            return
    raise AssertionError("the disk is full, and takes changes all the same")


def check_refused_until_well(
    cluster: Cluster, call: Wire, job: Job, *, reason: str, hurt: Callable[[], None], heal: Callable[[], None]
) -> None:
    call("tryUpdateLocks", job(1), N)
    call("updateLocksWaiting", job(2), 0, N)

    hurt()
    before, content = call("listLocksWaitingStatus"), durable_locks(cluster.paths.locks_data)
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
    assert durable_locks(cluster.paths.locks_data) == content

    heal()
    assert call("freeLocks", job(1)) == []
    assert call("waitLocks", job(2), 30) is True
    assert call("flushConfig") == []
    assert "locks.recovered" in cluster.log("wconfd")
    # the locks are made whole a while after their last change
    folder = cluster.paths.locks_data.parent
    wait_until(lambda: not list(folder.glob("*.tmp")), what="nothing is half written")


def test_a_full_disk(disk: Disk, cluster: Cluster, call: Wire, job: Job) -> None:
    def fill() -> None:
        disk.fill()
        spend_room(call, job)

    check_refused_until_well(cluster, call, job, reason="No space left", hurt=fill, heal=disk.make_room)


def test_a_folder_that_cannot_be_written(disk: Disk, cluster: Cluster, call: Wire, job: Job) -> None:
    def freeze() -> None:
        # at rest no file is open for writing
        wait_until(disk.is_read_only, what="the disk is read-only")

    check_refused_until_well(cluster, call, job, reason="Read-only", hurt=freeze, heal=disk.set_writable)


def test_who_died_meanwhile_is_freed_as_soon_as_there_is_room_and_no_sweep_is_needed(
    disk: Disk, cluster: Cluster, call: Wire, job: Job, spawn: Callable[[int], Holder]
) -> None:
    dying = spawn(1)
    call("tryUpdateLocks", dying.owner, N)
    disk.fill()
    spend_room(call, job)
    dying.kill()
    wait_until(lambda: cluster.log("wconfd").count("owner.not_freed") >= 2, what="the burial fails again and again")
    assert call("listLocks", dying.owner) == N

    disk.make_room()

    wait_until(lambda: call("listLocks", dying.owner) == [], what="the dead hold nothing")
