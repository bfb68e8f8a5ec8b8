"""Where a server of /3 is, how it proves that it is the right one, and who calls.

Source: DESIGN section 15.
"""

import hashlib
import re
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Self, cast
from urllib.parse import unquote, urlsplit

import attrs

from common.errors import InvalidRequest

# port of a server that is named without a scheme; Ganeti's
USUAL_PORT: Final = 5080
REMOTE_VARIABLE: Final = "GANTRY_REMOTE"
TOKEN_VARIABLE: Final = "GANTRY_TOKEN"
PASSWORD_VARIABLE: Final = "GANTRY_PASSWORD"
CA_VARIABLE: Final = "GANTRY_CA"
FINGERPRINT_VARIABLE: Final = "GANTRY_FINGERPRINT"

_FINGERPRINT: Final = re.compile(r"(?:sha256[:=])?([0-9a-fA-F]{64})")
_LOOPBACK: Final = re.compile(r"localhost|127(?:\.\d{1,3}){3}|::1")


@attrs.frozen
class Credentials:
    """A token; or a user with his password; or nothing."""

    token: str | None = attrs.field(default=None, repr=False)
    user: str | None = None
    password: str | None = attrs.field(default=None, repr=False)


@attrs.frozen
class Trust:
    """How the server proves that it is the right one; without both, by a certificate that this machine trusts."""

    # PEM file of certificates, of which one signed the server's, or is it
    ca: Path | None = None
    # SHA256 of the server's certificate, 64 lower-case digits
    fingerprint: str | None = None


@attrs.frozen
class Place:
    """A server, and all that is needed to call it."""

    # "https://gantry.example.com:5080", without a slash at its end
    url: str
    credentials: Credentials = Credentials()
    trust: Trust = Trust()
    # Unix socket over which it is reached; None: over the network
    socket: Path | None = None

    @property
    def name(self) -> str:
        """The server in error texts."""
        return f"rapid at {self.socket}" if self.socket else self.url

    @classmethod
    def at(
        cls,
        address: str,
        *,
        token: str | None = None,
        password: str | None = None,
        ca: Path | str | None = None,
        fingerprint: str | None = None,
    ) -> Self:
        """Read an address: `https://[USER@]HOST[:PORT][/PATH]`, `HOST[:PORT]`, or `unix:/PATH` of rapid's socket.

        Raises: InvalidRequest: it cannot be used, or has a password in it, which other users of this machine see.
        """
        # an empty variable counts as one that is not set
        token, password = token or None, password or None
        trust = Trust(Path(ca) if ca else None, read_fingerprint(fingerprint) if fingerprint else None)
        if address.startswith("unix:"):
            # unix:///run/x as well as unix:/run/x
            path = address.removeprefix("unix:").removeprefix("//")
            return cls("http://gantry", Credentials(token), socket=Path(path))
        url, user = _read_url(address)
        if token is not None and user is not None:
            raise InvalidRequest(f"user '{user}' in the address and a token exclude each other; leave one of them out")
        return cls(url, Credentials(token, user, None if user is None else password), trust)

    @classmethod
    def of_environment(cls, environment: Mapping[str, str]) -> Self | None:
        """The server that $GANTRY_REMOTE names, with the other variables beside it; None: it is not set.

        Raises: as `at`.
        """
        address = environment.get(REMOTE_VARIABLE)
        if not address:
            return None
        return cls.at(
            address,
            token=environment.get(TOKEN_VARIABLE),
            password=environment.get(PASSWORD_VARIABLE),
            ca=environment.get(CA_VARIABLE),
            fingerprint=environment.get(FINGERPRINT_VARIABLE),
        )


def read_fingerprint(text: str) -> str:
    """A fingerprint as people write it, `sha256:ab12…` or OpenSSL's `AB:12:…`, as 64 lower-case digits.

    Raises: InvalidRequest.
    """
    bare = text.strip()
    scheme, separator, rest = bare.partition("=")
    # openssl x509 -fingerprint prints "sha256 Fingerprint=AB:12:…"
    if separator and scheme.lower() in ("sha256 fingerprint", "sha256"):
        bare = rest
    head, _, digits = bare.rpartition("sha256:")
    found = _FINGERPRINT.fullmatch(digits.replace(":", "")) if not head else None
    if found is None:
        raise InvalidRequest(
            f"fingerprint '{text:.80}' is not the SHA256 of a certificate: sha256: and 64 hexadecimal digits"
        )
    return found[1].lower()


