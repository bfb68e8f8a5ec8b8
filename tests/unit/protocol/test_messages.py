"""Requests: arguments by position and by name, and what is refused (luxid.md 1.4, 2.1)."""

from typing import Any

import pytest

from common.errors import InvalidRequest
from common.ids import JobId
from common.locks import LockMode, LockRequest, Owner, parse_lock
from protocol.luxi.jobs import CancelJob, SubmitJob, SubmitManyJobs
from protocol.luxi.queries import QueryJobs, WaitForJobChange
from protocol.messages import Request, positional, structure_reply, structure_request
from protocol.wconfd.locks import FreeLocks, ListAllLocksOwners, ListLocks, TryUpdateLocks, UpdateLocksWaiting

OWNER = Owner(1, "/run/l")


def test_arguments_are_read_by_position_and_by_name() -> None:
    expected = CancelJob(JobId(7), kill=True)

    assert structure_request(CancelJob, [7, True]) == expected
    assert structure_request(CancelJob, {"kill": True, "job_id": 7}) == expected
    assert structure_request(CancelJob, [7]) == CancelJob(JobId(7))


def test_a_job_id_may_be_a_string_that_holds_a_number() -> None:
    assert structure_request(CancelJob, ["7"]) == CancelJob(JobId(7))


def test_a_fraction_is_rounded_where_a_whole_number_is_wanted() -> None:
    assert structure_request(UpdateLocksWaiting, [[1, "/l"], 0.6, []]) == UpdateLocksWaiting(Owner(1, "/l"), 1, ())


@pytest.mark.parametrize(
    ("kind", "params", "said"),
    [
        (CancelJob, [], "CancelJob lacks job_id; its arguments are job_id, kill"),
        (CancelJob, [7, True, 1], "CancelJob takes at most 2 arguments (job_id, kill), got 3"),
        (CancelJob, [7, 1], "expected true or false, got 1 @ $.kill"),
        (CancelJob, [-7], "expected a job id (a whole number >= 0), got -7 @ $.job_id"),
        (CancelJob, [7.5], "expected a job id (a whole number >= 0), got 7.5 @ $.job_id"),
        (CancelJob, [True], "expected a job id (a whole number >= 0), got True @ $.job_id"),
        (CancelJob, {"job_id": 7, "kil": True}, "unknown key 'kil' @ $"),
        (SubmitJob, ["x"], "expected a list, got 'x' @ $.job"),
        (SubmitManyJobs, [[["x"]]], "expected an object, got 'x' @ $.jobs[0][0]"),
        (TryUpdateLocks, [[1, "/l"], [["nde/a", "shared"]]], "unknown lock level 'nde'"),
        (TryUpdateLocks, [[1], []], "an owner is [job id or name, livelock path, optional pid]; got [1] @ $.owner"),
        (WaitForJobChange, [1, ["status"], None, None], "lacks timeout"),
        (WaitForJobChange, [1, ["status"], None, None, "9"], "expected number, got '9' @ $.timeout"),
    ],
)
def test_wrong_arguments_are_refused_with_place_and_value(kind: type[Request[Any]], params: Any, said: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        structure_request(kind, params)

    assert said in caught.value.message


def test_a_request_goes_over_the_wire_unchanged() -> None:
    request = UpdateLocksWaiting(OWNER, -5, (LockRequest(parse_lock("node/a"), None),))

    assert positional(request) == [[1, "/run/l"], -5, [["node/a", "release"]]]
    assert structure_request(UpdateLocksWaiting, positional(request)) == request


def test_replies_come_back_typed() -> None:
    node = parse_lock("node/a")

    assert structure_reply(ListLocks, [["node/a", "shared"]]) == ((node, LockMode.SHARED),)
    assert structure_reply(FreeLocks, []) == ()
    assert structure_reply(ListAllLocksOwners, [["node/a", [[[1, "/run/l"], "exclusive"]]]]) == (
        (node, ((OWNER, LockMode.EXCLUSIVE),)),
    )
    assert structure_reply(QueryJobs, [[1, "queued"]]) == ((1, "queued"),)


def test_a_reply_of_another_shape_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="reply to listLocks"):
        structure_reply(ListLocks, {"a": 1})
