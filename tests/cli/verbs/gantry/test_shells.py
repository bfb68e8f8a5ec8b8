"""Completion as it is typed: each shell on a terminal of its own, with its script, against real daemons.

Source: issue 15, "Seen, small".
"""

import os
import pty
import re
import select
import shutil
import signal
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self

import pytest

from common.queue.terms import JobTerms, terms_entry
from tests.cli.command import CHECKOUT, environment, run
from tests.daemon.luxid.ops import dummy
from tests.support.cluster import Cluster

# seconds for a shell to print something; a hang is a failure
_PATIENCE_S: Final = 120
_START: Final = {
    "bash": (["--norc", "--noprofile", "-i"], "bind 'set enable-bracketed-paste off'; bind 'set bell-style none'; "),
    "zsh": (["-f", "-i"], "unsetopt zle_bracketed_paste prompt_sp 2>/dev/null; autoload -U compinit; compinit -u -D; "),
    "fish": (["--no-config", "-i"], ""),
}
_SOURCE: Final = {"bash": "source {}", "zsh": "source {}", "fish": "source {}"}
_PROGRAM: Final = """#!{python} -P
import sys
sys.path.insert(0, {checkout!r})
import cli.completion
# on a busy machine replies are slower than a shell would like
cli.completion._PATIENCE_S = 60.0
from cli.job.main import main
main()
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("shells")) as cluster:
        cluster.start("wconfd", "forkserver", "luxid")
        cluster.wait(cluster.submit(dummy(reason=[terms_entry(JobTerms("backup", {"team": "web-7"}), 0).to_wire()])))
        yield cluster


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `gnt-job`, and `show`, which prints its arguments."""
    folder = tmp_path_factory.mktemp("bin")
    (folder / "gnt-job").write_text(_PROGRAM.format(python=sys.executable, checkout=str(CHECKOUT)))
    (folder / "show").write_text('#!/bin/sh\nprintf "<%s>" "$@"; echo " END"\n')
    for each in folder.iterdir():
        each.chmod(each.stat().st_mode | stat.S_IXUSR)
    return folder


class Shell:
    """An interactive shell on a terminal."""

    def __init__(self, name: str, programs: Path, home: Path, root: Path) -> None:
        path = shutil.which(name)
        if path is None:
            pytest.skip(f"{name} is not installed")
        script = home / f"completion.{name}"
        script.write_text(run("gantry", "completion", name).out)
        words, first = _START[name]
        self._pid, self._fd = pty.fork()
        if self._pid == 0:
            env = {**environment(), "PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(home), "TERM": "dumb"}
            env |= {"GANTRY_ROOT": str(root), "COLUMNS": "300", "LINES": "50"}
            os.chdir(home)
            os.execve(path, [name, *words], env)
        self._printed = ""
        # the quotes keep the echo of the line from being taken for what it prints
        self._send(
            f"{first}source {script}; echo 'rea''dy'\r" if name != "fish" else f"source {script}; echo rea'dy'\r"
        )
        self._wait_for(r"\bready\b")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._fd)

    def completed(self, typed: str) -> list[str]:
        """The words of `gnt-job` that stand there after TAB; the line runs `show` in its place."""
        self._printed = ""
        self._send(f"gnt-job {typed}\t")
        # ^A: to the beginning; the program's name becomes an argument
        self._send("\x01show \r")
        words = self._wait_for(r"((?:<[^<>]*>)+) END")
        return re.findall(r"<([^<>]*)>", words)[1:]

    def _send(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def _wait_for(self, pattern: str) -> str:
        while (found := re.search(pattern, self._printed)) is None:
            ready, _, _ = select.select([self._fd], [], [], _PATIENCE_S)
            assert ready, f"the shell printed only {self._printed!r}"
            self._printed += os.read(self._fd, 65536).decode(errors="replace")
        return found[0]


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_a_shell_completes(name: str, cluster: Cluster, programs: Path, tmp_path: Path) -> None:
    with Shell(name, programs, tmp_path, cluster.root) as shell:
        typed = {
            text: shell.completed(text)
            for text in (
                "change-pr",
                "list -o id,labe",
                "list --where label.team=w",
                "list --where 'archived | label.team=w",
                "list --where user",
                "history --label team=",
                "run --lock node-",
            )
        }

    assert typed == {
        "change-pr": ["change-priority"],
        "list -o id,labe": ["list", "-o", "id,label"],
        "list --where label.team=w": ["list", "--where", "label.team=web-7"],
        "list --where 'archived | label.team=w": ["list", "--where", "archived | label.team=web-7"],
        "list --where user": ["list", "--where", "user="],
        "history --label team=": ["history", "--label", "team=web-7"],
        "run --lock node-": ["run", "--lock", "node-res/"],
    }
