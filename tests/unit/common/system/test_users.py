"""A user or group who cannot be looked up now is not taken for one that does not exist."""

import errno
import grp
import os
import pwd
import subprocess
import sys
from collections.abc import Callable

import pytest

from common.errors import Unavailable
from common.system import accounts
from common.system.accounts import group_named, groups_of, user_named, user_numbered

NOBODY = "no-such-name"
LOOK_UPS: list[Callable[[], object]] = [
    lambda: user_named(NOBODY),
    lambda: user_numbered(4_000_001),
    lambda: group_named(NOBODY),
]
# a program without any descriptor to spare
WITHOUT_DESCRIPTORS = f"""
import resource, sys
from common.errors import Unavailable
from common.system.accounts import group_named, groups_of, user_named, user_numbered
import pwd
me = pwd.getpwuid(0)
resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
for look_up in (lambda: user_named({NOBODY!r}), lambda: user_numbered(4000001), lambda: group_named({NOBODY!r}),
                lambda: groups_of(me)):
    try:
        print(look_up())
    except Unavailable as error:
        print(error)
"""


def test_those_who_are_there_are_found() -> None:
    own, first = pwd.getpwuid(os.getuid()), grp.getgrall()[0]

    assert user_named(own.pw_name) == user_numbered(own.pw_uid) == own
    assert group_named(first.gr_name) == first
    assert list(groups_of(own)) == os.getgrouplist(own.pw_name, own.pw_gid)


@pytest.mark.parametrize("look_up", LOOK_UPS)
def test_those_who_are_not_there_are_none(look_up: Callable[[], object]) -> None:
    assert look_up() is None


def test_names_and_numbers_that_cannot_be_are_none() -> None:
    assert user_named("a\0b") is None
    assert user_named("\ud800") is None
    assert group_named("a\0b") is None
    assert user_numbered(2**40) is None
    assert user_numbered(-5) is None


def test_a_want_of_descriptors_is_told_as_such() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_DESCRIPTORS], capture_output=True, text=True, check=True, timeout=60
    )

    want = "the {} of this machine cannot be read now: Too many open files; try again"
    assert done.stdout.splitlines() == [want.format(each) for each in ("users", "users", "groups", "groups")]


@pytest.mark.parametrize("code", [errno.EIO, errno.ENFILE, errno.EACCES])
@pytest.mark.parametrize("look_up", LOOK_UPS)
def test_files_that_cannot_be_opened_are_told(
    look_up: Callable[[], object], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "open", fails)

    with pytest.raises(Unavailable, match=f"cannot be read now: {os.strerror(code)}; try again"):
        look_up()


@pytest.mark.parametrize("code", [errno.EAGAIN, errno.ETIMEDOUT, errno.ECONNREFUSED, errno.EIO])
@pytest.mark.parametrize("look_up", LOOK_UPS)
def test_a_directory_service_that_fails_is_told(
    look_up: Callable[[], object], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accounts, "_ask_again", lambda function, key: code)

    with pytest.raises(Unavailable, match=f"cannot be read now: {os.strerror(code)}"):
        look_up()


@pytest.mark.parametrize("code", [0, errno.ENOENT, errno.ESRCH, errno.EBADF, errno.EPERM])
@pytest.mark.parametrize("look_up", LOOK_UPS)
def test_each_way_of_the_c_library_to_say_that_there_is_none_is_believed(
    look_up: Callable[[], object], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accounts, "_ask_again", lambda function, key: code)

    assert look_up() is None


def test_a_user_who_is_found_the_second_time_could_not_be_read_before(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(_: object) -> object:
        raise KeyError("not found")

    monkeypatch.setattr(pwd, "getpwnam", look_up)

    with pytest.raises(Unavailable):
        user_named(pwd.getpwuid(0).pw_name)


def test_a_machine_whose_users_all_come_from_elsewhere_has_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounts, "_USERS", "/nowhere/passwd")

    assert user_named(NOBODY) is None
