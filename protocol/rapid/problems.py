"""Errors under /3: problem details.

Source: RFC 9457.
"""

from collections.abc import Mapping
from typing import Final

import attrs

from common.errors import ERROR_CODES, HTTP_CODES
from common.shapes import Lenient

MEDIA_TYPE: Final = "application/problem+json"
# page that describes the codes; the type of a problem is this and its code
PAGE: Final = "/3/problems"


@attrs.frozen
class Problem(Lenient):
    """Why a request was refused; some codes have further members."""

    # URI that names the kind, and leads to its description
    type: str
    title: str
    status: int
    detail: str
    # for programs: "not_found"
    code: str


def type_of(code: str) -> str:
    """The `type` of problems with this code."""
    return f"{PAGE}#{code}"


# code -> (title, what it means and what to do)
CODES: Final[Mapping[str, tuple[str, str]]] = {
    code: (each.title, f"{each.meaning} {each.remedy}") for code, each in {**HTTP_CODES, **ERROR_CODES}.items()
}