def _read_url(address: str) -> tuple[str, str | None]:
    """The address without a user, and the user."""
    has_scheme = "://" in address
    try:
        parts = urlsplit(address if has_scheme else f"https://{address}")
        port = parts.port or (None if has_scheme else USUAL_PORT)
    except ValueError as error:
        raise InvalidRequest(f"address '{_shown(address)}' cannot be read: {str(error).lower()}") from None
    if parts.password is not None:
        raise InvalidRequest(
            f"an address with a password is seen by others; write only the user, and the password into "
            f"${PASSWORD_VARIABLE}, or use a token"
        )
    host = parts.hostname
    if parts.scheme not in ("https", "http") or not host or parts.query or parts.fragment:
        raise InvalidRequest(f"address '{_shown(address)}' is not like https://gantry.example.com:{USUAL_PORT}")
    if parts.scheme == "http" and not _LOOPBACK.fullmatch(host):
        raise InvalidRequest(f"over http:// to '{host}' others could read what is sent; write https://")
    place = f"[{host}]" if ":" in host else host
    url = f"{parts.scheme}://{place}{'' if port is None else f':{port}'}{parts.path.rstrip('/')}"
    return url, unquote(parts.username) if parts.username else None


def _shown(address: str) -> str:
    """The address without what may be a password."""
    scheme, separator, rest = address.rpartition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"[:100]


# TLS towards a server: the certificates that are trusted, or the one that was pinned.
#
# Source: DESIGN section 15.


class WrongFingerprint(ssl.SSLError):
    """The server's certificate is not the one that was pinned."""

    def __init__(self, seen: str) -> None:
        super().__init__(1, f"certificate sha256:{seen} is not the pinned one")
        self.seen = seen


def make_context(trust: Trust) -> ssl.SSLContext:
    """Raises: InvalidRequest: the file of certificates cannot be read."""
    if trust.fingerprint is not None:
        return _pinned(trust.fingerprint)
    context = _system() if trust.ca is None else _of_file(trust.ca)
    # of Python 3.13's default; a certificate of version 1 has no extensions
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    # the file may have the server's own certificate, whoever signed it
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def fingerprint_of(der: bytes) -> str:
    """The SHA256 of a certificate."""
    return hashlib.sha256(der).hexdigest()


def errors_behind(error: BaseException) -> Iterator[BaseException]:
    """The error and its causes, the nearest first."""
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__


def _system() -> ssl.SSLContext:
    return ssl.create_default_context()


def _of_file(path: Path) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=path)
    except ssl.SSLError:
        raise InvalidRequest(f"'{path}' has no certificate in PEM form") from None
    except OSError as error:
        reason = (error.strerror or "it cannot be read").lower()
        raise InvalidRequest(f"'{path}', the file of trusted certificates, cannot be read: {reason}") from None


class _PinnedSocket(ssl.SSLSocket):
    """Checks the certificate after the handshake, before anything is sent."""

    def do_handshake(self, block: bool = False) -> None:
        super().do_handshake(block)
        _check(self.context, self.getpeercert(binary_form=True))


class _PinnedObject(ssl.SSLObject):
    """As `_PinnedSocket`, for programs with an event loop."""

    def do_handshake(self) -> None:
        super().do_handshake()
        _check(self.context, self.getpeercert(binary_form=True))


class _PinnedContext(ssl.SSLContext):
    """A context for one certificate, whatever it says."""

    fingerprint: str
    sslsocket_class = _PinnedSocket
    sslobject_class = _PinnedObject


def _pinned(fingerprint: str) -> ssl.SSLContext:
    context = _PinnedContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    # not unchecked: by its fingerprint
    context.verify_mode = ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.fingerprint = fingerprint
    return context


def _check(context: ssl.SSLContext, der: bytes | None) -> None:
    """Raises: WrongFingerprint."""
    seen = fingerprint_of(der or b"")
    if seen != cast(_PinnedContext, context).fingerprint:
        raise WrongFingerprint(seen)
