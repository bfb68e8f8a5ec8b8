"""What is told of resources that a submission lacks (DESIGN section 16)."""

from typing import Any, cast

import pytest

from cli.connection import Luxid
from cli.submitting.submission import tell_lacking
from common.errors import ConnectionLost, RemoteError, Unavailable
from common.queue.terms import JobTerms, Use, terms_entry


class _Refusing:
    def __init__(self, error: Exception) -> None:
        self._error = error

    def call(self, request: object, *, timeout_s: float | None = None) -> Any:
        raise self._error


@pytest.mark.parametrize(
    "error",
    [
        ConnectionLost("luxid went away"),
        Unavailable("luxid is away"),
        RemoteError("no", code="denied", wire_name="Denied"),
    ],
)
def test_the_ids_of_submitted_jobs_are_told_also_if_luxid_goes_away_meanwhile(error: Exception) -> None:
    entry = terms_entry(JobTerms(uses=(Use("", "kits", 1),)), 1).to_wire()

    # it returns, so that its caller tells the ids
    tell_lacking(cast(Luxid, _Refusing(error)), [[{"OP_ID": "OP_TEST_DUMMY", "reason": [entry]}]])
