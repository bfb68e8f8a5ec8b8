"""Keys and certificates of the cluster and its nodes."""

import base64
import binascii
import datetime
import hashlib
import ipaddress
import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import attrs

from common.durable.atomicfile import FileWrite, remove_files, write_files
from common.durable.durably import durably
from common.errors import Conflict, DamagedFile, InvalidRequest, NotFound, explain_os_error
from common.paths import Paths
from common.system.accounts import check_owner

# The content of files with certificates and private keys (PEM): its parts, and the digests of certificates.
#
# Nothing here needs `cryptography`.
#
# Source: noded.md 3.


_CERTIFICATE: Final = re.compile(rb"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----\n?", re.DOTALL)
_KEY: Final = re.compile(rb"-----BEGIN ([A-Z ]*PRIVATE KEY)-----.+?-----END \1-----\n?", re.DOTALL)


def certificates_in(pem: bytes) -> list[bytes]:
    """The PEM of each certificate in this content, without keys."""
    return [match[0] for match in _CERTIFICATE.finditer(pem)]


def has_key(pem: bytes) -> bool:
    """Whether this content has a private key."""
    return _KEY.search(pem) is not None


def key_in(pem: bytes) -> bytes:
    """The PEM of the private key in this content. Raises: DamagedFile: there is none."""
    match = _KEY.search(pem)
    if match is None:
        raise DamagedFile("there is no private key where one was expected")
    return match[0]


def digest_of(pem: bytes) -> str:
    """The digest of the first certificate in this content, as ssconf has it: `3F:0A:...`.

    Raises: DamagedFile: there is none.
    """
    return hashlib.sha1(_der_of(pem), usedforsecurity=False).digest().hex(":").upper()


def fingerprint_of(pem: bytes) -> str:
    """SHA-256 of the first certificate in this content, in hexadecimal digits. Raises: DamagedFile: there is none."""
    return hashlib.sha256(_der_of(pem)).hexdigest()


def _der_of(pem: bytes) -> bytes:
    match = _CERTIFICATE.search(pem)
    try:
        der = base64.b64decode(b"".join(match[1].split()), validate=True) if match else b""
    except binascii.Error:
        der = b""
    if not der:
        raise DamagedFile("there is no certificate where one was expected")
    return der


# Certificates of a cluster and its nodes: made, signed, read, and compared by their digests.
#
# Theory. The cluster has one certificate, `server.pem`, the same on all nodes. It signs itself, is what every node
# daemon shows to its callers, and signs the certificates of the nodes (`client.pem`), which callers show to node
# daemons. Names in certificates mean nothing for the checks: a chain to `server.pem` opens a connection, and the digest
# of the caller's certificate decides what it may do (`master_candidates_certs` in ssconf).
#
# Ours have P-256 keys and version 3; those of Ganeti (RSA, version 1, without extensions) are read and signed with just
# the same. A file holds the private key, then the certificate.
#
# `cryptography` is imported late: only making, signing and reading need it, and most programs do none of that.
#
# Source: noded.md 3.


if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes

T = TypeVar("T")

# mode of server.pem and client.pem, which hold private keys: daemons with users of their own are in the group
PRIVATE_MODE: Final = 0o400
# name in the cluster's certificate; Ganeti's
CLUSTER_NAME: Final = "ganeti.example.com"
CLUSTER_SERIAL: Final = 1
VALIDITY: Final = datetime.timedelta(days=5 * 365)
# a node whose clock is behind takes a certificate that was just made
_EARLIER: Final = datetime.timedelta(days=1)
# a common name is no longer (X.520)
_NAME_MAX: Final = 64


@attrs.frozen
class Certificate:
    """What a certificate says."""

    # common name of its subject; empty: it has none
    name: str
    serial: int
    not_before: datetime.datetime
    not_after: datetime.datetime
    # SHA1 of its DER form, upper-case pairs with colons
    digest: str

    def is_valid_at(self, now: datetime.datetime) -> bool:
        return self.not_before <= now <= self.not_after


@attrs.frozen
class CertificateRequest:
    """A key that was made on a node, and what the cluster signs."""

    # PEM of the private key, which stays on its node
    key: bytes
    # PEM of the request
    request: bytes


def make_cluster_certificate(now: datetime.datetime, mark: str = "") -> bytes:
    """Make the content of a new `server.pem`.

    Args:
        now: an aware time.
        mark: part of its name by which it differs from the one before: while both are trusted, OpenSSL looks for the
            signer of a certificate by name.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    key = _new_key()
    name = _named(CLUSTER_NAME, mark)
    identity = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), CLUSTER_SERIAL, now - _EARLIER, now + VALIDITY)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(identity, critical=False)
        .sign(key, hashes.SHA256())
    )
    return _key_pem(key) + _certificate_pem(certificate)


def make_node_certificate(server_pem: bytes, node_name: str, now: datetime.datetime) -> bytes:
    """Make a key for a node, and let the cluster sign it: the content of a new `client.pem`.

    Args: server_pem: content of the cluster's `server.pem`, ours or Ganeti's.
    Raises: DamagedFile: that content is not a key and a certificate.
    """
    request = make_request(node_name)
    return request.key + sign_request(server_pem, request.request, node_name, now)


def make_request(node_name: str, key_pem: bytes | None = None) -> CertificateRequest:
    """Make a key, and the request to sign it. Args: key_pem: a key that was made before; None: a new one."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.serialization import Encoding

    key = _new_key() if key_pem is None else _key_of(key_pem)
    request = x509.CertificateSigningRequestBuilder(_named(node_name)).sign(key, hashes.SHA256())
    return CertificateRequest(_key_pem(key), request.public_bytes(Encoding.PEM))


