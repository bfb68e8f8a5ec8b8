"""Several jobs on a terminal: a real pseudo terminal, and what stands on it at the end."""

import os
import pty
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.cli.command import argv, environment
from tests.cli.fakeluxid import AT, FakeJob, FakeLuxid
from tests.support.wait import wait_until

Start = Callable[..., FakeLuxid]
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\r")


def test_a_terminal_shows_a_table_that_ends_with_the_last_states(start_luxid: Start, tmp_path: Path) -> None:
    first = FakeJob(5, "running", start_ts=AT, log=[[1, AT, "message", "copying disk 1"]])
    waiting = FakeJob(6, ops=[{"OP_ID": "OP_TEST_DELAY", "depends": [[5, []]]}])
    luxid = start_luxid(first, waiting)
    terminal, inside = pty.openpty()

    watch = subprocess.Popen(
        argv("gnt-job", "--root", tmp_path, "watch", "5", "6"),
        stdin=inside,
        stdout=inside,
        stderr=inside,
        env=environment({"TERM": "xterm", "COLUMNS": "120", "LINES": "30"}),
    )
    os.close(inside)
    wait_until(lambda: luxid.is_waited_for(5) and luxid.is_waited_for(6), what="both jobs are watched")
    luxid.change(5, status="success", end_ts=[AT[0] + 2, 0])
    luxid.change(6, status="error", results=["lost"])
    shown = _CONTROL.sub("", read_all(terminal))

    assert watch.wait(60) == 1
    final = shown[shown.rindex("STATUS") :]
    assert re.search(r"5 +success +2\.0s +TEST_DELAY\(1\.0\) +copying disk 1", final)
    assert re.search(r"6 +error +TEST_DELAY", final)
    assert "1 success, 1 error" in final
    assert final.rstrip().endswith("error: job 6 failed: TEST_DELAY(1.0): lost")


def read_all(terminal: int) -> str:
    pieces = []
    try:
        while piece := os.read(terminal, 65536):
            pieces.append(piece)
    except OSError:
        # the other end was closed: how a pseudo terminal says end of file
        pass
    finally:
        os.close(terminal)
    return b"".join(pieces).decode()
