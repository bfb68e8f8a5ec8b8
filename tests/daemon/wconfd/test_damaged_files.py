"""A state file that is damaged or missing: the daemon says what and where, and replaces nothing (DESIGN section 8)."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from common.errors import DamagedFile
from common.system.livelock import Livelock
from daemons.wconfd.locks.lockfiles import journal_of
from daemons.wconfd.locks.lockstore import LockStore
from tests.daemon.wconfd.wire import Wire, WireOwner
from tests.support.cluster import CHECKOUT, Cluster
from tests.support.wait import PATIENCE_S

Job = Callable[[int], WireOwner]


def refusal(cluster: Cluster) -> str:
    """Start wconfd, which must end with 1; what it says on stderr and in its log."""
    command = [sys.executable, "-P", "-m", "daemons.wconfd.main", "--root", str(cluster.root)]
    ended = subprocess.run(
        command, env={"PYTHONPATH": str(CHECKOUT)}, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert ended.returncode == 1, ended
    assert ended.stderr.count("\n") == 1, ended.stderr
    message = ended.stderr.removeprefix("wconfd: error: ").strip()
    assert "daemon.failed" in cluster.log("wconfd")
    assert message[:40] in cluster.log("wconfd")
    return message


@pytest.fixture
def full(cluster: Cluster, call: Wire, job: Job) -> Cluster:
    """An installation with all kinds of locks and requests, not running."""
    call("tryUpdateLocks", job(1), [["cluster/BGL", "shared"], ["node/n1", "exclusive"]])
    call("tryUpdateLocks", [*job(2), 4711], [["cluster/BGL", "shared"]])
    call("tryUpdateLocks", ["größe", job(2)[1]], [["instance/ö", "shared"]])
    call("updateLocksWaiting", job(2), -3, [["node/n1", "shared"], ["network/w", "release"]])
    cluster.kill("wconfd")
    return cluster


def test_locks_cut_anywhere_stop_the_daemon_and_the_whole_file_loads_the_same(full: Cluster) -> None:
    path = full.paths.locks_data
    content = path.read_bytes()
    assert content.isascii()
    state = LockStore.load(path).state

    for length in range(0, len(content), 7):
        path.write_bytes(content[:length])
        with pytest.raises(DamagedFile, match=rf"'{path}': .*damaged at byte \d+: .*restore it from a backup"):
            LockStore.load(path)
        assert path.read_bytes() == content[:length]

    path.write_bytes(content)
    assert LockStore.load(path).state == state


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (b"", "byte 0"),
        (b"[[", "byte 2"),
        (b"{}", r"\$"),
        (b'[[[[1,"/a"],[["node/a","exclusive"]]],[[2,"/b"],[["node/a","shared"]]]],[]]', r"\$\[0\]\[1\]"),
        (b'[[],[[0,[1,"/a"],[["node/a","owned"]]]]]', r"\$\[1\]\[0\]"),
    ],
)
def test_damaged_locks_end_the_start_with_path_place_and_remedy(idle: Cluster, content: bytes, place: str) -> None:
    idle.paths.locks_data.write_bytes(content)

    message = refusal(idle)

    assert re.search(rf"'{idle.paths.locks_data}'.* damaged at {place}: .*restore it from a backup", message), message
    assert idle.paths.locks_data.read_bytes() == content


@pytest.mark.parametrize(
    ("content", "place"), [(b"", "byte 0"), (b'{"guarded":[[[1,"/a"],[],null]]}', r"\$\.guarded\[0\]")]
)
def test_damaged_guards_end_the_start_before_any_lock_is_freed(
    idle: Cluster, job: Job, content: bytes, place: str
) -> None:
    """The dead owner of these locks may be an orphan; an unreadable file is no word that it is none."""
    locks = b'[[[[1,"/nowhere/job_1"],[["node/a","exclusive"]]]],[]]'
    idle.paths.locks_data.write_bytes(locks)
    idle.paths.may_run_data.write_bytes(content)

    message = refusal(idle)

    path = idle.paths.may_run_data
    assert re.search(rf"'{path}': .* damaged at {place}: .*restore it .*no command of a job runs on any node", message)
    assert (path.read_bytes(), idle.paths.locks_data.read_bytes()) == (content, locks)
    path.unlink()
    path.mkdir()
    assert str(path) in refusal(idle)
    assert idle.paths.locks_data.read_bytes() == locks


def test_missing_locks_mean_that_nobody_holds_anything(idle: Cluster, connect: Callable[[], Wire], job: Job) -> None:
    idle.paths.locks_data.unlink()

    idle.start("wconfd")

    call = connect()
    assert call("listLocksWaitingStatus") == [[], []]
    assert call("tryUpdateLocks", job(1), [["node/a", "shared"]]) == []
    assert "locks.missing" in idle.log("wconfd")


def test_missing_locks_end_the_start_while_a_job_process_lives_that_may_hold_some(idle: Cluster) -> None:
    path = idle.paths.locks_data
    path.unlink()
    journal_of(path).unlink(missing_ok=True)
    livelock = Livelock.create(idle.paths.livelocks, "job_7")

    message = refusal(idle)

    assert f"'{path}' is missing, and job 7 may hold locks that nobody knows; restore it from a backup" in message
    assert not path.exists()
    livelock.remove()
    idle.start("wconfd")
    assert "locks.missing" in idle.log("wconfd")


def test_a_damaged_configuration_ends_the_start_with_path_place_and_remedy(idle: Cluster) -> None:
    path = idle.paths.config_data
    damaged = path.read_bytes()[:100]
    path.write_bytes(damaged)

    message = refusal(idle)

    assert f"'{path}' is damaged at byte" in message
    assert f"restore it from a backup or a master candidate: 'cp BACKUP {path}'" in message
    assert path.read_bytes() == damaged


def test_a_missing_configuration_says_how_to_make_one(idle: Cluster) -> None:
    idle.paths.config_data.unlink()

    assert "make a cluster with 'gnt-cluster init'" in refusal(idle)


def test_a_file_that_cannot_be_read_ends_the_start(idle: Cluster) -> None:
    idle.paths.locks_data.unlink()
    Path(idle.paths.locks_data).mkdir()

    assert str(idle.paths.locks_data) in refusal(idle)
