"""Refusals of rapid itself, with their status; the faces give them their form.

Source: rapi.md section 4; RFC 9457.
"""

from collections.abc import Mapping
from typing import Final

from common.errors import GantryError, Unavailable

# status of errors of the daemons, by their code
STATUS_OF: Final[Mapping[str, int]] = {
    "invalid": 400,
    "denied": 403,
    "not_found": 404,
    "conflict": 409,
    "order_violation": 409,
    "precondition_failed": 412,
    "over_limit": 429,
    "unavailable": 503,
    "internal": 500,
}


class Silent(Unavailable):
    """a daemon behind rapid cannot be reached; it has not acted"""


class RequestRefused(GantryError):
    """the request is refused"""

    def __init__(
        self, status: int, message: str, *, code: str = "", headers: Mapping[str, str] | None = None, **fields: object
    ) -> None:
        super().__init__(message, **fields)
        self.status = status
        self.code = code or _CODES.get(status, "invalid")  # type: ignore[misc]  # of this error, not of the class
        self.headers = dict(headers or {})


_CODES: Final = {
    401: "unauthenticated",
    403: "denied",
    404: "not_found",
    409: "conflict",
    500: "internal",
    503: "unavailable",
}


def status_of(error: GantryError) -> int:
    """The status of a reply with this error."""
    return error.status if isinstance(error, RequestRefused) else STATUS_OF.get(error.code, 500)
