"""The users file of the HTTP interface: its text, and the file itself."""

import re
from collections.abc import Callable, Mapping
from typing import Final

import attrs

from common.errors import Conflict, DamagedFile, InvalidRequest, NotFound
from common.paths import Paths
from common.webaccess.folder import AccessFolder, read_bounded
from common.webaccess.rights import Grants, read_grants

# The text of the users file: Ganeti's format, one user a line: `name password [options]`.
#
# Edits replace whole lines of the users whom they concern, and leave every other byte as it is. The file is only ever
# edited as text: what we do not understand may be meant for others. Pure.
#
# Source: rapi.md section 2.


_COMMENT: Final = "#"
# blanks and commas separate, a colon ends the name in a request
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,63}", re.ASCII)
_LOGIN: Final = re.compile(r"[^\s,:/#]{1,64}")


@attrs.frozen
class User:
    """A user, as the file has him."""

    name: str
    # as it is stored: `{scrypt}...`
    password: str = attrs.field(repr=False)
    # as they stand, unknown ones too
    options: tuple[str, ...] = ()

    @property
    def grants(self) -> Grants:
        return read_grants(self.options)

    @property
    def line(self) -> str:
        return " ".join(filter(None, (self.name, self.password, ",".join(self.options))))


@attrs.frozen
class Users:
    """The users of a file."""

    by_name: Mapping[str, User] = attrs.field(factory=dict)
    # numbers of the lines that are too short to be users
    short_lines: tuple[int, ...] = ()


def read_users(text: str) -> Users:
    """The users; of several lines with one name the last one counts."""
    found: dict[str, User] = {}
    short: list[int] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not _is_entry(line):
            continue
        user = _read_line(line)
        if user is None:
            short.append(number)
        else:
            found[user.name] = user
    return Users(found, tuple(short))


def _is_entry(line: str) -> bool:
    stripped = line.strip()
    return bool(stripped) and not stripped.startswith(_COMMENT)


def _read_line(line: str) -> User | None:
    """The user of a line; None: it has less than two words, or is none."""
    if not _is_entry(line) or len(words := line.split(None, 2)) < 2:
        return None
    options = words[2].split(",") if len(words) > 2 else []
    return User(words[0], words[1], tuple(filter(None, map(str.strip, options))))


def with_new_user(text: str, user: User) -> str:
    """The text with one more user at its end. Raises: Conflict: there is one of this name. InvalidRequest: the name."""
    check_name(user.name)
    if user.name in read_users(text).by_name:
        raise Conflict(
            f"there is a user '{user.name}' already; change it with 'gantry user modify' or 'gantry user password'"
        )
    newline = "" if not text or text.splitlines(keepends=True)[-1] != text.splitlines()[-1] else "\n"
    return f"{text}{newline}{user.line}\n"


def with_changed_user(text: str, user: User) -> str:
    """The text with another line for this user, in place of the one that counts. Raises: NotFound."""
    lines = text.splitlines(keepends=True)
    places = [place for place, line in enumerate(lines) if _is_of(line, user.name)]
    if not places:
        raise no_user(user.name)
    lines[places[-1]] = user.line + _ending(lines[places[-1]])
    return "".join(lines)


def without_user(text: str, name: str) -> str:
    """The text without any line of this user: an earlier one would count now. Raises: NotFound."""
    lines = text.splitlines(keepends=True)
    kept = [line for line in lines if not _is_of(line, name)]
    if len(kept) == len(lines):
        raise no_user(name)
    return "".join(kept)


def _is_of(line: str, name: str) -> bool:
    user = _read_line(line)
    return user is not None and user.name == name


def _ending(line: str) -> str:
    return line[len(line.splitlines()[0]) :]


def no_user(name: str) -> NotFound:
    return NotFound(f"there is no user '{name}'; see them with: gantry user list")


def check_name(name: str) -> None:
    """Raises: InvalidRequest: a user cannot have this name."""
    if _NAME.fullmatch(name) is None:
        raise InvalidRequest(
            f"'{name}' cannot be the name of a user; it has up to 64 letters, digits and . _ @ + -, and begins with "
            "a letter, a digit or _"
        )


def check_login(login: str) -> None:
    """Raises: InvalidRequest: this cannot stand in the file as a Unix user."""
    if _LOGIN.fullmatch(login) is None:
        raise InvalidRequest(f"'{login}' is not the login of a Unix user")


# The users file on the disk. Raises, all: Denied, DamagedFile, Conflict, OSError: as `AccessFolder.change`.


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
