"""What to do about a server whose certificate nobody here knows: its fingerprint, to compare and to pin.

Source: DESIGN section 15.
"""

import contextlib
import ssl
from typing import Final
from urllib.parse import urlsplit

from common.errors import Unavailable
from protocol.rapid.clients.place import Place
from protocol.rapid.clients.tls import fingerprint_of
from protocol.rapid.clients.transportfailures import UnknownCertificate

_TIMEOUT_S: Final = 10.0
_HTTPS: Final = 443


def with_fingerprint(error: Unavailable, place: Place) -> Unavailable:
    """Add to the error the certificate that the server shows, and how to trust it."""
    if not isinstance(error, UnknownCertificate):
        return error
    seen = _shown_by(place)
    if seen is None:
        return error
    return Unavailable(
        f"{error.message}; it shows sha256:{seen}; if the server has the same, by 'openssl x509 -noout -fingerprint "
        f"-sha256 -in rapi.pem' there, add --fingerprint sha256:{seen}, or --ca with a copy of the certificate"
    )


def _shown_by(place: Place) -> str | None:
    """The fingerprint of the certificate that is shown; None: it shows none any more. No secret is sent."""
    address = urlsplit(place.url)
    with contextlib.suppress(OSError, ValueError):
        text = ssl.get_server_certificate((address.hostname or "", address.port or _HTTPS), timeout=_TIMEOUT_S)
        return fingerprint_of(ssl.PEM_cert_to_DER_cert(text))
    return None
