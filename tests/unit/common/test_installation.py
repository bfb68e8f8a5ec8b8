"""An installation is taken up: whose folders a daemon works with, and what it makes."""

import os
import pwd
from pathlib import Path

import pytest

from common.errors import Denied
from common.installation import take_up
from common.paths import Paths
from common.settings import Settings

DAEMONS, RAPID, OTHER = 900, 901, 950


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The installation of the system, as the package makes it: three folders of the daemons' user."""
    numbers = {"gantry": DAEMONS, "gantry-rapid": RAPID}

    def user_named(login: str) -> pwd.struct_passwd | None:
        return pwd.struct_passwd((login, "x", numbers[login], DAEMONS, "", "/", "/")) if login in numbers else None

    monkeypatch.setattr("common.settings.user_named", user_named)
    # what the test changes is taken back
    monkeypatch.setattr(os, "umask", lambda mask: None)
    paths = Paths.under_root(tmp_path)
    for folder in (paths.data, paths.run, paths.log):
        folder.mkdir()
        os.chown(folder, DAEMONS, DAEMONS)
    return Settings(paths)


def act_as(monkeypatch: pytest.MonkeyPatch, uid: int) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    monkeypatch.setattr(os, "getegid", lambda: DAEMONS)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give folders away")
def test_a_daemon_with_a_user_of_its_own_takes_up_the_folders_of_the_daemons_user_and_makes_none(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    act_as(monkeypatch, RAPID)

    take_up(settings)

    assert not settings.paths.queue.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give folders away")
@pytest.mark.parametrize(("owner", "user"), [(DAEMONS, OTHER), (RAPID, DAEMONS), (OTHER, RAPID)])
def test_no_other_user_is_trusted_with_the_folders(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, owner: int, user: int
) -> None:
    """Not the daemons' user to any other one, nor a daemon of the network to the daemons' user."""
    os.chown(settings.paths.data, owner, DAEMONS)
    act_as(monkeypatch, user)

    with pytest.raises(Denied, match=f"'{settings.paths.data}' belongs to user {owner}"):
        take_up(settings)
