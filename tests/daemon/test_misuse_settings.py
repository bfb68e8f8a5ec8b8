"""Bad settings and options: a clear error, and exit code 1 (2 for a wrong command line)."""

import subprocess
import sys
from pathlib import Path

import pytest

from common.daemons import daemon_named
from tests.support.cluster import ALL, CHECKOUT
from tests.support.wait import PATIENCE_S


def run(daemon: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-P", "-m", daemon_named(daemon).module, *arguments],
        env={"PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.mark.parametrize("daemon", sorted(ALL))
@pytest.mark.parametrize(
    ("text", "matter"),
    [
        ("[luxid\nsweep_s = 1", "not valid TOML"),
        ("[luxid]\nmax_runing_jobs = 3", "did you mean 'max_running_jobs'?"),
    ],
)
def test_bad_settings_are_refused_with_file_and_key(tmp_path: Path, daemon: str, text: str, matter: str) -> None:
    settings = tmp_path / "gantry.toml"
    settings.write_text(text)

    ended = run(daemon, "--root", str(tmp_path))

    assert ended.returncode == 1
    assert f"{daemon}: error: {settings}: " in ended.stderr
    assert matter in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
    assert ended.stdout == ""


@pytest.mark.parametrize(
    ("text", "matter"),
    [
        ("[luxidd]", "did you mean 'luxid'?"),
        ("luxid = 5", "is a table"),
        ("[luxid]\nsweep_s = nan", "greater than 0"),
        ("[jobproc]\noutput_tail_lines = 'many'", "must be a whole number, got 'many'"),
        ("[paths]\ndata = 'relative'", "absolute path"),
        ("[access]\nsocket_mode = 0o7777", "file mode"),
        ("[access]\nuids = [1.5]", "a list of users, by name or number"),
        ('[access]\ngids = ["no-such-group"]', "there is no group 'no-such-group' on this machine"),
        ("[wconfd]\nlivelock_grace_s = -1", "at least 0"),
        ("\xff\xfe", "not valid TOML"),
    ],
)
def test_each_kind_of_bad_setting_is_named(tmp_path: Path, text: str, matter: str) -> None:
    (tmp_path / "gantry.toml").write_text(text, encoding="latin-1")

    ended = run("luxid", "--root", str(tmp_path))

    assert ended.returncode == 1
    assert matter in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


@pytest.mark.parametrize("daemon", sorted(ALL))
def test_a_settings_file_that_cannot_be_read_is_named(tmp_path: Path, daemon: str) -> None:
    (tmp_path / "gantry.toml").mkdir()

    ended = run(daemon, "--root", str(tmp_path))

    assert ended.returncode == 1
    assert "gantry.toml" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_root_too_deep_for_sockets_is_refused(tmp_path: Path) -> None:
    root = tmp_path / ("deep" * 30)

    ended = run("luxid", "--root", str(root))

    assert ended.returncode == 1
    assert "at most 107 are possible" in ended.stderr


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "lib").write_text("a file")

    ended = run("luxid", "--root", str(tmp_path))

    assert ended.returncode == 1
    assert str(tmp_path / "lib") in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("daemon", sorted(ALL))
def test_a_wrong_option_ends_with_2(daemon: str) -> None:
    ended = run(daemon, "--no-such-option")

    assert ended.returncode == 2
    assert "--no-such-option" in ended.stderr


def test_wconfd_without_a_configuration_says_how_to_make_one(tmp_path: Path) -> None:
    ended = run("wconfd", "--root", str(tmp_path))

    assert ended.returncode == 1
    assert "config.data" in ended.stderr
    assert "Traceback" not in ended.stderr
