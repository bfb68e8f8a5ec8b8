"""Replies as values or errors."""

import orjson
import pytest

from common.errors import JobLost, RemoteError
from common.ids import JobId
from common.queue.jobs import JobState
from protocol.rapid.clients.calls import cancel_job, delete_filter, get_job
from protocol.rapid.clients.replies import (
    FIRST_PATIENCE_S,
    PATIENCE_S,
    Failure,
    HttpReply,
    NoReply,
    next_pause,
    read_value,
)
from protocol.rapid.jobs import Job

_SERVER = "https://gantry.example.com"
_JSON = {"content-type": "application/json"}
_PROBLEM = {"content-type": "application/problem+json"}


def _problem(status: int, code: str, headers: dict[str, str] | None = None, **facts: object) -> HttpReply:
    problem = {"type": "about:blank", "title": "T", "status": status, "detail": "no, because", "code": code, **facts}
    return HttpReply(status, {**_PROBLEM, **(headers or {})}, orjson.dumps(problem))


def test_a_value_comes_back_typed() -> None:
    reply = HttpReply(200, {"content-type": "application/json; charset=utf-8"}, b'{"id":7,"status":"success","new":1}')

    assert read_value(get_job(7), reply, _SERVER) == Job(JobId(7), JobState.SUCCESS)


def test_no_content_is_a_value() -> None:
    assert read_value(delete_filter("u"), HttpReply(204, {}, b""), _SERVER) is None


def test_a_problem_is_an_error_with_its_code_and_facts() -> None:
    with pytest.raises(RemoteError) as caught:
        read_value(cancel_job(7, kill=False), _problem(409, "conflict", done=False, message="x"), _SERVER)

    assert (caught.value.code, caught.value.message, caught.value.fields) == (
        "conflict",
        "no, because",
        {"done": False},
    )


@pytest.mark.parametrize(("status", "words"), [(404, "404 Not Found"), (499, "499")])
def test_a_problem_without_words_is_told_by_its_status(status: int, words: str) -> None:
    with pytest.raises(RemoteError) as caught:
        read_value(delete_filter("u"), HttpReply(status, _PROBLEM, b'{"self": "x"}'), _SERVER)

    assert caught.value.message == words


def test_a_job_that_is_not_there_is_lost_under_luxids_name() -> None:
    with pytest.raises(RemoteError) as lost:
        read_value(get_job(7), _problem(404, "not_found"), _SERVER)
    with pytest.raises(RemoteError) as rule:
        read_value(delete_filter("u"), _problem(404, "not_found"), _SERVER)

    assert (lost.value.wire_name, rule.value.wire_name) == (JobLost.wire_name, "GenericError")


def test_a_server_that_is_away_for_a_moment_is_asked_again_and_a_closed_queue_is_not() -> None:
    with pytest.raises(NoReply) as away:
        read_value(get_job(7), _problem(503, "unavailable", {"retry-after": "3"}), _SERVER)
    with pytest.raises(RemoteError) as closed:
        read_value(get_job(7), _problem(503, "unavailable"), _SERVER)

    assert away.value.failure == Failure(may_have_arrived=True, retry_after_s=3)
    assert closed.value.code == "unavailable"


def test_a_node_that_is_not_the_master_says_where_the_cluster_is_served() -> None:
    reply = _problem(503, "unavailable", {"retry-after": "5"}, master="b", url="https://b:5080/3/jobs/7")

    with pytest.raises(NoReply, match=r"the cluster is served at https://b:5080$") as caught:
        read_value(get_job(7), reply, _SERVER)

    # the same address may follow the master: a client that it has served before asks again, another one does not
    assert caught.value.failure == Failure(may_have_arrived=False, retry_after_s=5)
    assert next_pause(caught.value.failure, 1, 0.0, PATIENCE_S, 0.5, is_repeatable=False) == 5
    assert next_pause(caught.value.failure, 1, 0.0, FIRST_PATIENCE_S, 0.5, is_repeatable=True) is None


@pytest.mark.parametrize(
    ("reply", "words", "is_tried_again"),
    [
        (HttpReply(502, {"content-type": "text/html"}, b"<html>Bad Gateway"), "502 Bad Gateway with text/html", True),
        (HttpReply(404, {"content-type": "text/html"}, b"<html>"), "404 Not Found with text/html", False),
        (HttpReply(200, {"content-type": "text/html"}, b"<html>Log in"), "200 OK with text/html", False),
        (
            HttpReply(302, {"location": "https://login/\x1b[2J"}, b""),
            "302 Found, which leads to 'https://login",
            False,
        ),
        (HttpReply(200, _JSON, b"{"), "200 OK", False),
        (HttpReply(200, _JSON, b'{"status":"success"}'), "200 OK", False),
        (HttpReply(403, _PROBLEM, b"[]"), "403 Forbidden", False),
        (HttpReply(799, {}, b""), "by 799;", False),
    ],
)
def test_what_is_not_gantrys_is_told_as_such(reply: HttpReply, words: str, is_tried_again: bool) -> None:
    with pytest.raises(NoReply) as caught:
        read_value(get_job(7), reply, _SERVER)

    assert caught.value.message.startswith(f"{_SERVER} does not reply as Gantry does, but by ")
    assert words in caught.value.message
    assert "\x1b" not in caught.value.message
    assert (caught.value.failure is not None) == is_tried_again
