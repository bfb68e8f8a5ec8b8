"""Livelocks between real processes: who lives, who is dead, and from when on. DESIGN section 5."""

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trio

from common.system.livelock import PROBE_AGAIN_AFTER_S, Livelock, is_alive
from common.system.watch import EventKind, FolderWatch
from tests.support.wait import PATIENCE_S, wait_until, wait_until_async

REPOSITORY = Path(__file__).parents[3]

HOLDER = """
import subprocess, sys
from pathlib import Path
from common.system.livelock import Livelock
livelock = Livelock.create(Path(sys.argv[1]), "job_000042")
if len(sys.argv) > 2:
    child = subprocess.Popen(sys.argv[2:], pass_fds=[livelock.fd], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    print(child.pid)
print(livelock.path, flush=True)
sys.stdin.read()
"""

# executes its second argument in a forked child
FORKING_HOLDER = """
import os, sys
from pathlib import Path
from common.system.livelock import Livelock, is_alive
livelock = Livelock.create(Path(sys.argv[1]), "job_000042")
print(livelock.path, flush=True)
pid = os.fork()
if pid == 0:
    exec(sys.argv[2])
status = os.waitpid(pid, 0)[1]
print("child ended with", os.waitstatus_to_exitcode(status), flush=True)
sys.stdin.read()
"""

# as Ganeti's processes do it: in place, a POSIX lock only
POSIX_HOLDER = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""

# exits with 1 if the livelock is alive for it
PROBER = """
import sys
from common.system.livelock import is_alive
sys.exit(is_alive(sys.argv[1]))
"""

