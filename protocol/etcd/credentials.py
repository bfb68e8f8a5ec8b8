"""User and password of a client of etcd.

The password is read at the start, and again only when etcd has refused it: whoever renews a lease must not wait for a
disk.

Source: lease.md 5.
"""

import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs

from common.errors import InvalidRequest
from common.system.log import get_log
from common.system.stamps import Stamp, stamp_if_known


@attrs.frozen(kw_only=True)
class EtcdAccount:
    """Who asks etcd, and what proves it; all but the user are paths, and each may be empty."""

    # of etcd; empty: none, so etcd asks for none
    user: str = ""
    password_file: str = ""
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""


class EtcdCredentials:
    """Raises: InvalidRequest: the file of the password cannot be read."""

    def __init__(self, account: EtcdAccount) -> None:
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


# The TLS of a client of etcd: the authority that it trusts, and its own certificate.
#
# Theory. Certificates are renewed while daemons run. Their files are read at the start, and again only when a
# connection was refused because of a certificate and the files have changed: whoever renews a lease must not wait for a
# disk.
#
# Source: lease.md 5.


_log: Final = get_log(__name__)


class TlsContexts:
    """Raises: InvalidRequest: a file cannot be read, or is no certificate."""

    def __init__(self, files: EtcdAccount) -> None:
        self._of = files
        # before they are read: what is replaced meanwhile is found to have changed
        self._stamps = self._look()
        self.current = self._load()

    def refused(self) -> None:
        """Take it that a certificate was refused: use the files of now from the next connection on, if they changed."""
        stamps = self._look()
        if stamps == self._stamps:
            return
        try:
            self.current = self._load()
        except InvalidRequest as error:
            _log.warning("etcd.certificates_unusable", reason=error.message, goes_on="with those of before")
        else:
            self._stamps = stamps
            _log.info("etcd.certificates_renewed")

    def _load(self) -> ssl.SSLContext:
        of = self._of
        try:
            context = ssl.create_default_context(cafile=of.ca_file or None)
            if of.cert_file:
                context.load_cert_chain(of.cert_file, of.key_file or None)
        except (OSError, ssl.SSLError) as error:
            files = ", ".join(f"'{name}'" for name in self._files())
            raise InvalidRequest(
                f"the certificates for etcd ({files}) cannot be used: {error.strerror or error}; "
                "look at 'ca_file', 'cert_file' and 'key_file' of '[etcd]'"
            ) from error
        return context

    def _look(self) -> Sequence[Stamp | None]:
        return [stamp_if_known(name) for name in self._files()]

    def _files(self) -> Sequence[str]:
        of = self._of
        return [name for name in (of.ca_file, of.cert_file, of.key_file) if name]
