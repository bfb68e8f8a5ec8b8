"""A command is refused for what is really amiss: an unreadable list of users says nothing about the user."""

import errno
import os
import pwd
from pathlib import Path
from typing import Any, cast

import pytest

from common.commands.localcommand import LocalCommand
from common.commands.spec import CommandSpec
from common.commands.surroundings import environment_of
from common.errors import PrerequisiteError, Unavailable
from common.paths import Paths
from common.settings import Settings
from tests.support.accounts.userlookups import without_descriptors

OTHER = next(user for user in pwd.getpwall() if user.pw_uid not in (0, os.getuid()))


class Place:
    """A place for commands that do not come to run."""

    def __init__(self, root: Path) -> None:
        self.settings = Settings(Paths.under_root(root))


def command_of(user: str) -> LocalCommand:
    return LocalCommand(CommandSpec(argv=("id",), user=user), cast(Any, None))


def test_an_unknown_user_is_told() -> None:
    with pytest.raises(PrerequisiteError, match="there is no user 'nobody-at-all' on this machine") as refused:
        command_of("nobody-at-all").check()

    assert refused.value.reason == "unknown_entity"


def test_a_user_who_cannot_be_looked_up_now_is_not_taken_for_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    without_descriptors(monkeypatch)

    with pytest.raises(PrerequisiteError) as refused:
        command_of(OTHER.pw_name).check()

    assert refused.value.message == "the users of this machine cannot be read now: Too many open files; try again"
    assert refused.value.reason == "temp_insufficient_resources"


def test_an_own_user_who_cannot_be_looked_up_now_does_not_lose_the_home(monkeypatch: pytest.MonkeyPatch) -> None:
    without_descriptors(monkeypatch)

    with pytest.raises(Unavailable, match="the users of this machine cannot be read now"):
        environment_of(None, Settings(paths=Paths.under_root(Path("/nowhere"))))


@pytest.mark.parametrize("lacking", ["pipe2", "memfd_create"])
def test_a_command_without_descriptors_for_its_start_is_one_that_did_not_begin(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lacking: str
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    command = LocalCommand(CommandSpec(argv=("id",), stdin_text="x"), cast(Any, Place(tmp_path)))
    monkeypatch.setattr(os, lacking, refuse)

    assert command.run(lambda _: None).not_begun == "'id' cannot be started: too many open files"
