"""Every day under /3 (DESIGN section 16): terms, holds, history, schedules, resources, as the document says."""

import time
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.support.wait import wait_until
from tests.support.web.jsonschemas import Document
from tests.support.web.rapid import Web

Json = Any
TRUE = {"OP_ID": "OP_RUN_COMMAND", "argv": ["true"]}
LATER = 4_000_000_000.0


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with Web(tmp_path_factory.mktemp("operating")) as web:
        web.start()
        document = Document(web.local.get("/3/openapi.json").json())

        def check(reply: httpx2.Response) -> None:
            reply.read()
            document.check(reply)

        web.local.event_hooks["response"].append(check)
        yield web


def submit(web: Web, **terms: Json) -> int:
    reply = web.local.post("/3/jobs", json={"jobs": [{"ops": [TRUE], **terms}]})
    assert reply.status_code == 201, reply.text
    job_id: int = reply.json()["jobs"][0]["id"]
    return job_id


def job(web: Web, job_id: int) -> Json:
    return web.local.get(f"/3/jobs/{job_id}").json()


def ended(web: Web, job_id: int) -> None:
    assert web.local.get(f"/3/jobs/{job_id}/wait?until=final").json()["job"]["status"] == "success"


def test_a_job_is_submitted_with_terms_and_found_by_them(web: Web) -> None:
    job_id = submit(web, name="backup-web1", labels={"team": "web"}, begin_at=LATER)

    shown = job(web, job_id)
    assert (shown["status"], shown["name"], shown["labels"]) == ("queued", "backup-web1", {"team": "web"})
    assert shown["begin_ts"] == LATER
    for text in ("label.team=web", "name=backup-web1"):
        found = web.local.get("/3/jobs", params={"filter": text, "fields": "id,name"}).json()["jobs"]
        assert [each["id"] for each in found] == [job_id], text
    why = web.local.get(f"/3/jobs/{job_id}/why").json()
    assert [reason["kind"] for reason in why["reasons"]] == ["begin"]


def test_malformed_terms_are_refused_with_the_rule(web: Web) -> None:
    reply = web.local.post("/3/jobs", json={"jobs": [{"ops": [TRUE], "labels": {"Team": "web"}}]})

    assert reply.status_code == 400
    assert "team=web" in reply.json()["detail"]


def test_a_job_is_held_modified_and_released(web: Web) -> None:
    job_id = submit(web, hold="not yet")
    assert job(web, job_id)["hold"]["why"] == "not yet"

    changed = web.local.patch(f"/3/jobs/{job_id}", json={"name": "other", "labels": {"a": "b"}, "priority": 10})
    assert changed.status_code == 200, changed.text
    shown = job(web, job_id)
    assert (shown["name"], shown["labels"], shown["priority"]) == ("other", {"a": "b"}, 10)

    assert web.local.post(f"/3/jobs/{job_id}/release").status_code == 200
    ended(web, job_id)
    refused = web.local.post(f"/3/jobs/{job_id}/hold", json={"why": "too late"})
    assert (refused.status_code, refused.json()["done"]) == (409, False)


def test_many_jobs_are_held_released_modified_and_cancelled_by_a_filter(web: Web) -> None:
    ids = [submit(web, labels={"many": "yes"}, begin_at=LATER) for _ in range(3)]
    hit = {"filter": "label.many=yes"}

    looked = web.local.post("/3/jobs/hold", json={**hit, "why": "wait", "dry_run": True}).json()
    assert (looked["dry_run"], sorted(looked["ids"])) == (True, ids)
    held = web.local.post("/3/jobs/hold", json={**hit, "why": "wait", "ticket": looked["ticket"]}).json()
    assert [each["done"] for each in held["results"]] == [True] * 3
    web.local.post("/3/jobs/modify", json={**hit, "change": {"labels": {"more": "1"}}})
    assert job(web, ids[0])["labels"] == {"many": "yes", "more": "1"}
    web.local.post("/3/jobs/release", json=hit)
    assert job(web, ids[0])["hold"] is None
    cancelled = web.local.post("/3/jobs/cancel", json=hit).json()
    assert [each["done"] for each in cancelled["results"]] == [True] * 3


def test_a_submission_under_a_key_says_that_it_was_an_earlier_one(web: Web) -> None:
    headers, body = {"Idempotency-Key": "nightly"}, {"jobs": [{"ops": [TRUE], "name": "nightly"}]}

    first, again = (web.local.post("/3/jobs", json=body, headers=headers).json() for _ in range(2))

    assert (first["earlier"], again["earlier"]) == (False, True)
    assert first["jobs"] == again["jobs"]


def test_the_history_tells_what_ran_and_sums_it_up(web: Web) -> None:
    ended(web, submit(web, name="told", labels={"team": "past"}))

    def told() -> Json:
        return web.local.get("/3/history", params={"filter": "label.team=past", "status": "success"}).json()

    wait_until(lambda: told()["total"] == 1, what="the history has the job", state=told)
    assert told()["jobs"][0]["name"] == "told"
    groups = web.local.get("/3/history/summary", params={"by": "label", "label": "team"}).json()["groups"]
    assert ("past", 1) in [(each["group"], each["count"]) for each in groups]
    assert web.local.get("/3/history", params={"since": "yesterday"}).status_code == 400


def test_a_schedule_is_added_shown_paused_run_and_removed(web: Web) -> None:
    form = {"cron": "0 2 * * *", "zone": "Europe/Athens", "job": [TRUE]}

    added = web.local.put("/3/schedules/nightly", json=form)
    assert added.status_code == 200, added.text
    assert added.json()["next_at"][0] > time.time()
    (listed,) = (each["schedule"] for each in web.local.get("/3/schedules").json()["schedules"])
    assert (listed["name"], listed["job"]) == ("nightly", [])
    assert web.local.get("/3/schedules/nightly").json()["schedule"]["job"][0]["argv"] == TRUE["argv"]
    assert web.local.post("/3/schedules/nightly/pause").json()["schedule"]["is_paused"]
    assert not web.local.post("/3/schedules/nightly/resume").json()["schedule"]["is_paused"]
    run = web.local.post("/3/schedules/nightly/run").json()["id"]
    ended(web, run)
    assert job(web, run)["labels"]["schedule"] == "nightly"
    assert web.local.patch("/3/schedules/nightly", json={"cron": "0 3 * * *"}).status_code == 200
    assert web.local.put("/3/schedules/bad", json={"cron": "61 * * * *", "job": [TRUE]}).status_code == 400
    assert web.local.delete("/3/schedules/nightly").status_code == 204
    assert web.local.get("/3/schedules/nightly").status_code == 404


def test_a_resource_is_set_used_shown_and_removed(web: Web) -> None:
    assert web.local.put("/3/resources/licences", json={"total": 1}).status_code == 200
    ids = [submit(web, uses={"licences": 1}, hold="") for _ in range(2)]
    for job_id in ids:
        assert job(web, job_id)["uses"] == {"licences": 1}
        web.local.post("/3/jobs/cancel", json={"ids": [job_id]})
    shown = web.local.get("/3/resources/licences").json()
    assert (shown["resource"]["total"], shown["used"]) == (1, 0)
    assert [each["resource"]["name"] for each in web.local.get("/3/resources").json()["resources"]] == ["licences"]
    assert web.local.put("/3/resources/Bad", json={"total": 1}).status_code == 400
    assert web.local.delete("/3/resources/licences").status_code == 204
    assert web.local.get("/3/resources/licences").status_code == 404
    assert web.local.delete("/3/resources/licences").status_code == 404
