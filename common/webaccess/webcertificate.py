"""The certificate of the HTTP interface: made where it is missing, and signed by itself.

Source: rapi.md 1.
"""

import datetime
import ipaddress
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from common.nodes.certificates.nodecertificates import VALIDITY, write_certificate

if TYPE_CHECKING:
    from cryptography import x509

# names that every machine has
_LOCAL: Final = ("localhost", "127.0.0.1", "::1")
_EARLIER: Final = datetime.timedelta(days=1)
# a common name is no longer (X.520)
_NAME_MAX: Final = 64


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
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    all_names = list(dict.fromkeys(name for name in (*names, *_LOCAL) if name))
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key()
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, all_names[0][:_NAME_MAX])])
    certificate = (
        x509.CertificateBuilder(subject, subject, public, x509.random_serial_number(), now - _EARLIER, now + VALIDITY)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in all_names]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(public), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return private + certificate.public_bytes(Encoding.PEM)


def _general_name(name: str) -> "x509.GeneralName":
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        # a name beyond ASCII, which no certificate takes as it is
        return x509.DNSName(name.encode("idna").decode("ascii") if not name.isascii() else name)
