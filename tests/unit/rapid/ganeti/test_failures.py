"""Which status an error has for Ganeti's clients.

Source: rapi.md 4, with its advice where the real one is broken.
"""

import pytest

from common.errors import (
    ConnectionLost,
    Denied,
    GantryError,
    InvalidRequest,
    NotFound,
    ProtocolError,
    RemoteError,
    Unavailable,
)
from daemons.rapid.ganeti.core.reads import ganetis_status, refusal_of
from daemons.rapid.refusals import RequestRefused


def remote(code: str, wire_name: str, *args: object) -> RemoteError:
    return RemoteError("a text", code=code, wire_name=wire_name, wire_args=["a text", *args])


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (InvalidRequest("x"), 400),
        (NotFound("x"), 404),
        (Denied("x"), 403),
        (RequestRefused(415, "x"), 415),
        (remote("invalid", "GenericError"), 400),
        (remote("not_found", "JobLost"), 404),
        (remote("denied", "GenericError"), 403),
        (remote("unavailable", "GenericError"), 503),
        (RemoteError("full", code="unavailable", wire_name="JobQueueFull"), 503),
        (remote("conflict", "OpPrereqError", "unknown_entity"), 404),
        (remote("conflict", "OpPrereqError", "wrong_input"), 400),
        (remote("conflict", "OpPrereqError", "wrong_state"), 409),
        (remote("over_limit", "OpPrereqError", "temp_insufficient_resources"), 429),
        (remote("internal", "GenericError"), 500),
        (remote("something new", "GenericError"), 500),
        (Unavailable("no luxid"), 504),
        (ConnectionLost("luxid went"), 504),
        (ProtocolError("no luxid at all"), 502),
    ],
)
def test_an_error_has_the_status_that_tells_whose_fault_it_is(error: GantryError, status: int) -> None:
    assert ganetis_status(error) == status
    assert refusal_of(error).status == status
    assert refusal_of(error).message == error.message
