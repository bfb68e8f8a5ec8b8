"""User and password of a client of etcd.

The password is read at the start, and again only when etcd has refused it: whoever renews a lease must not wait for a
disk.

Source: lease.md 5.
"""

from pathlib import Path
from typing import Protocol

from common.errors import InvalidRequest


class Account(Protocol):
    """A user, and the path of the file with the password."""

    @property
    def user(self) -> str: ...

    @property
    def password_file(self) -> str: ...


class Credentials:
    """Raises: InvalidRequest: the file of the password cannot be read."""

    def __init__(self, account: Account) -> None:
        self.user = account.user
        self._path = Path(account.password_file)
        self.password = self._read()

    def has_changed(self) -> bool:
        """Read the file again; tell whether the password is another one."""
        try:
            password = self._read()
        except InvalidRequest:
            return False
        has_changed = password != self.password
        self.password = password
        return has_changed

    def _read(self) -> str:
        try:
            return self._path.read_text().rstrip("\n")
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise InvalidRequest(
                f"the password for etcd cannot be read from '{self._path}': {reason.lower()}; "
                "write it there (setting 'password_file' of '[etcd]')"
            ) from error
