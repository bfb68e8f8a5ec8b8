"""Certificates of a cluster and its nodes: made, signed, read, and compared by their digests.

Theory. The cluster has one certificate, `server.pem`, the same on all nodes. It signs itself, is what every node
daemon shows to its callers, and signs the certificates of the nodes (`client.pem`), which callers show to node
daemons. Names in certificates mean nothing for the checks: a chain to `server.pem` opens a connection, and the digest
of the caller's certificate decides what it may do (`master_candidates_certs` in ssconf).

Ours have P-256 keys and version 3; those of Ganeti (RSA, version 1, without extensions) are read and signed with just
the same. A file holds the private key, then the certificate.

`cryptography` is imported late: only making, signing and reading need it, and most programs do none of that.

Source: noded.md 3.
"""

import datetime
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import attrs

from common.durable.atomicfile import FileWrite, write_files
from common.errors import DamagedFile, InvalidRequest
from common.nodes.certificates.pemcontent import digest_of

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes

T = TypeVar("T")

# mode of server.pem and client.pem, which hold private keys
PRIVATE_MODE: Final = 0o440
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
