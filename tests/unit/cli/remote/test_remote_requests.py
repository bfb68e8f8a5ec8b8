"""The table from LUXI requests to calls of /3, where a real server is hard to bring to it."""

from typing import TypeVar

import pytest

from cli.remote.requests import carry_out
from common.errors import InvalidRequest, RemoteError
from protocol.luxi.queue import SetDrainFlag
from protocol.luxi.submission import Refused, SubmitManyJobs
from protocol.rapid.clients.blocking import RapidClient
from protocol.rapid.clients.httpcall import HttpCall

T = TypeVar("T")


class Refusing(RapidClient):
    """A server that takes no job."""

    def __init__(self, jobs: object = None) -> None:
        self._error = RemoteError("none was taken", code="conflict", wire_name="GenericError", jobs=jobs)

    def run(self, call: HttpCall[T]) -> T:
        raise self._error


def test_jobs_of_which_none_was_taken_are_told_each_with_its_reason() -> None:
    client = Refusing(jobs=[{"id": None, "refused": "too long"}, {"id": None, "refused": "too late"}])

    assert carry_out(SubmitManyJobs(((), ())), client) == (Refused("too long"), Refused("too late"))


def test_a_submission_that_is_refused_as_a_whole_is_an_error() -> None:
    with pytest.raises(RemoteError, match="none was taken"):
        carry_out(SubmitManyJobs(((), ())), Refusing())


def test_what_no_call_over_http_does_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="only on a machine of the cluster"):
        carry_out(SetDrainFlag(True), Refusing())
