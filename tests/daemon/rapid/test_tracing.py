"""The trace that a submission belongs to stays with its jobs. Source: W3C Trace Context."""

from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from tests.support.web.rapid import Web

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"
ECHO = {"OP_ID": "OP_RUN_COMMAND", "argv": ["sh", "-c", 'echo "<$TRACEPARENT>"']}

Headers = list[tuple[str, str]]


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with Web(tmp_path_factory.mktemp("tracing")) as web:
        web.start()
        yield web


def submit(web: Web, op: dict[str, Any], headers: Headers) -> int:
    reply = web.local.post("/3/jobs", json={"jobs": [{"ops": [op]}]}, headers=headers)
    assert reply.status_code == 201, reply.text
    number: int = reply.json()["jobs"][0]["id"]
    return number


def ended(web: Web, number: int) -> dict[str, Any]:
    reply = web.local.get(f"/3/jobs/{number}/wait?until=final&fields=status,trace,traceparent")
    job: dict[str, Any] = reply.json()["job"]
    return job


def output(web: Web, number: int) -> str:
    return web.local.get(f"/3/jobs/{number}/output").text


def test_a_job_keeps_the_trace_and_its_command_has_it(web: Web) -> None:
    before = len(web.log().splitlines())

    number = submit(web, ECHO, [("traceparent", PARENT), ("X-Request-Id", "traced-1")])

    assert ended(web, number) == {"id": number, "status": "success", "trace": TRACE, "traceparent": PARENT}
    assert output(web, number) == f"<{PARENT}>\n"
    (line,) = [line for line in web.log().splitlines()[before:] if "call.changed" in line]
    assert f"trace={TRACE}" in line
    assert "request=traced-1" in line
    plain, listed = (web.local.get(f"/3/jobs{query}").json() for query in (f"/{number}", f"?filter=trace={TRACE}"))
    assert (plain["trace"], plain["traceparent"]) == (TRACE, PARENT)
    assert [(job["id"], job["trace"]) for job in listed["jobs"]] == [(number, TRACE)]


def test_events_tell_the_trace_of_a_job(web: Web) -> None:
    with web.local.stream("GET", "/3/events?topics=jobs") as stream:
        lines = stream.iter_lines()
        next(line for line in lines if line == "event: begin")
        number = submit(web, ECHO, [("traceparent", PARENT)])

        for line in lines:
            if line.startswith("data: "):
                found = [job for job in orjson.loads(line[6:]).get("jobs", ()) if job["id"] == number]
                if found:
                    break

    assert found[0]["trace"] == TRACE


def test_a_variable_that_the_job_names_itself_wins(web: Web) -> None:
    number = submit(web, {**ECHO, "env": {"TRACEPARENT": "mine"}}, [("traceparent", PARENT)])

    ended(web, number)

    assert output(web, number) == "<mine>\n"


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("traceparent", "")],
        [("traceparent", PARENT.upper())],
        [("traceparent", PARENT + "-more")],
        [("traceparent", f"00-{'0' * 32}-{SPAN}-01")],
        [("traceparent", PARENT), ("traceparent", PARENT)],
        [("traceparent", "x" * 4000)],
    ],
)
def test_a_malformed_header_is_ignored(web: Web, headers: Headers) -> None:
    number = submit(web, ECHO, headers)

    assert ended(web, number) == {"id": number, "status": "success", "trace": "", "traceparent": ""}
    assert output(web, number) == "<>\n"


def test_another_attempt_under_a_key_is_another_span_of_the_same_submission(web: Web) -> None:
    key = ("Idempotency-Key", "traced-once")

    first = submit(web, ECHO, [key, ("traceparent", PARENT)])
    again = submit(web, ECHO, [key, ("traceparent", f"00-{TRACE}-00f067aa0ba902b8-01")])

    assert first == again
    assert ended(web, first)["traceparent"] == PARENT


def test_luxid_takes_no_malformed_trace_among_the_terms(web: Web) -> None:
    terms = orjson.dumps({"trace": PARENT + "-more"}).decode()
    op = {**ECHO, "reason": [["gantry:terms", terms, 1]]}

    reply = web.local.post("/3/jobs", json={"jobs": [{"ops": [op]}]})

    assert reply.status_code == 400
    assert "trace must be a traceparent" in reply.json()["detail"]


def test_a_job_that_is_run_again_belongs_to_no_trace_of_before(web: Web) -> None:
    number = submit(web, ECHO, [("traceparent", PARENT)])
    ended(web, number)

    told = web.local.post(f"/3/jobs/{number}/rerun").json()

    assert ended(web, told["id"])["trace"] == ""


def test_ganetis_clients_submit_and_see_what_they_always_did(web: Web) -> None:
    number = submit(web, ECHO, [("traceparent", PARENT)])
    ended(web, number)

    job = web.local.get(f"/2/jobs/{number}").json()

    assert "trace" not in job
    assert "traceparent" not in job
