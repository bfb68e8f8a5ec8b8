"""The folder of a command without `--cwd`."""

import os
from pathlib import Path

import click
import pytest

from cli.context import ROOT
from cli.job.run import start_folder

DAEMONS = 12345


def started_from(here: Path, data: Path, user: str | None = None) -> Path:
    before = Path.cwd()
    os.chdir(here)
    try:
        with click.Context(click.Command("run")) as running:
            running.meta[ROOT] = data
            return start_folder(user)
    finally:
        os.chdir(before)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation of daemons that are not root's, and a caller that is root."""
    if os.geteuid():
        pytest.skip("only root gives files away")
    (tmp_path / "installation/lib").mkdir(parents=True)
    (tmp_path / "installation/gantry.toml").touch()
    os.chown(tmp_path / "installation/lib", DAEMONS, DAEMONS)
    (tmp_path / "private").mkdir(mode=0o700)
    # pytest's own folders are closed to others, too
    for folder in (tmp_path, *tmp_path.parents):
        if not folder.stat().st_mode & 0o001:
            folder.chmod(folder.stat().st_mode | 0o001)
    return tmp_path


def test_a_command_of_root_starts_at_the_top_where_the_daemons_user_cannot_go(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert started_from(root / "private", root / "installation") == Path("/")
    assert f"cannot enter '{root}/private'" in capsys.readouterr().err


def test_a_command_starts_where_its_caller_is(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert started_from(root, root / "installation") == root
    assert started_from(root / "private", root / "installation", "root") == root / "private"
    assert capsys.readouterr().err == ""


def test_with_a_launcher_a_command_of_root_starts_where_root_is(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "installation/run-launcher").mkdir()
    (root / "installation/run-launcher/socket").touch()

    assert started_from(root / "private", root / "installation") == root / "private"
    assert capsys.readouterr().err == ""
