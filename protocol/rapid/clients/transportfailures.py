"""What httpx2 raises when no reply came, as our errors, with the next step."""

import socket
import ssl
from typing import Final

import httpx2

from common.printable import printable
from protocol.rapid.clients.place import Place
from protocol.rapid.clients.retries import Failure, LostReply, NoReply
from protocol.rapid.clients.tls import WrongFingerprint, errors_behind

_NEVER_SENT: Final = Failure(may_have_arrived=False)
# of OpenSSL: the certificate is for another name, or for no name at all
_OTHER_NAME: Final = 62
_OVER: Final = 10
# of h11, in texts on what is not HTTP; without it, the connection was closed too early
_ILLEGAL: Final = "illegal"
_REFUSED: Final = "; is the address right, and is rapid enabled and running there?"


class UnknownCertificate(NoReply):
    """Nobody whom this machine trusts has signed the server's certificate."""


def explain_failure(error: httpx2.RequestError, place: Place, *, is_harmless: bool = True) -> NoReply:
    """The error for a call that got no reply.

    Args: is_harmless: as of the call: then nobody needs to know whether it was carried out.
    """
    for cause in errors_behind(error):
        if isinstance(cause, ssl.SSLError):
            return _explain_tls(cause, place)
        if isinstance(cause, socket.gaierror):
            return NoReply(f"{place.name} cannot be found: nobody knows this name; is the address right?")
    if isinstance(error, httpx2.ConnectTimeout):
        return NoReply(f"{place.name} cannot be reached in time{_REFUSED}", _NEVER_SENT)
    if isinstance(error, httpx2.ConnectError):
        return NoReply(f"{place.name} cannot be reached: {_reason(error)}{_REFUSED}", _NEVER_SENT)
    if isinstance(error, httpx2.ReadTimeout | httpx2.WriteTimeout | httpx2.PoolTimeout):
        return NoReply(f"{place.name} gave no reply in time", Failure(may_have_arrived=True))
    if isinstance(error, httpx2.RemoteProtocolError) and _ILLEGAL in str(error):
        text = printable(str(error))[:100]
        return NoReply(f"{place.name} does not speak HTTP: {text}; is the address right?")
    if isinstance(error, httpx2.TransportError | httpx2.DecodingError):
        hint = "; is it an https:// address?" if place.url.startswith("http:") and place.socket is None else ""
        text = f"{place.name} closed the connection before it replied{hint}"
        return NoReply(text, Failure(may_have_arrived=True)) if is_harmless else LostReply(text)
    return NoReply(f"{place.name} cannot be called: {printable(str(error))[:100]}")


def _explain_tls(error: ssl.SSLError, place: Place) -> NoReply:
    if isinstance(error, WrongFingerprint):
        return NoReply(
            f"{place.name} shows the certificate sha256:{error.seen}, not the one that was pinned; nothing was sent; "
            "if it was renewed there, pin the new one, else someone is in between"
        )
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code == _OVER:
            return NoReply(f"the certificate of {place.name} is over; it must be renewed there; nothing was sent")
        if error.verify_code == _OTHER_NAME:
            return UnknownCertificate(
                f"the certificate of {place.name} is for another name; nothing was sent; pin it by its fingerprint, "
                "or use the name that it has"
            )
        return UnknownCertificate(
            f"nobody known here has signed the certificate of {place.name} (it may have signed itself); nothing was "
            "sent; trust it by its file, or pin its fingerprint"
        )
    reason = (error.reason or "unknown reason").lower().replace("_", " ")
    return NoReply(f"no TLS connection to {place.name}: {reason}; is it an https:// address?")


def _reason(error: httpx2.ConnectError) -> str:
    for cause in errors_behind(error):
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror.lower()
    return printable(str(error)).lower()[:100]
