"""Real processes: found by descent and by what they have open, and signalled without ever meeting a stranger."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import attrs

from common.system.processes import descendants, find_process, holders, is_holder, is_living, send
from tests.support.wait import wait_until


def test_a_number_that_is_used_again_is_not_signalled() -> None:
    process = subprocess.Popen(["sleep", "600"])
    found = find_process(process.pid)
    assert found
    earlier = attrs.evolve(found, started_at=found.started_at - 1)

    assert send(earlier, signal.SIGKILL) is False
    assert not is_living(earlier)
    assert process.poll() is None

    assert send(found, signal.SIGKILL) is True
    assert process.wait() == -signal.SIGKILL
    assert send(found, signal.SIGKILL) is False


def test_descendants_are_found_across_sessions_and_zombies_are_not(tmp_path: Path) -> None:
    script = f"setsid sleep 600 & sh -c 'exit 0' & echo $! > {tmp_path}/zombie; exec sleep 600"
    process = subprocess.Popen(["sh", "-c", script])

    def pids() -> set[int]:
        return {found.pid for found in descendants(process.pid)}

    def names() -> list[bytes]:
        found = []
        for pid in pids():
            # one that has ended may be gone
            with contextlib.suppress(OSError):
                found.append(Path(f"/proc/{pid}/comm").read_bytes())
        return found

    wait_until(lambda: names() == [b"sleep\n"], what="one descendant is left", state=names)
    assert process.pid not in pids()
    for found in descendants(process.pid):
        send(found, signal.SIGKILL)
    process.kill()
    process.wait()


def test_who_has_a_file_open_is_found(tmp_path: Path) -> None:
    path = tmp_path / "livelock"
    path.touch()
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    with path.open() as file:
        process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=[file.fileno()])

    assert [holder.pid for holder in holders(str(link / "livelock"))] == [process.pid]
    assert is_holder(process.pid, str(path)) is True
    assert is_holder(os.getpid(), str(path)) is False

    process.kill()
    process.wait()
    assert is_holder(process.pid, str(path)) is False
    if process.stdin:
        process.stdin.close()