# as Ganeti's daemons do it
POSIX_PROBER = """
import fcntl, sys
with open(sys.argv[1]) as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        sys.exit(1)
"""

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts `python -c script args...`; killed at the end of the test."""
    started: list[subprocess.Popen[str]] = []

    def start(script: str, *args: object) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-c", script, *map(str, args)],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def read_line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def seen_alive_by(prober: str, path: str) -> bool:
    return bool(subprocess.run([sys.executable, "-c", prober, path], cwd=REPOSITORY, check=False).returncode)


def test_a_holder_is_alive_until_it_is_killed_and_dead_at_once_after(tmp_path: Path, start: Start) -> None:
    holder = start(HOLDER, tmp_path)
    path = read_line(holder)
    assert is_alive(path)
    assert seen_alive_by(POSIX_PROBER, path), "Ganeti's daemons must see it too"

    holder.kill()
    holder.wait()

    assert not is_alive(path)
    assert not seen_alive_by(POSIX_PROBER, path)


def test_many_probes_do_not_take_each_other_for_the_holder(tmp_path: Path) -> None:
    path = tmp_path / "dead"
    path.touch()
    other = os.open(path, os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_SH)

    assert not is_alive(str(path))

    os.close(other)


def test_a_process_of_ganeti_with_its_posix_lock_alone_is_alive(tmp_path: Path, start: Start) -> None:
    path = tmp_path / "job_000043_1700000000"
    holder = start(POSIX_HOLDER, path)
    assert read_line(holder) == "locked"
    assert is_alive(str(path))

    holder.kill()
    holder.wait()

    assert not is_alive(str(path))


def test_a_command_that_inherited_the_descriptor_keeps_a_dead_holder_alive(tmp_path: Path, start: Start) -> None:
    holder = start(HOLDER, tmp_path, sys.executable, "-c", "import signal; signal.pause()")
    command_pid, path = int(read_line(holder)), read_line(holder)
    holder.kill()
    holder.wait()
    assert is_alive(path)

    os.kill(command_pid, signal.SIGKILL)

    wait_until(lambda: not is_alive(path), what="the livelock to be dead with the command")


def test_a_command_that_did_not_inherit_it_keeps_nobody_alive(tmp_path: Path, start: Start) -> None:
    script = HOLDER.replace("pass_fds=[livelock.fd]", "pass_fds=[]")
    holder = start(script, tmp_path, sys.executable, "-c", "import signal; signal.pause()")
    command_pid, path = int(read_line(holder)), read_line(holder)

    holder.kill()
    holder.wait()

    try:
        assert not is_alive(path)
    finally:
        os.kill(command_pid, signal.SIGKILL)


@pytest.mark.parametrize("by_link", [False, True])
def test_a_process_may_probe_its_own_livelock_and_does_not_lose_it(tmp_path: Path, by_link: bool) -> None:
    (tmp_path / "locks").mkdir()
    (tmp_path / "link").symlink_to("locks")
    livelock = Livelock.create(tmp_path / "locks", "pid7")
    own_path = livelock.path.replace("/locks/", "/link/") if by_link else livelock.path

    assert is_alive(own_path)

    # the POSIX lock is the one that a careless probe would lose
    assert seen_alive_by(POSIX_PROBER, livelock.path)
    livelock.remove()


def test_a_forked_child_may_probe_its_parent_which_keeps_its_locks(tmp_path: Path, start: Start) -> None:
    holder = start(FORKING_HOLDER, tmp_path, "sys.exit(not is_alive(livelock.path))")

    path = read_line(holder)

    assert read_line(holder) == "child ended with 0"
    assert seen_alive_by(POSIX_PROBER, path)
    assert seen_alive_by(PROBER, path)


def test_a_forked_child_does_not_keep_its_dead_parent_alive(tmp_path: Path, start: Start) -> None:
    forking = HOLDER.replace(
        "print(livelock.path",
        "import os, signal\npid = os.fork()\npid or signal.pause()\nprint(pid)\nprint(livelock.path",
    )
    holder = start(forking, tmp_path)
    child_pid, path = int(read_line(holder)), read_line(holder)
    assert is_alive(path)

    holder.kill()
    holder.wait()

    try:
        # the child lets go as soon as it runs for the first time
        wait_until(lambda: not is_alive(path), what="the forked child to let go")
        os.kill(child_pid, 0)
    finally:
        os.kill(child_pid, signal.SIGKILL)


def test_a_forked_child_cannot_remove_its_parents_livelock_and_makes_its_own(tmp_path: Path, start: Start) -> None:
    work = 'livelock.remove(); sys.exit(not is_alive(Livelock.create(Path(sys.argv[1]), "job_000043").path))'
    holder = start(FORKING_HOLDER, tmp_path, work)

    path = read_line(holder)

    assert read_line(holder) == "child ended with 0"
    assert seen_alive_by(PROBER, path)
    [left_by_child] = [str(other) for other in tmp_path.iterdir() if str(other) != path]
    assert not is_alive(left_by_child)


def test_processes_that_create_at_the_same_time_get_different_names(tmp_path: Path, start: Start) -> None:
    holders = [start(HOLDER, tmp_path) for _ in range(6)]

    paths = {read_line(holder) for holder in holders}

    assert len(paths) == 6
    assert all(is_alive(path) for path in paths)


@pytest.mark.trio
async def test_a_death_is_an_event_that_bears_the_livelocks_name(tmp_path: Path, start: Start) -> None:
    holder = start(HOLDER, tmp_path)
    path = read_line(holder)

    async with FolderWatch(tmp_path, kinds=EventKind.CLOSE_WRITE | EventKind.DELETE) as watch:
        holder.kill()
        with trio.fail_after(PATIENCE_S):
            events = await watch.events()

    assert [(event.name, event.kind) for event in events] == [(Path(path).name, EventKind.CLOSE_WRITE)]
    for pause_s in PROBE_AGAIN_AFTER_S:
        if not is_alive(path):
            break
        await trio.sleep(pause_s)
    # the lock goes with the descriptor, which the kernel may take its time for
    await wait_until_async(lambda: not is_alive(path), what="the holder is dead")
