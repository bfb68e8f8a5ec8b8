"""Errors under /3: problem details.

Source: RFC 9457.
"""

from collections.abc import Mapping
from typing import Final

import attrs

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
    "invalid": (
        "The request is wrong",
        "A part of the request cannot be read, or has a value out of range; the detail names it. "
        "Nothing was changed; send the corrected request.",
    ),
    "unauthenticated": (
        "Nobody is logged in",
        "The request needs a user and a password, or a token. Nothing was changed.",
    ),
    "wrong_password": (
        "User or password are wrong",
        "There is no such user, or this is not the password. "
        "An administrator sets another one ('gantry user password').",
    ),
    "token_unknown": (
        "This is not a token of this cluster",
        "The token is of another cluster, was not copied whole, or has been forgotten long after its end. "
        "Ask for a new one ('gantry token create').",
    ),
    "token_expired": ("The token has expired", "Ask for a new one ('gantry token create')."),
    "token_revoked": (
        "The token was revoked",
        "An administrator has withdrawn it. Ask for a new one ('gantry token create').",
    ),
    "too_many_attempts": (
        "Too many wrong passwords came from this address",
        "The password was not checked. Try again after the seconds of the header Retry-After.",
    ),
    "denied": (
        "This caller may not do that",
        "The user or token lacks a right, or the job belongs to another user. Nothing was changed; "
        "an administrator gives rights.",
    ),
    "not_found": ("There is no such thing", "The job, filter rule or path does not exist, or not any more."),
    "conflict": (
        "The state of things does not allow this",
        "For example, the job has ended, a rule refuses new jobs, or a filter now hits other jobs "
        "than in the dry run. Look at the present state before trying again.",
    ),
    "order_violation": (
        "A lock would be taken out of order",
        "New locks must lie after those already held; nothing was changed.",
    ),
    "unavailable": (
        "Something cannot be reached at the moment",
        "A daemon is away, the queue is closed or full, or there is too much to do. Try again; the same "
        "Idempotency-Key makes sure that a job is not submitted twice.",
    ),
    "internal": ("A fault in the daemon", "Its log has the details, under the id in the detail."),
}
