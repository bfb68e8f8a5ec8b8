"""One holder of a pid file at a time, also after it was killed. wconfd.md 1.1."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from common.errors import Conflict
from common.system.program import PidFile
from common.system.running import find_running

HOLDER = """
import sys
from pathlib import Path
from common.system.program import PidFile
PidFile.take(Path(sys.argv[1]))
print("taken", flush=True)
sys.stdin.read()
"""


def test_a_second_taker_is_told_the_pid_and_a_killed_holder_is_no_obstacle(tmp_path: Path) -> None:
    path = tmp_path / "ganeti-wconfd.pid"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, path],
        cwd=Path(__file__).parents[3],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "taken\n"
        assert path.read_text() == f"{holder.pid}\n"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600

        with pytest.raises(Conflict, match=f"already running with pid {holder.pid}: it holds '{path}'"):
            PidFile.take(path)

        assert path.read_text() == f"{holder.pid}\n"
        holder.kill()
        holder.wait()

    pid_file = PidFile.take(path)
    # read without opening it here: closing it would drop the lock
    assert subprocess.check_output(["cat", path], text=True) == f"{os.getpid()}\n"
    pid_file.release()
    pid_file.release()
    assert not path.exists()


def test_a_shorter_pid_leaves_nothing_of_a_longer_one(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    path.write_text("123456789012\n")

    pid_file = PidFile.take(path)

    assert path.read_text() == f"{os.getpid()}\n"
    pid_file.release()


def test_a_link_or_a_pipe_in_the_place_of_a_pid_file_leads_nowhere(tmp_path: Path) -> None:
    """The folder may be that of a daemon with a user of its own, and root looks for whom to end."""
    link, pipe = tmp_path / "ganeti-rapi.pid", tmp_path / "ganeti-confd.pid"
    link.symlink_to(tmp_path / "somebody-else.pid")
    os.mkfifo(pipe)
    (tmp_path / "somebody-else.pid").touch()

    with pytest.raises(OSError, match="symbolic link"):
        find_running(link)
    assert find_running(pipe) is None
