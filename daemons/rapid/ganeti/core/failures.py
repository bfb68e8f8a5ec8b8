"""The status of an error, as Ganeti's clients know it.

Theory. Ganeti sends 500 for most errors of its queue, and 502 for requests that luxid does not understand, which looks
like an outage. Here an error that the client has made is 4xx: 400 for what is wrong, 404 for what is not there, 403
for what the caller may not do, 409 for what the state of things does not allow.

Source: rapi.md 4.
"""

from typing import Final

from common.errors import GantryError, ProtocolError, RemoteError, Unavailable
from daemons.rapid.refusals import Refused, status_of

# codes of Ganeti's errors about what is asked; others are about the state of things
_STATUS_OF_REASON: Final = {"unknown_entity": 404, "wrong_input": 400}


def ganetis_status(error: GantryError) -> int:
    """The status of a reply with this error."""
    if isinstance(error, RemoteError):
        reason = _reason(error) if error.wire_name == "OpPrereqError" else ""
        return _STATUS_OF_REASON.get(reason, status_of(error))
    if isinstance(error, Unavailable):
        # luxid is not there, or went before it answered
        return 504
    return 502 if isinstance(error, ProtocolError) else status_of(error)


def refusal_of(error: GantryError) -> Refused:
    """The error with its status."""
    return error if isinstance(error, Refused) else Refused(ganetis_status(error), error.message)


def _reason(error: RemoteError) -> str:
    args = error.wire_args()
    return str(args[1]) if len(args) > 1 else ""
