"""The certificates of one node while they are renewed: a new key beside the one in use, until its certificate comes.

Theory. Each change is one file that is replaced as a whole, so a crash leaves the old certificate or the new one, and
every step can be repeated.

Source: DESIGN section 13; noded.md 3.
"""

from pathlib import Path
from typing import Final

from common.durable.atomicfile import FileWrite, write_files
from common.durable.durably import durably
from common.durable.moves import remove_files
from common.errors import Conflict, DamagedFile, InvalidRequest
from common.nodes.certificates.nodecertificates import (
    PRIVATE_MODE,
    is_key_of,
    is_signed_by,
    make_request,
    write_certificate,
)
from common.nodes.certificates.pemcontent import certificates_in, has_key, key_in
from common.paths import Paths

_MODE: Final = 0o600

Owner = tuple[int, int]


class RenewalFiles:
    """Args: owner: user and group of the files; None: this process's. Raises, all: DamagedFile, OSError."""

    def __init__(self, paths: Paths, own_name: str, owner: Owner | None = None) -> None:
        self._paths = paths
        self._own_name = own_name
        self._owner = owner

    def request(self) -> str:
        """Make a new key, unless one is waiting for its certificate; return the PEM of the request to sign it.

        Durability: on return the key survives a loss of power.
        """
        key = self._waiting_key()
        made = make_request(self._own_name, key)
        if key is None:
            write = FileWrite(self._next, made.key, _MODE, owner=self._owner)
            durably(lambda: write_files([write]))
        return made.request.decode()

    def install(self, certificate: str) -> None:
        """Use the new key with its certificate; twice is as once.

        Raises: Conflict: there is no such key. InvalidRequest: the cluster has not signed the certificate.
        Durability: on return it survives a loss of power.
        """
        pem = certificate.encode()
        if certificates_in(self._paths.client_pem.read_bytes())[:1] == certificates_in(pem)[:1]:
            return
        key = self._waiting_key()
        if key is None or not is_key_of(key, pem):
            raise Conflict("this node has no key for that certificate; begin again with a new request")
        if not any(is_signed_by(pem, each) for each in certificates_in(self._paths.server_pem.read_bytes())):
            raise InvalidRequest("the certificate is signed by no certificate of the cluster that this node knows")
        durably(lambda: write_certificate(self._paths.client_pem, key + pem, self._owner))
        durably(lambda: remove_files([self._next]))

    def put_cluster(self, content: str) -> None:
        """Replace the cluster's certificate.

        Raises: InvalidRequest: there is no certificate in it, or the key is that of another one.
        Durability: on return it survives a loss of power.
        """
        pem = content.encode()
        found = certificates_in(pem)
        try:
            is_whole = bool(found) and (not has_key(pem) or is_key_of(key_in(pem), found[0]))
        except DamagedFile as error:
            raise InvalidRequest(f"this is no certificate of a cluster: {error.message}") from error
        if not is_whole:
            raise InvalidRequest("this is no certificate of a cluster: it has none, or the key of another one")
        if not _has(self._paths.server_pem, pem):
            write = FileWrite(self._paths.server_pem, pem, PRIVATE_MODE, owner=self._owner)
            durably(lambda: write_files([write]))

    @property
    def _next(self) -> Path:
        return self._paths.next_key

    def _waiting_key(self) -> bytes | None:
        """The key without a certificate; one that was installed, and not yet removed, is none."""
        try:
            key = self._next.read_bytes()
        except FileNotFoundError:
            return None
        return None if _has_key(self._paths.client_pem, key) else key


def _has(path: Path, content: bytes) -> bool:
    try:
        return path.read_bytes() == content
    except FileNotFoundError:
        return False


def _has_key(path: Path, key: bytes) -> bool:
    try:
        return key_in(path.read_bytes()) == key_in(key)
    except (FileNotFoundError, DamagedFile):
        return False
