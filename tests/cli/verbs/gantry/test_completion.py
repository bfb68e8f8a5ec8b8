"""Completion in the shell: the scripts are valid, and the values come from the daemons."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.command import run
from tests.cli.fakeluxid import FakeJob, FakeLuxid

Start = Callable[..., FakeLuxid]


# on a busy machine replies are slower than a shell would like
PATIENT = "import cli.completion; cli.completion._PATIENCE_S = 60.0"


def complete(program: str, *words: object) -> list[str]:
    """What bash is offered for the last of these words."""
    variable = f"_{program.replace('-', '_')}_COMPLETE".upper()
    line = " ".join(map(str, [program, *words]))
    env = {variable: "bash_complete", "COMP_LINE": line, "COMP_WORD": str(words[-1])}
    ended = run(program, env=env, prelude=PATIENT)
    assert (ended.code, ended.err) == (0, "")
    return [item.partition(",")[2] for item in ended.out.splitlines() if item]


def test_verbs_complete() -> None:
    assert complete("gnt-job", "ca") == ["cancel"]
    assert complete("gantry", "job", "wa") == ["watch", "wait"]


def test_job_ids_complete_the_newest_first(start_luxid: Start, tmp_path: Path) -> None:
    start_luxid(FakeJob(1), FakeJob(2), FakeJob(11), FakeJob(12))

    assert complete("gnt-job", "--root", tmp_path, "watch", "1") == ["12", "11", "1"]
    assert complete("gnt-job", "--root", tmp_path, "cancel", "--kill", "1") == ["12", "11", "1"]


def test_labels_and_users_complete_by_those_of_the_newest_jobs(start_luxid: Start, tmp_path: Path) -> None:
    start_luxid(FakeJob(1, labels={"team": "web", "tier": "1"}, user="ada"), FakeJob(2, user="bob"))

    assert complete("gnt-job", "--root", tmp_path, "run", "--label", "te") == ["team="]
    assert complete("gnt-job", "--root", tmp_path, "list", "--where", "'label.t") == ["label.team=", "label.tier="]
    assert complete("gnt-job", "--root", tmp_path, "cancel", "--where", "'hold | user=") == [
        "hold | user=ada",
        "hold | user=bob",
    ]


def test_without_daemons_nothing_completes_and_nothing_is_said(tmp_path: Path) -> None:
    assert complete("gnt-job", "--root", tmp_path, "watch", "1") == []
    assert complete("gnt-job", "--root", tmp_path, "run", "--lock", "node/[") == ["node/[lockset]"]


def test_options_that_exclude_each_other_complete_nothing(tmp_path: Path) -> None:
    assert complete("gnt-job", "--root", tmp_path, "--remote", "https://web1", "watch", "1") == []
    assert complete("gnt-job", "--root", tmp_path, "--remote", "https://web1", "list", "--where", "user=a") == []


def test_lock_levels_complete() -> None:
    assert complete("gnt-job", "run", "--lock", "no") == ["nodegroup/", "node/", "node-res/"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_covers_all_programs(shell: str) -> None:
    ended = run("gantry", "completion", shell)

    assert (ended.code, ended.err) == (0, "")
    for program in (
        "gantry",
        "gnt-job",
        "gnt-filter",
        "gnt-debug",
        "gnt-node",
        "gnt-group",
        "gnt-network",
        "gnt-cluster",
    ):
        assert f"_{program.replace('-', '_')}_COMPLETE".upper() in ended.out
    if path := shutil.which(shell):
        subprocess.run([path, "-n"], input=ended.out, text=True, check=True, capture_output=True)