def sign_request(server_pem: bytes, request: bytes, node_name: str, now: datetime.datetime) -> bytes:
    """Sign the key of a request; return the certificate. The name is the one given here, not that of the request.

    Args: now: an aware time; it is also the serial number, as in Ganeti.
    Raises:
        InvalidRequest: the request is damaged, or was not made by the holder of its key.
        DamagedFile: `server_pem` is not a key and a certificate.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    asked = _parsed(x509.load_pem_x509_csr, request, InvalidRequest("the request for a certificate cannot be read"))
    if not asked.is_signature_valid:
        raise InvalidRequest("the request for a certificate was not signed with its own key")
    signer_key, signer = _key_of(server_pem), _x509(server_pem)
    signer_identity = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer_key.public_key())
    certificate = (
        x509.CertificateBuilder(
            signer.subject,
            _named(node_name),
            asked.public_key(),
            int(now.timestamp()),
            now - _EARLIER,
            now + VALIDITY,
        )
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(asked.public_key()), critical=False)
        .add_extension(signer_identity, critical=False)
        .sign(signer_key, hashes.SHA256())
    )
    return _certificate_pem(certificate)


def read_certificate(pem: bytes) -> Certificate:
    """Read the first certificate in this content; a key in it is passed over. Raises: DamagedFile."""
    from cryptography.x509.oid import NameOID

    found = _x509(pem)
    names = found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return Certificate(
        name=str(names[0].value) if names else "",
        serial=found.serial_number,
        not_before=found.not_valid_before_utc,
        not_after=found.not_valid_after_utc,
        digest=digest_of(pem),
    )


def is_signed_by(pem: bytes, server_pem: bytes) -> bool:
    """Whether the cluster signed this certificate. Raises: DamagedFile: one of both cannot be read."""
    from cryptography.exceptions import InvalidSignature

    signed, signer = _x509(pem), _x509(server_pem)
    try:
        signed.verify_directly_issued_by(signer)
    except (InvalidSignature, TypeError, ValueError):
        return False
    return True


def is_key_of(key_pem: bytes, pem: bytes) -> bool:
    """Whether this private key belongs to the first certificate in `pem`. Raises: DamagedFile."""
    return _key_of(key_pem).public_key() == _x509(pem).public_key()


def public_digest_of(request: bytes) -> str:
    """SHA-256 of the public key in a request for a certificate. Raises: InvalidRequest."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    asked = _parsed(x509.load_pem_x509_csr, request, InvalidRequest("the request for a certificate cannot be read"))
    public = asked.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(public).hexdigest()


def write_certificate(path: Path, pem: bytes, owner: tuple[int, int] | None = None) -> None:
    """Replace a file of key and certificate, whole or not at all.

    Args: owner: user and group; None: this process's.
    Raises: as `common.durable.atomicfile.write_files`.
    Durability: on return it survives a loss of power.
    """
    write_files([FileWrite(path, pem, PRIVATE_MODE, owner=owner)])


def _new_key() -> "CertificateIssuerPrivateKeyTypes":
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _named(name: str, mark: str = "") -> "x509.Name":
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    marked = [x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, mark)] if mark else []
    return x509.Name([*marked, x509.NameAttribute(NameOID.COMMON_NAME, name[:_NAME_MAX])])


def _usage(*, signs_certificates: bool) -> "x509.KeyUsage":
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _key_pem(key: "CertificateIssuerPrivateKeyTypes") -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _certificate_pem(certificate: "x509.Certificate") -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM)


def _x509(pem: bytes) -> "x509.Certificate":
    from cryptography import x509

    return _parsed(x509.load_pem_x509_certificate, pem, DamagedFile("the certificate cannot be read"))


def _key_of(pem: bytes) -> "CertificateIssuerPrivateKeyTypes":
    from cryptography.hazmat.primitives.asymmetric import ec, rsa
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    damaged = DamagedFile("the private key cannot be read")
    key = _parsed(lambda content: load_pem_private_key(content, None), pem, damaged)
    if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        raise DamagedFile("the private key is neither RSA nor of an elliptic curve")
    return key


def _parsed(parse: Callable[[bytes], T], content: bytes, error: Exception) -> T:
    try:
        return parse(content)
    except (ValueError, TypeError) as cause:
        raise error from cause


# Whether certificates are good, and for how long. Pure.
#
# Source: noded.md 3 and 6.


# time before its end from which a certificate is complained about
SOON: Final = datetime.timedelta(days=30)


