"""What is typed to name a user: passwords and logins."""

import sys
from pathlib import Path
from typing import Final

from cli.screen import complain, is_interactive, warn
from common.errors import InvalidRequest
from common.paths import Paths

_STANDARD_INPUT: Final = Path("-")
_MOST_BYTES: Final = 1024


def read_new_password(file: Path | None) -> str:
    """A new password: the first line of a file, else asked for twice on the terminal, without echo.

    Raises: InvalidRequest: it is empty, too long, or no text; or there is no terminal. OSError: of the file.
    """
    password = _ask() if file is None else _read(file)
    if not password or len(password.encode()) > _MOST_BYTES:
        raise InvalidRequest(f"the password is empty, or has more than {_MOST_BYTES} bytes; choose another one")
    return password


def _read(file: Path) -> str:
    if file != _STANDARD_INPUT:
        with file.open("rb") as opened:
            line = opened.readline(2 * _MOST_BYTES)
    elif sys.stdin is None:
        raise InvalidRequest("standard input is closed, and the password was to come from there")
    else:
        line = sys.stdin.buffer.readline(2 * _MOST_BYTES)
    try:
        return line.rstrip(b"\r\n").decode()
    except UnicodeDecodeError:
        raise InvalidRequest("the password is not text in UTF-8; choose another one") from None


def _ask() -> str:
    # imported late: most passwords of programs come from files
    from getpass import getpass

    if not is_interactive():
        raise InvalidRequest(
            "there is no terminal to ask for the password; use --password-file FILE, or - for the input"
        )
    while True:
        first = getpass("new password: ", sys.stderr)
        if first == getpass("once more: ", sys.stderr):
            return first
        complain("the two are not the same; type them again")


def check_unix_user(login: str, paths: Paths) -> None:
    """Make sure that this machine knows the user, and warn where commands cannot run as him, or do so with all rights.

    Raises: InvalidRequest: it does not. Unavailable: users cannot be read now. OSError.
    """
    # imported late: few verbs need it
    from common.system.accounts.users import user_named

    if (found := user_named(login)) is None:
        raise InvalidRequest(f"there is no user '{login}' on this machine; make it first, on all nodes")
    uid = found.pw_uid
    if uid == 0:
        warn(f"commands will run as '{login}', who may do everything on the machine")
    elif (daemons := paths.data.stat().st_uid) not in (0, uid) and not paths.launcher_socket.exists():
        # as luxid refuses them
        warn(
            f"commands as '{login}' are refused while the daemons run as user {daemons}, who cannot become another one"
        )
