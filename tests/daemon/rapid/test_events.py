"""The stream of events: what happens is told, what was missed, too, and who goes is forgotten."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import httpx2
import orjson
import pytest

from tests.support.wait import wait_until
from tests.support.web.jsonschemas import Document
from tests.support.web.rapid import Web

Json = Any


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with Web(tmp_path_factory.mktemp("events")) as web:
        web.start()
        settle(web)
        yield web


def settle(web: Web) -> None:
    """Return when both daemons are known to be there; what a stream says at first depends on that."""

    def is_settled() -> bool:
        with following(web) as events:
            _, begin = events.next()
            return bool(begin["luxid"] and begin["wconfd"])

    wait_until(is_settled, what="rapid follows luxid and wconfd")


SCHEMA: Json = {"$ref": "#/components/schemas/ClusterEvent"}


@cache
def document_of(web: Web) -> Document:
    return Document(web.local.get("/3/openapi.json").json())


class Events:
    """The events of one stream, in order; each is as the document says."""

    def __init__(self, reply: httpx2.Response, document: Document) -> None:
        self._document = document
        self._lines = reply.iter_lines()
        self.last = ""

    def next(self) -> tuple[str, Json]:
        """The next event: its name and its data."""
        fields: dict[str, str] = {}
        for line in self._lines:
            if not line and fields:
                self.last = fields["id"]
                data = orjson.loads(fields["data"])
                assert not list(self._document.faults(SCHEMA, {**fields, "data": data})), fields
                return fields["event"], data
            name, _, value = line.partition(": ")
            if name:
                fields[name] = value
        raise AssertionError("the stream has ended")

    def until(self, name: str, **wanted: Json) -> Json:
        """The data of the first event of this name with these values."""
        while True:
            found, data = self.next()
            if found == name and wanted.items() <= data.items():
                return data

    def until_job(self, job_id: int, status: str) -> None:
        while True:
            jobs = self.until("jobs")["jobs"]
            if any(job["id"] == job_id and job["status"] == status for job in jobs):
                return


@contextmanager
def following(web: Web, query: str = "", last: str = "") -> Iterator[Events]:
    headers = {"Last-Event-ID": last} if last else {}
    with web.local.stream("GET", f"/3/events{query}", headers=headers) as reply:
        assert (reply.status_code, reply.headers["content-type"]) == (200, "text/event-stream"), reply.read()
        yield Events(reply, document_of(web))


def submit(web: Web, *argv: str, **fields: Json) -> int:
    op = {"OP_ID": "OP_RUN_COMMAND", "argv": list(argv), **fields}
    job_id: int = web.local.post("/3/jobs", json={"jobs": [{"ops": [op]}]}).json()["jobs"][0]["id"]
    return job_id


def test_all_topics_are_told_as_they_happen(web: Web) -> None:
    gate = web.cluster.root / "gate"
    with following(web) as events:
        begin = events.next()
        job_id = submit(
            web, "sh", "-c", f"until [ -e {gate} ]; do sleep 0.02; done", locks={"instance/web1": "exclusive"}
        )
        rule = web.local.post("/3/filters", json={"action": "CONTINUE", "reason": "told"}).json()
        held = events.until("locks", all=False)
        while not held["locks"]:
            held = events.until("locks", all=False)
        gate.touch()
        events.until_job(job_id, "success")
        web.local.post("/3/queue/drain")
        while not events.until("queue")["queue"]["is_drained"]:
            pass
        web.local.post("/3/queue/undrain")

    assert begin[0] == "begin"
    assert begin[1]["resumed"] is False
    assert begin[1]["luxid"] is True
    assert held["locks"][0]["owner"] == f"job/{job_id}"
    web.local.delete(f"/3/filters/{rule['uuid']}")


def test_who_comes_back_gets_what_was_missed(web: Web) -> None:
    with following(web, "?topics=jobs") as events:
        events.next()
        events.until_job(submit(web, "true"), "success")
    missed = submit(web, "true")
    web.local.get(f"/3/jobs/{missed}/wait?until=final")

    with following(web, "?topics=jobs", events.last) as again:
        begin = again.next()
        again.until_job(missed, "success")
    with following(web, "?topics=jobs", "0-7") as strange:
        anew = strange.next()

    assert begin == ("begin", {"resumed": True, "luxid": True, "wconfd": True})
    assert anew[1]["resumed"] is False


def test_named_jobs_come_first_as_they_are_and_then_alone(web: Web) -> None:
    done = submit(web, "true")
    web.local.get(f"/3/jobs/{done}/wait?until=final")
    rule = web.local.post("/3/filters", json={"action": "PAUSE", "where": "comment=held"}).json()
    held = submit(web, "true", comment="held")

    with following(web, f"?topics=jobs&ids={done},{held},99999") as events:
        events.next()
        name, first = events.next()
        submit(web, "true")
        web.local.delete(f"/3/filters/{rule['uuid']}")
        events.until_job(held, "success")

    assert name == "jobs"
    assert {job["id"]: job["status"] for job in first["jobs"]} == {done: "success", held: "queued", 99999: None}


def test_a_stream_outlives_luxid_and_says_so(web: Web) -> None:
    with following(web) as events:
        events.next()
        web.cluster.kill("luxid", signal.SIGKILL)
        away = events.until("state")
        web.cluster.start("luxid")
        events.until("begin", resumed=False)
        back = events.until("state", luxid=True)
        events.until_job(submit(web, "true"), "success")

    assert away == {"luxid": False, "wconfd": True}
    assert back["wconfd"] is True


def test_a_client_that_goes_is_forgotten(web: Web) -> None:
    def streams() -> int:
        count: int = web.local.get("/3/health").json()["waiting"]
        return count

    # those of earlier tests end a moment after their clients have gone
    wait_until(lambda: streams() == 0, what="there is no stream", state=streams)
    with following(web) as events:
        events.next()
        assert streams() == 1

    wait_until(lambda: streams() == 0, what="the stream has ended", state=streams)


def test_a_look_at_the_headers_does_not_hold_the_connection(web: Web) -> None:
    head = web.local.head("/3/events")

    assert (head.status_code, head.headers["content-type"]) == (200, "text/event-stream")
    assert web.local.get("/3/jobs").status_code == 200


def test_what_others_may_not_see_is_not_told(web: Web) -> None:
    with following(web, "?topics=jobs") as events:
        events.next()
        job_id = submit(web, "echo", "confidential")
        # several changes may be told by one event, and there may be some of an earlier job
        told: list[Json] = []
        while not any(job["status"] == "success" for job in told):
            told += [job for job in events.until("jobs")["jobs"] if job["id"] == job_id]

    assert {job["summary"][0] for job in told} == {"RUN_COMMAND(echo)"}


def test_a_topic_or_an_id_that_is_none_is_refused(web: Web) -> None:
    for query, text in (("topics=jobs,weather", "there is no topic 'weather'"), ("ids=1,x", "got 'x'")):
        reply = web.local.get(f"/3/events?{query}")

        assert (reply.status_code, reply.json()["code"]) == (400, "invalid")
        assert text in reply.json()["detail"]