def fault_of(certificate: Certificate, now: datetime.datetime) -> str | None:
    """What is wrong with the dates of a certificate; None: nothing. Args: now: an aware time."""
    if not certificate.is_valid_at(now):
        return f"is valid from {_day(certificate.not_before)} to {_day(certificate.not_after)}, not now"
    if certificate.not_after - now < SOON:
        return f"expires at {_day(certificate.not_after)}"
    return None


def _day(instant: datetime.datetime) -> str:
    return instant.strftime("%Y-%m-%d %H:%M UTC")


# What is wrong with the certificates in a file.
#
# Source: noded.md 3 and 6.


def faults_in_file(path: Path) -> Iterator[str]:
    """All faults, each with what to do; none if the certificates are good for more than 30 days.

    Raises: PermissionError: this user may not read the file.
    """
    option = "--new-cluster-certificate" if path.name == "server.pem" else "--new-node-certificates"
    now = datetime.datetime.now(datetime.UTC)
    try:
        content = path.read_bytes()
        found = [read_certificate(each) for each in certificates_in(content)] or [read_certificate(content)]
    except PermissionError:
        raise
    except OSError as error:
        yield explain_os_error(error)
        return
    except DamagedFile as error:
        yield f"'{path}': {error.message}"
        return
    for certificate in found:
        if (fault := fault_of(certificate, now)) is not None:
            yield f"'{path}' {fault}; renew it with: gnt-cluster renew-crypto {option}"


# The certificates of an installation: made where they are missing.
#
# Source: noded.md 3.


def make_missing(paths: Paths, node_name: str) -> str:
    """Make the cluster's certificate and this node's, where they are missing; return the digest of the node's.

    Raises: DamagedFile: a file is there and holds no certificate. NotFound: only a candidate could make it. OSError.
    Durability: on return both survive a loss of power.
    """
    now = datetime.datetime.now(datetime.UTC)
    if not paths.server_pem.exists():
        write_certificate(paths.server_pem, make_cluster_certificate(now))
    if not paths.client_pem.exists():
        if not has_key(paths.server_pem.read_bytes()):
            raise NotFound(
                f"'{paths.client_pem}' is missing, and this node cannot make it: the key of the cluster is on master "
                f"candidates only; let the node come back: gnt-cluster join-token --readd {node_name}, on the master"
            )
        node = make_node_certificate(paths.server_pem.read_bytes(), node_name, now)
        write_certificate(paths.client_pem, node)
    return digest_of(paths.client_pem.read_bytes())


# The new certificate of the cluster that waits on the master until a renewal has taken it into use.
#
# Source: DESIGN section 13.


def make_next(paths: Paths) -> bool:
    """Make the new certificate; one that is waiting already, of an unfinished renewal, stays. Return whether it is new.

    Raises: Denied: this user is neither root nor the owner of the installation. OSError.
    Durability: on return it survives a loss of power.
    """
    owner = check_owner(paths.data, "make a new certificate for the cluster")
    if paths.next_server_pem.exists():
        return False
    now = datetime.datetime.now(datetime.UTC)
    content = make_cluster_certificate(now, mark=now.strftime("%Y%m%dT%H%M%SZ"))
    durably(lambda: write_files([FileWrite(paths.next_server_pem, content, PRIVATE_MODE, owner=owner)]))
    return True


# The certificates of one node while they are renewed: a new key beside the one in use, until its certificate comes.
#
# Theory. Each change is one file that is replaced as a whole, so a crash leaves the old certificate or the new one, and
# every step can be repeated.
#
# Source: DESIGN section 13; noded.md 3.


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


# The certificate of the HTTP interface: made where it is missing, and signed by itself.
#
# Source: rapi.md 1.


# names that every machine has
_LOCAL: Final = ("localhost", "127.0.0.1", "::1")


def make_missing_web_certificate(path: Path, *names: str) -> bool:
    """Make a file of key and certificate if there is none; return whether it was missing.

    Args: names: of this machine: host names and addresses.
    Raises: OSError.
    Durability: on return it survives a loss of power.
    """
    if path.exists():
        return False
    write_certificate(path, make_web_certificate([*names, os.uname().nodename], datetime.datetime.now(datetime.UTC)))
    return True


def make_web_certificate(names: Iterable[str], now: datetime.datetime) -> bytes:
    """Make a P-256 key and a certificate for servers of these names, and for calls from the same machine.

    Args: names: the first one is that of the subject. now: an aware time.
    """
    # imported late: it takes a tenth of a second, and most programs make no certificate
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import ExtendedKeyUsageOID

    all_names = list(dict.fromkeys(name for name in (*names, *_LOCAL) if name))
    key, subject = _new_key(), _named(all_names[0])
    public = key.public_key()
    certificate = (
        x509.CertificateBuilder(subject, subject, public, x509.random_serial_number(), now - _EARLIER, now + VALIDITY)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in all_names]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(public), critical=False)
        .sign(key, hashes.SHA256())
    )
    return _key_pem(key) + _certificate_pem(certificate)


def _general_name(name: str) -> "x509.GeneralName":
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        # a name beyond ASCII, which no certificate takes as it is
        return x509.DNSName(name.encode("idna").decode("ascii") if not name.isascii() else name)
