"""The header `Authorization`. Pure.

Source: rapi.md section 2; RFC 7617; RFC 6750.
"""

import base64
import binascii
from typing import Final

import attrs

from common.webaccess.passwords import REALM
from common.webaccess.tokens import BadToken
from daemons.rapid.refusals import Refused

_BASIC: Final = f'Basic realm="{REALM}"'
_BEARER: Final = 'Bearer realm="gantry"'


@attrs.frozen
class NamePassword:
    name: str
    password: str = attrs.field(repr=False)


@attrs.frozen
class Bearer:
    text: str = attrs.field(repr=False)


def read_credentials(header: str) -> NamePassword | Bearer:
    """What the header says.

    Raises: Refused: 400: Basic without a token; 401: another scheme, or a token that cannot be read.
    """
    scheme, _, rest = header.strip().partition(" ")
    rest = rest.strip()
    match scheme.lower():
        case "basic" if not rest:
            raise Refused(400, "the header 'Authorization' has the scheme Basic and no credentials")
        case "basic":
            return _read_basic(rest)
        case "bearer":
            return Bearer(rest)
        case _:
            raise unauthenticated("the header 'Authorization' must have the scheme Basic or Bearer")


def _read_basic(text: str) -> NamePassword:
    try:
        name, colon, password = base64.b64decode(text, validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        raise unauthenticated("the credentials cannot be read: they are the base64 form of 'name:password'") from None
    if not colon:
        raise unauthenticated("the credentials have no colon between name and password")
    return NamePassword(name, password)


def unauthenticated(message: str, *, code: str = "unauthenticated") -> Refused:
    """The refusal of a caller who has not shown who he is; the face adds what it asks for."""
    return Refused(401, message, code=code)


def bad_token(error: BadToken) -> Refused:
    """The refusal of a token."""
    challenge = f'{_BASIC}, {_BEARER}, error="invalid_token", error_description="{error.message}"'
    return Refused(401, error.message, code=error.code, headers={"WWW-Authenticate": challenge})
