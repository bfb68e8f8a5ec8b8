"""The certificates with which this node calls others.

Theory. All nodes have `server.pem`; node daemons show it, or what its key has signed, and it is the only authority that
counts. A caller shows `client.pem`; without one, as long as a cluster has no list of candidates' certificates,
it shows `server.pem`. Neither has names or extensions that a strict check would want.

Source: noded.md section 3.
"""

import ssl
from pathlib import Path
from typing import Final, Self

import attrs

from common.errors import Unavailable, explain_os_error
from common.paths import Paths
from common.system.log import get_log
from common.system.stamps import stamp_at

_log: Final = get_log(__name__)
# device, inode, size and time of each file; None: it is not there
_Identity = tuple[tuple[int, int, int, int] | None, ...]


@attrs.frozen
class CertificateFiles:
    """PEM files, each with a private key and its certificate."""

    server: Path
    # may be missing
    client: Path

    @classmethod
    def of(cls, paths: Paths) -> Self:
        """Those of an installation."""
        return cls(paths.server_pem, paths.client_pem)


class CallerContext:
    """The TLS context of a caller, made from files, and made anew after they have changed."""

    def __init__(self, files: CertificateFiles) -> None:
        self._files = files
        self._context: ssl.SSLContext | None = None
        self._made_from: _Identity | None = None
        # files that could not be used, to log each of them once
        self._refused: _Identity | None = None

    def current(self) -> ssl.SSLContext:
        """The context for connections that are made now; the same object until the files change.

        Files that cannot be used, perhaps because another process is replacing them, leave the old context in use.

        Raises: Unavailable: the files cannot be used, and there is no old context.
        """
        try:
            identity = self._identity()
            if self._context is None or identity != self._made_from:
                self._context = _context(self._files)
                self._made_from = identity
        # an SSLError is an OSError too
        except OSError as error:
            if self._context is None:
                raise Unavailable(self._explain(error)) from error
            self._warn(error)
        return self._context

    def _identity(self) -> _Identity:
        return tuple(stamp_at(path) for path in (self._files.server, self._files.client))

    def _explain(self, error: OSError) -> str:
        if isinstance(error, ssl.SSLError):
            return (
                f"the certificates in '{self._files.server}' and '{self._files.client}' cannot be used: "
                f"{error.reason or error}; each file holds a private key and its certificate"
            )
        return f"the certificates of this node cannot be read: {explain_os_error(error)}"

    def _warn(self, error: OSError) -> None:
        try:
            identity = self._identity()
        except OSError:
            identity = None
        if identity is None or identity != self._refused:
            self._refused = identity
            _log.warning("certificates.unusable", error=self._explain(error), going_on="with the old ones")


def _context(files: CertificateFiles) -> ssl.SSLContext:
    own = files.client if files.client.exists() else files.server
    for path in (files.server, own):
        # the errors of OpenSSL do not name the file
        path.open("rb").close()
    # ssl.create_default_context checks strictly in newer Pythons; certificates without extensions may not pass
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cafile=files.server)
    context.load_cert_chain(own)
    return context
