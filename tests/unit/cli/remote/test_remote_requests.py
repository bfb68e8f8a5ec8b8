"""The table from LUXI requests to calls of /3, where a real server is hard to bring to it."""

import socket
import time
from typing import TypeVar, cast

import pytest

from cli.remote.luxid import RemoteLuxid
from cli.remote.requests import carry_out
from common.errors import InvalidRequest, ProtocolError, RemoteError, Unavailable
from common.ids import JobId
from common.objects.kinds import QueryKind
from protocol.luxi.jobs import CancelJobs, Done, Refused, SubmitManyJobs
from protocol.luxi.queries import Page, Query, QueryJobs, QueryResult
from protocol.luxi.queue import ListSchedules, SetDrainFlag
from protocol.luxi.why import ExplainJobs, ReadJobWaits, ReadLeftProcesses
from protocol.rapid.clients.blocking import RapidClient
from protocol.rapid.clients.calls import BareJobs, HttpCall
from protocol.rapid.clients.place import Place
from protocol.rapid.explanations import Explanation, Explanations, LeftProcessesOfJobs, WaitsOfJobs
from protocol.rapid.jobactions import ChangedJob, ManyChanged

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


def test_a_job_that_the_reply_leaves_out_is_told_as_unknown() -> None:
    class Forgetful(RapidClient):
        def run(self, call: HttpCall[T]) -> T:
            return cast(T, ManyChanged(False, 2, (), "", (ChangedJob(JobId(8), True, "job 8 is canceled"),)))

    with Forgetful("http://127.0.0.1:1") as client:
        answers = carry_out(CancelJobs((JobId(7), JobId(8))), client)

    assert answers == (
        Done(False, "http://127.0.0.1:1 does not tell what became of job 7; look with 'gnt-job info'"),
        Done(True, "job 8 is canceled"),
    )


def test_a_part_of_the_jobs_is_asked_for_as_a_part() -> None:
    class Listing(RapidClient):
        def run(self, call: HttpCall[T]) -> T:
            asked.append(call.body)
            return cast(T, BareJobs([{"user": "ada"}, {"user": "bob"}], next="more"))

    asked: list[object] = []
    with Listing("http://127.0.0.1:1") as client:
        found = carry_out(Query(QueryKind.JOB, ("user",), None, Page(2)), client)

    assert isinstance(found, QueryResult)
    assert list(found.values()) == [["ada"], ["bob"]]
    (query,) = asked
    assert isinstance(query, dict)
    assert (query["limit"], query["ascending"]) == (2, False)


def test_a_call_with_a_limit_of_time_keeps_to_it() -> None:
    began = time.monotonic()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = Place.at(f"http://127.0.0.1:{silent.getsockname()[1]}")
        with RemoteLuxid(place) as luxid, pytest.raises(Unavailable, match="gave no reply in time"):
            luxid.call(ListSchedules(0), timeout_s=0.2)

    # without a limit it is a minute
    assert time.monotonic() - began < 30


def test_a_limit_of_time_is_for_all_pages_together() -> None:
    def endless(self: RapidClient, call: HttpCall[T]) -> T:
        clock[0] += 0.2
        return cast(T, BareJobs([{"id": 7}], next=str(clock[0])))

    clock = [100.0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cli.remote.luxid.time.monotonic", lambda: clock[0])
        patch.setattr(RapidClient, "run", endless)
        with RemoteLuxid(Place.at("http://127.0.0.1:1")) as luxid, pytest.raises(Unavailable):
            luxid.call(QueryJobs(None, ("id",)), timeout_s=0.5)


@pytest.mark.parametrize(
    ("request_", "reply"),
    [
        (QueryJobs((JobId(7), JobId(8)), ("status",)), BareJobs([{"status": "running"}])),
        (ExplainJobs((JobId(7), JobId(8))), Explanations((Explanation(JobId(8), None),))),
        (ReadJobWaits((JobId(7),)), WaitsOfJobs(())),
        (ReadLeftProcesses((JobId(7),)), LeftProcessesOfJobs(())),
    ],
)
def test_a_reply_of_which_it_is_not_known_whose_it_is_is_told(request_: object, reply: object) -> None:
    class Forgetful(RapidClient):
        def run(self, call: HttpCall[T]) -> T:
            return cast(T, reply)

    with Forgetful("http://127.0.0.1:1") as client, pytest.raises(ProtocolError, match=r"was asked about . jobs, and"):
        carry_out(request_, client)


def test_a_list_without_an_end_is_told() -> None:
    class Endless(RapidClient):
        def run(self, call: HttpCall[T]) -> T:
            return cast(T, BareJobs([{"id": 7}], next="more"))

    with Endless("http://127.0.0.1:1") as client, pytest.raises(ProtocolError, match="the same page of a list again"):
        carry_out(QueryJobs(None, ("id",)), client)
