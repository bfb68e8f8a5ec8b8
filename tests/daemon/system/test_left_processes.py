"""A run of the tests ends what they have started, tells it, and has then failed."""

import subprocess
import sys
from pathlib import Path

from tests.cli.command import CHECKOUT, environment
from tests.support.leftovers import end_leftovers, processes_under

LEAVES = """
import subprocess

def test_it_leaves_one(tmp_path):
    with (tmp_path / "out").open("w") as out:
        subprocess.Popen(["sleep", "3599"], stdout=out, start_new_session=True)

def test_it_leaves_none(tmp_path):
    subprocess.run(["true"], check=True)
"""


def run_tests(folder: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    """With the hooks of our own tests. Args: folder: that of the run; the tests are beside it."""
    tests = folder.with_name("test_leaving.py")
    tests.write_text(LEAVES)
    ours = ("--rootdir", CHECKOUT, "-p", "no:cacheprovider", "-p", "tests.conftest", "--basetemp", folder)
    return subprocess.run(
        [sys.executable, "-P", "-m", "pytest", "-q", *ours, *options, tests],
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
        cwd=folder.parent,
    )


def test_a_process_that_outlives_its_test_is_killed_and_fails_the_run(tmp_path: Path) -> None:
    ended = run_tests(tmp_path / "run", "-n", "1")

    assert "2 passed" in ended.stdout, ended.stdout + ended.stderr
    assert "sleep 3599" in ended.stdout
    assert ended.returncode == 1
    assert processes_under(tmp_path / "run") == []


def test_a_run_that_leaves_nothing_is_a_good_one(tmp_path: Path) -> None:
    ended = run_tests(tmp_path / "run", "-k", "none")

    assert "1 passed" in ended.stdout, ended.stdout + ended.stderr
    assert "outlived" not in ended.stdout
    assert ended.returncode == 0


def test_what_ends_of_itself_is_not_told(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w") as out:
        ending = subprocess.Popen(["sleep", "0.2"], stdout=out)

    told = end_leftovers(tmp_path)

    assert told == []
    assert ending.wait() == 0
