"""The users file on the disk. Raises, all: Denied, DamagedFile, Conflict, OSError: as `AccessFolder.change`."""

from collections.abc import Callable, Mapping
from typing import Final

import attrs

from common.errors import DamagedFile
from common.paths import Paths
from common.webaccess.folder import AccessFolder, read_bounded
from common.webaccess.userstext import (
    User,
    Users,
    check_login,
    no_user,
    read_users,
    with_changed_user,
    with_new_user,
    without_user,
)

# Ganeti's
_MODE: Final = 0o640
_ENCODING: Final = "utf-8"


class UsersFile:
    """The users of an installation."""

    def __init__(self, paths: Paths) -> None:
        self._folder = AccessFolder(paths)
        self.path = self._folder.users

    def users(self) -> Mapping[str, User]:
        """All users, in the order of the file."""
        return read_users(self._text()).by_name

    def check_new(self, name: str) -> None:
        """Raises: Conflict: there is a user of this name; InvalidRequest: there cannot be one."""
        with_new_user(self._text(), User(name, "x"))

    def check_there(self, name: str) -> None:
        """Raises: NotFound: there is no user of this name."""
        if name not in self.users():
            raise no_user(name)

    def add(self, user: User) -> None:
        """Raises: Conflict: there is one of this name. InvalidRequest: no user can have this name, or this login."""
        _check(user)
        self._edit(lambda text: with_new_user(text, user))

    def remove(self, name: str) -> None:
        """Raises: NotFound."""
        self._edit(lambda text: without_user(text, name))

    def set_password(self, name: str, password: str) -> None:
        """Args: password: as it is to be stored. Raises: NotFound."""
        self.modify(name, lambda user: attrs.evolve(user, password=password))

    def modify(self, name: str, change: Callable[[User], User]) -> User:
        """Change a user; return what he is now. Raises: NotFound; InvalidRequest; and what `change` raises."""
        changed: list[User] = []

        def edit(text: str) -> str:
            before = read_users(text).by_name.get(name)
            if before is None:
                raise no_user(name)
            changed.append(after := change(before))
            _check(after)
            return with_changed_user(text, after)

        self._edit(edit)
        return changed[0]

    def _text(self) -> str:
        return _text_of(read_bounded(self.path) or b"", str(self.path))

    def _edit(self, edit: Callable[[str], str]) -> None:
        def change(before: bytes | None) -> bytes:
            return edit(_text_of(before or b"", str(self.path))).encode(_ENCODING)

        self._folder.change(self.path, change, _MODE)


def _check(user: User) -> None:
    if (login := user.grants.unix_user) is not None:
        check_login(login)


def read_content(content: bytes, name: str) -> Users:
    """The users in this content of a file. Raises: DamagedFile: it is no text."""
    return read_users(_text_of(content, name))


def _text_of(content: bytes, name: str) -> str:
    try:
        return content.decode(_ENCODING)
    except UnicodeDecodeError as error:
        raise DamagedFile(f"'{name}' is not text in UTF-8, at byte {error.start}; mend it with an editor") from None
