"""A purge is refused while jobs run, before the tools that end them are removed."""

import os
import subprocess
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[3]
PRERM = CHECKOUT / "deploy/package/prerm"
_VERSION = "7f00-7f01 r-xp 00000000 00:00 1 /opt/gantry/versions/1.0-1/lib/x.so\n"


def process(folder: Path, pid: int, cmdline: str, maps: str) -> None:
    (folder / str(pid)).mkdir()
    (folder / str(pid) / "cmdline").write_bytes(cmdline.encode())
    (folder / str(pid) / "maps").write_text(maps)


def test_processes_of_jobs_and_supervisors_of_this_package_are_found(tmp_path: Path) -> None:
    process(tmp_path, 11, "gantry-job 47\0", _VERSION)
    process(tmp_path, 12, "gantry-job 47 supervisor\0", _VERSION)
    process(tmp_path, 13, "/opt/gantry/current/bin/python3\0-m\0daemons.luxid\0", _VERSION)
    process(tmp_path, 14, "gantry-job 3\0", "7f00-7f01 r-xp 00000000 00:00 1 /home/jane/.venv/lib/x.so\n")
    functions, _, _ = PRERM.read_text().partition('if [ "$1" = remove ]')

    found = subprocess.run(
        ["sh", "-c", f'{functions}\nrunning_jobs "$0"', str(tmp_path)], check=True, capture_output=True, text=True
    )

    assert (found.stdout.split(), found.stderr) == (["11", "12"], "")


@pytest.mark.parametrize(
    ("want", "jobs", "code", "calls"),
    [
        ("purge", "11 12", 1, 0),
        ("purge", "", 0, 7),
        # jobs survive a removal
        ("deinstall", "11 12", 0, 7),
    ],
)
def test_only_a_purge_while_jobs_run_is_refused_and_leaves_the_tools(
    tmp_path: Path, want: str, jobs: str, code: int, calls: int
) -> None:
    called = tmp_path / "called"
    called.touch()
    for name, text in (
        ("dpkg-query", f"printf {want}"),
        ("update-alternatives", f"echo tool >>{called}"),
        ("deb-systemd-invoke", "true"),
        ("systemctl", "true"),
    ):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    functions, word, rest = PRERM.read_text().partition('if [ "$1" = remove ]')

    ended = subprocess.run(
        ["sh", "-c", f"{functions}\nrunning_jobs() {{ echo {jobs}; }}\n{word}{rest}", "prerm", "remove"],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (ended.returncode, called.read_text().count("tool")) == (code, calls), ended.stderr
    assert ("jobs still run: pid 11 12\n" in ended.stderr) == (code == 1)
