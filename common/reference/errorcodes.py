"""The codes of errors: what each means, and what to do.

The daemons send a code with each error; programs decide by it, while its message is for people. The HTTP interface
tells the same table under /3/problems, and the manual in gantry-errors(7).
"""

from collections.abc import Mapping
from typing import Final

import attrs


@attrs.frozen
class ErrorCode:
    """What is known of all errors with a code."""

    title: str
    meaning: str
    # what to do; it says so where nothing was changed
    remedy: str


_INVALID: Final = ErrorCode(
    "The request is wrong",
    "A part of the request cannot be read, or has a value out of range; the detail names it.",
    "Nothing was changed; send the corrected request.",
)
_NOT_FOUND: Final = ErrorCode(
    "There is no such thing",
    "The job, filter rule or path does not exist, or not any more.",
    "Look for its present name in a list; 'gnt-job list' shows ended jobs, too, until they are archived and removed.",
)
_CONFLICT: Final = ErrorCode(
    "The state of things does not allow this",
    "For example, the job has ended, a rule refuses new jobs, or a filter now hits other jobs than in the dry run.",
    "Look at the present state before trying again.",
)
_ORDER_VIOLATION: Final = ErrorCode(
    "A lock would be taken out of order",
    "New locks must lie after those already held.",
    "Nothing was changed; free the locks that are named, or ask for all in one request.",
)
_DENIED: Final = ErrorCode(
    "This caller may not do that",
    "The user or token lacks a right, or the job belongs to another user.",
    "Nothing was changed; an administrator gives rights: [access] in gantry.toml, 'gantry user modify'.",
)
_OVER_LIMIT: Final = ErrorCode(
    "This user has as many as allowed",
    "A bound of '[limits]' for one user is reached: jobs in the queue, schedules, or their size; the detail names the "
    "bound and the user's own number.",
    "Nothing was changed; wait until some jobs have ended, or remove some. An administrator raises the bound.",
)
_UNAVAILABLE: Final = ErrorCode(
    "Something cannot be reached at the moment",
    "A daemon is away, the queue is closed or full, or there is too much to do.",
    "'gantry status' tells what is not well. Try again; the same Idempotency-Key makes sure that a job is not "
    "submitted twice, as --key of 'gnt-job run' does.",
)
_INTERNAL: Final = ErrorCode(
    "A fault in the daemon",
    "Its log has the details, under the id in the detail.",
    "'gantry logs --level error' shows them; report them with the release.",
)
# codes of all errors
ERROR_CODES: Final[Mapping[str, ErrorCode]] = {
    "invalid": _INVALID,
    "not_found": _NOT_FOUND,
    "conflict": _CONFLICT,
    "order_violation": _ORDER_VIOLATION,
    "denied": _DENIED,
    "unavailable": _UNAVAILABLE,
    "over_limit": _OVER_LIMIT,
    "internal": _INTERNAL,
}
# codes of the HTTP interface alone
HTTP_CODES: Final[Mapping[str, ErrorCode]] = {
    "unauthenticated": ErrorCode(
        "Nobody is logged in",
        "The request needs a user and a password, or a token.",
        "Nothing was changed; 'gantry user add' and 'gantry token create' make them.",
    ),
    "wrong_password": ErrorCode(
        "User or password are wrong",
        "There is no such user, or this is not the password.",
        "An administrator sets another one ('gantry user password').",
    ),
    "token_unknown": ErrorCode(
        "This is not a token of this cluster",
        "The token is of another cluster, was not copied whole, or has been forgotten long after its end.",
        "Ask for a new one ('gantry token create').",
    ),
    "token_expired": ErrorCode(
        "The token has expired",
        "The day until which it was made is over.",
        "Ask for a new one ('gantry token create').",
    ),
    "token_revoked": ErrorCode(
        "The token was revoked", "An administrator has withdrawn it.", "Ask for a new one ('gantry token create')."
    ),
    "too_many_attempts": ErrorCode(
        "Too many wrong passwords came from this address",
        "The password was not checked.",
        "Try again after the seconds of the header Retry-After.",
    ),
}
# second word of Ganeti's OpPrereqError: what kind of prerequisite is not met
PREREQUISITES: Final[Mapping[str, str]] = {
    "wrong_input": "a parameter has a value that cannot be used",
    "wrong_state": "an object is in a state that does not allow the operation",
    "unknown_entity": "an object that is named does not exist",
    "already_exists": "an object of this name exists",
    "resource_not_unique": "an address or a name is in use elsewhere",
    "insufficient_resources": "there is not enough of what it needs",
    "temp_insufficient_resources": "there is not enough of what it needs at the moment",
    "resolver_error": "the name of a machine cannot be resolved to an address",
    "environment_error": "a program or a node that it needs does not work as it should",
    "internal_error": "a check failed by a fault of its own",
}
