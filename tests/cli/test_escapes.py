"""Programs on a terminal of their own: what jobs print and say cannot steer it. Issue 9, escapes."""

import os
import pty
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.command import argv, environment, run
from tests.cli.fakeluxid import AT, FakeJob, FakeLuxid

Start = Callable[..., FakeLuxid]
EVIL = "\x1b[2J\x9b5m\u202eabc"
SHOWN = "\\x1b[2J\\x9b5m\\u202eabc"


def on_terminal(root: Path, *words: object) -> str:
    """What `gnt-job` shows on a terminal."""
    ours, theirs = pty.openpty()
    env = {**environment(), "TERM": "xterm"}
    command = argv("gnt-job", "--root", root, *words)
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=env)
    os.close(theirs)
    shown = b""
    try:
        while data := os.read(ours, 65536):
            shown += data
    except OSError:
        # the other end is closed
        pass
    finally:
        os.close(ours)
        process.wait(60)
    return shown.decode().replace("\r\n", "\n")


@pytest.fixture
def evil_job(start_luxid: Start) -> None:
    start_luxid(
        FakeJob(
            5,
            "error",
            summary=[f"RUN_COMMAND({EVIL})"],
            output=f"{EVIL}\n",
            start_ts=AT,
            end_ts=AT,
            log=[[1, AT, "message", EVIL], [2, AT, "special", EVIL]],
            results=[["OpExecError", [EVIL]]],
        )
    )


@pytest.mark.usefixtures("evil_job")
def test_nothing_of_a_job_steers_the_terminal(tmp_path: Path) -> None:
    for words in (("output", 5), ("watch", 5), ("list", "--no-color"), ("info", 5), ("why", 5)):
        shown = on_terminal(tmp_path, *words)

        assert "abc" in shown, words
        assert not set(shown) & set("\x1b\x9b\u202e"), words


@pytest.mark.usefixtures("evil_job")
def test_raw_output_and_pipes_have_it_as_it_is(tmp_path: Path) -> None:
    assert on_terminal(tmp_path, "output", 5) == f"{SHOWN}\n"
    assert on_terminal(tmp_path, "output", "--raw", 5) == f"{EVIL}\n"
    assert run("gnt-job", "--root", tmp_path, "output", 5).out == f"{EVIL}\n"


@pytest.mark.usefixtures("evil_job")
def test_json_has_it_escaped(tmp_path: Path) -> None:
    out = run("gnt-job", "--root", tmp_path, "list", "--output", "json", "-o", "summary").out

    assert "\\u001b[2J\\u009b5m\\u202eabc" in out
