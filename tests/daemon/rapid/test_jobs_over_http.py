"""Jobs under /3 (DESIGN section 15): one cluster, and a user who submits, looks, waits and changes."""

import time
from collections.abc import Iterator, Mapping
from typing import Any

import httpx2
import pytest

from common.locks import LockMode, Owner, parse_lock
from protocol.wconfd.locks import Claim, ClaimLocks, CommandOnNode, ReleaseKeptLocks
from tests.support.wait import wait_until
from tests.support.web.jsonschemas import Document
from tests.support.web.rapid import Web

Json = Any


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with Web(tmp_path_factory.mktemp("jobs")) as web:
        web.start()
        document = Document(web.local.get("/3/openapi.json").json())
        web.local.event_hooks["response"].append(lambda reply: _check(document, reply))
        yield web


def _check(document: Document, reply: httpx2.Response) -> None:
    """Every reply of these tests is as the document says."""
    if reply.request.url.params.get("follow") is None:
        reply.read()
        document.check(reply)


def command(*argv: str, **fields: Json) -> dict[str, Json]:
    return {"OP_ID": "OP_RUN_COMMAND", "argv": list(argv), **fields}


def submit(web: Web, *jobs: Json, headers: Mapping[str, str] | None = None) -> list[int]:
    reply = web.local.post("/3/jobs", json={"jobs": [{"ops": [op]} for op in jobs]}, headers=headers)
    assert reply.status_code == 201, reply.text
    return [job["id"] for job in reply.json()["jobs"]]


def ended(web: Web, job_id: int) -> dict[str, Json]:
    job: dict[str, Json] = got(web, f"/3/jobs/{job_id}/wait?until=final&fields=status")["job"]
    return job


def got(web: Web, path: str, **more: Json) -> Json:
    reply = web.local.get(path, **more)
    assert reply.status_code == 200, reply.text
    return reply.json()


def problem(reply: httpx2.Response) -> tuple[int, str, str]:
    assert reply.headers["content-type"] == "application/problem+json", reply.text
    told = reply.json()
    assert told["status"] == reply.status_code
    return reply.status_code, told["code"], told["detail"]


def test_a_job_is_submitted_awaited_and_shown(web: Web) -> None:
    reply = web.local.post("/3/jobs", json={"jobs": [{"ops": [command("echo", "hello")]}]})
    (told,) = reply.json()["jobs"]

    assert (reply.status_code, reply.headers["location"]) == (201, f"/3/jobs/{told['id']}")
    assert ended(web, told["id"]) == {"id": told["id"], "status": "success"}
    job = got(web, reply.headers["location"])
    assert job["opstatus"] == ["success"]
    assert job["ops"][0]["argv"] == ["echo", "hello"]
    assert job["received_ts"] <= job["start_ts"] <= job["end_ts"]
    assert set(got(web, f"/3/jobs/{told['id']}?fields=user,summary")) == {"id", "user", "summary"}


def test_a_repeated_key_gets_the_same_ids_and_other_jobs_under_it_are_refused(web: Web) -> None:
    first = submit(web, command("true"), command("true"), headers={"Idempotency-Key": '"once"'})
    again = submit(web, command("true"), command("true"), headers={"Idempotency-Key": "once"})
    other = web.local.post("/3/jobs", json={"jobs": [{"ops": [command("false")]}]}, headers={"Idempotency-Key": "once"})

    assert first == again
    assert problem(other)[:2] == (409, "conflict")
    empty = web.local.post("/3/jobs", json={"jobs": []}, headers={"Idempotency-Key": "x"})
    assert problem(empty)[2] == "jobs must have at least one job"


def test_jobs_depend_on_earlier_ones_of_the_submission(web: Web) -> None:
    first, second = submit(web, command("false"), command("true", depends=[[-1, ["success"]]]))

    assert ended(web, second)["status"] == "error"
    assert ended(web, first)["status"] == "error"


def test_jobs_that_a_rule_refuses_have_each_their_reason(web: Web) -> None:
    rule = web.local.post("/3/filters", json={"action": "REJECT", "where": "comment=never"})
    bad, good = {"ops": [command("true", comment="never")]}, {"ops": [command("true")]}

    one = web.local.post("/3/jobs", json={"jobs": [bad]})
    some = web.local.post("/3/jobs", json={"jobs": [bad, good]})
    none = web.local.post("/3/jobs", json={"jobs": [bad, bad]})
    web.local.delete(rule.headers["location"])

    assert (one.status_code, none.status_code) == (403, 409)
    assert none.json()["jobs"][1]["id"] is None
    assert some.status_code == 201
    refused, taken = some.json()["jobs"]
    assert refused["id"] is None
    assert "rule" in refused["refused"]
    assert some.headers["location"] == f"/3/jobs/{taken['id']}"


def test_pages_lead_from_one_to_the_next_and_stay_exact_while_jobs_come(web: Web) -> None:
    ids = submit(web, *[command("true", comment="paged")] * 5)
    for job_id in ids:
        ended(web, job_id)
    path = f"/3/jobs?filter=id>={ids[0]}&fields=status&limit=2"

    first = web.local.get(path)
    submit(web, command("true"))
    second = web.local.get(first.links["next"]["url"])
    third = got(web, f"{path}&cursor={second.json()['next']}")

    assert [job["id"] for page in (first.json(), second.json(), third) for job in page["jobs"]] == ids[::-1]
    assert set(third["jobs"][0]) == {"id", "status"}
    assert (third["next"], "link" in second.headers) == (None, True)
    up = got(web, f"{path}&order=asc&limit=3")
    assert [job["id"] for job in up["jobs"]] == ids[:3]
    rest = web.local.post("/3/jobs/query", json={"filter": f"id>={ids[0]} & id<={ids[-1]}", "cursor": up["next"]})
    assert [job["id"] for job in rest.json()["jobs"]] == ids[3:]
    by_ids = web.local.post("/3/jobs/query", json={"ids": [ids[1], 9999, ids[0]], "fields": ["status"]}).json()
    assert by_ids["jobs"] == [
        {"id": ids[1], "status": "success"},
        {"id": 9999, "status": None},
        {"id": ids[0], "status": "success"},
    ]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/3/jobs?limit=0", "parameter 'limit' must be from 1 to 1000, got 0"),
        ("/3/jobs?limit=many", "parameter 'limit' must be a whole number, got 'many'"),
        ("/3/jobs?order=up", "parameter 'order' must be one of desc, asc, got 'up'"),
        ("/3/jobs?archived=perhaps", "parameter 'archived' must be true or false, got 'perhaps'"),
        ("/3/jobs?feilds=id", "there is no parameter 'feilds' here; it takes filter, fields"),
        ("/3/jobs?fields=id,colour", "there is no field 'colour' of jobs; there are id, status"),
        ("/3/jobs?filter=colour=red", "no field 'colour'"),
        ("/3/jobs?cursor=nonsense", "cursor 'nonsense' is not one of ours"),
        ("/3/jobs/1/wait?until=never", "parameter 'until' must be of queued, waiting"),
        ("/3/jobs/1/wait?previous=[", "parameter 'previous' is not JSON"),
        ("/3/jobs/1/wait?timeout=nan", "parameter 'timeout' must be from 0 to 600, got nan"),
        ("/3/nodes?fields=colour", "there is no field 'colour'; GET /3/fields?what=node lists all"),
    ],
)
def test_a_wrong_parameter_is_named_with_what_would_be_right(web: Web, path: str, text: str) -> None:
    status, code, detail = problem(web.local.get(path))

    assert (status, code) == (400, "invalid")
    assert text in detail


@pytest.mark.parametrize("path", ["", "/wait", "/wait?until=final", "/why", "/waits", "/processes", "/output"])
@pytest.mark.parametrize("job_id", ["99999", "0", "9" * 30])
def test_a_job_that_is_not_there_is_404(web: Web, job_id: str, path: str) -> None:
    assert problem(web.local.get(f"/3/jobs/{job_id}{path}"))[:2] == (404, "not_found")


def test_a_wait_ends_at_a_change_a_state_or_its_time(web: Web) -> None:
    gate = web.cluster.root / "gate"
    (job_id,) = submit(web, command("sh", "-c", f"until [ -e {gate} ]; do sleep 0.02; done"))
    running = got(web, f"/3/jobs/{job_id}/wait?until=running,final&fields=status")["job"]
    quiet = got(
        web, f"/3/jobs/{job_id}/wait", params={"fields": "status", "previous": '{"status": "running"}', "timeout": 0}
    )

    gate.touch()
    change = got(web, f"/3/jobs/{job_id}/wait", params={"fields": "status", "previous": '{"status": "running"}'})

    assert running["status"] == quiet["job"]["status"] == "running"
    assert change["job"] == {"id": job_id, "status": "success"}
    ended(web, job_id)
    assert web.local.post(f"/3/jobs/{job_id}/archive").json()["done"]
    assert got(web, f"/3/jobs/{job_id}/wait?fields=archived")["job"]["archived"] is True


def test_reasons_waits_and_locks_of_a_job_that_waits(web: Web) -> None:
    gate = web.cluster.root / "locked"
    script = f"until [ -e {gate} ]; do sleep 0.02; done"
    locking = command("sh", "-c", script, locks={"instance/web1": "exclusive"})
    (holder,) = submit(web, locking)
    assert got(web, f"/3/jobs/{holder}/wait?until=running&fields=status")["job"]["status"] == "running"
    (waiter,) = submit(web, locking)
    # between its start and its request for the lock nothing holds it
    path = "/3/locks?names=instance/web1"
    wait_until(lambda: any(lock["waiters"] for lock in got(web, path)["locks"]), what="the second job waits")
    both = web.local.post("/3/jobs/why", json={"ids": [holder, waiter]}).json()["jobs"]
    locks = {lock["name"]: lock for lock in got(web, path)["locks"]}
    gate.touch()

    assert [each["id"] for each in both] == [holder, waiter]
    assert both[1]["reasons"]
    assert locks["instance/web1"]["holders"] == [f"job/{holder}"]
    assert ended(web, waiter)["status"] == "success"
    spans = got(web, f"/3/jobs/{waiter}/waits")["spans"]
    assert {span["kind"] for span in spans} <= {"turn", "locks", "limit", "start"}


def test_a_holder_whose_process_is_gone_is_told_with_its_orphaned_locks(web: Web) -> None:
    lock = parse_lock("node/gone")
    claim = Claim(Owner(99_999, "/gone/99999"), ((lock, LockMode.EXCLUSIVE),), (CommandOnNode("web2", "99999.0.1"),))
    web.cluster.wconf(ClaimLocks((claim,)))

    told, others = got(web, "/3/locks?names=node/gone"), got(web, "/3/locks?names=node/other")
    web.cluster.wconf(ReleaseKeptLocks(("99999.0.1",), "test"))

    assert told["locks"] == [{"name": "node/gone", "mode": "exclusive", "holders": ["job/99999"], "waiters": []}]
    [orphan] = told["ghosts"]
    assert (orphan["holder"], orphan["nodes"], orphan["ends_at"]) == ("job/99999", ["web2"], None)
    assert others["ghosts"] == []


def test_output_comes_whole_in_ranges_and_as_it_is_printed(web: Web) -> None:
    gate = web.cluster.root / "print"
    (job_id,) = submit(
        web, command("sh", "-c", f"printf 0123456789; until [ -e {gate} ]; do sleep 0.3; done; echo end")
    )
    path = f"/3/jobs/{job_id}/output"
    first = got(web, f"{path}/piece?timeout=60")

    with web.local.stream("GET", f"{path}?follow=true") as stream:
        pieces = stream.iter_raw()
        assert next(pieces) == b"0123456789"
        [begun] = got(web, f"{path}/times")["times"]
        wait_until(lambda: time.time() > begun["at"] + 0.3, what="the next time is another one")
        gate.touch()
        assert b"".join(pieces) == b"end\n"
    part = web.local.get(path, headers={"Range": "bytes=2-4"})
    rest = web.local.get(path, headers={"Range": "bytes=8-"})
    last = web.local.get(path, headers={"Range": "bytes=-4"})
    beyond = web.local.get(path, headers={"Range": "bytes=99-"})

    assert (first["text"], first["next_offset"]) == ("0123456789", 10)
    assert web.local.get(path).text == "0123456789end\n"
    assert web.local.get(f"{path}?offset=10").text == "end\n"
    assert (part.status_code, part.headers["content-range"], part.text) == (206, "bytes 2-4/*", "234")
    assert (rest.headers["content-range"], rest.text) == ("bytes 8-13/14", "89end\n")
    assert (last.headers["content-range"], last.text) == ("bytes 10-13/14", "end\n")
    assert problem(beyond) == (416, "invalid", "the output has no bytes from 99 on")
    times = got(web, f"{path}/times")
    end = got(web, f"{path}/times?offset=10&end=14")
    assert ([each["offset"] for each in times["times"]], times["until"]) == ([0, 10], None)
    assert end["times"] == times["times"][1:]
    assert times["times"][0]["at"] < end["times"][0]["at"] <= time.time()
    assert got(web, f"{path}/times?stream=error")["times"] == []
    assert web.local.get(f"{path}/times?offset=-1").status_code == 400
    assert web.local.get("/3/jobs/99/output/times").status_code == 404


def test_one_job_is_cancelled_and_reprioritized(web: Web) -> None:
    web.local.post("/3/queue/drain")
    drained = problem(web.local.post("/3/jobs", json={"jobs": [{"ops": [command("true")]}]}))
    assert web.local.post("/3/queue/undrain").json()["drained"] is False
    rule = web.local.post("/3/filters", json={"action": "PAUSE", "where": "comment=held", "reason": "test"}).json()
    (job_id,) = submit(web, command("true", comment="held"))

    raised = web.local.post(f"/3/jobs/{job_id}/priority", json={"priority": -10})
    odd = web.local.post(f"/3/jobs/{job_id}/priority", json={"priority": 3})
    cancelled = web.local.post(f"/3/jobs/{job_id}/cancel")
    again = web.local.post(f"/3/jobs/{job_id}/cancel", json={"kill": True})

    assert drained[:2] == (503, "unavailable")
    assert raised.json()["done"], raised.text
    assert problem(odd)[:2] == (400, "invalid")
    assert cancelled.json()["done"], cancelled.text
    assert problem(again)[:2] == (409, "conflict")
    assert again.json()["done"] is False
    assert web.local.delete(f"/3/filters/{rule['uuid']}").status_code == 204


def test_many_jobs_are_changed_only_if_they_are_those_of_the_dry_run(web: Web) -> None:
    rule = web.local.post("/3/filters", json={"action": "PAUSE", "where": "comment=many"}).json()
    ids = submit(web, *[command("true", comment="many")] * 3)
    wish = {"filter": f"id>={ids[0]} & status=queued"}

    dry = web.local.post("/3/jobs/cancel", json={**wish, "dry_run": True}).json()
    wrong = web.local.post("/3/jobs/cancel", json={**wish, "expected": 2})
    ids += submit(web, command("true", comment="many"))
    changed = web.local.post("/3/jobs/cancel", json={**wish, "ticket": dry["ticket"]})
    high = web.local.post("/3/jobs/priority", json={**wish, "priority": -10, "expected": 4}).json()
    untouched = got(web, f"/3/jobs?filter=id>={ids[0]}&fields=status")
    fresh = web.local.post("/3/jobs/cancel", json={**wish, "dry_run": True}).json()
    done = web.local.post("/3/jobs/cancel", json={**wish, "ticket": fresh["ticket"]}).json()
    archived = web.local.post("/3/jobs/archive", json={"ids": [*ids, 9999]}).json()
    web.local.delete(f"/3/filters/{rule['uuid']}")

    assert (dry["count"], dry["ids"], dry["results"]) == (3, ids[:3], [])
    assert problem(wrong)[0] == problem(changed)[0] == 409
    assert changed.json()["count"] == 4
    assert [each["done"] for each in high["results"]] == [True] * 4
    assert {job["status"] for job in untouched["jobs"]} == {"queued"}
    assert [each["done"] for each in done["results"]] == [True] * 4
    assert [each["done"] for each in archived["results"]] == [True] * 4 + [False]
    both = web.local.post("/3/jobs/cancel", json={"ids": [1], "filter": "id=1"})
    assert "either by 'ids' or by a 'filter'" in problem(both)[2]


def test_filter_rules_are_added_tried_replaced_and_deleted(web: Web) -> None:
    wish = {"action": ["RATE_LIMIT", 2], "priority": 7, "where": "op=run_command & reason=~backup", "reason": "disk"}
    added = web.local.post("/3/filters", json=wish)
    rule = added.json()
    place = added.headers["location"]

    assert (added.status_code, place) == (201, f"/3/filters/{rule['uuid']}")
    assert got(web, place) == rule
    assert [entry[:2] for entry in rule["reason_trail"]][:1] == [["gnt:user", "disk"]]
    assert rule in got(web, "/3/filters")["filters"]
    assert web.local.post("/3/filters/try", json=wish).json() == {"count": 0, "ids": []}
    replaced = web.local.put(place, json={"action": "CONTINUE", "priority": 1}).json()
    assert (replaced["uuid"], replaced["action"], replaced["predicates"]) == (rule["uuid"], "CONTINUE", [])
    assert web.local.delete(place).status_code == 204
    assert problem(web.local.delete(place))[:2] == problem(web.local.get(place))[:2] == (404, "not_found")
    assert problem(web.local.put("/3/filters/x", json={"action": "PAUSE"}))[:2] == (400, "invalid")
    assert problem(web.local.post("/3/filters", json={"action": "STOP"}))[:2] == (400, "invalid")


def test_a_filter_rule_tells_what_it_does_to_the_jobs(web: Web) -> None:
    place = web.local.post("/3/filters", json={"action": "PAUSE", "where": "comment=ruled"}).headers["location"]
    submit(web, *[command("true", comment="ruled")] * 3)
    paused = got(web, place)["load"]

    web.local.put(place, json={"action": "REJECT", "where": "comment=ruled"})
    refused = web.local.post("/3/jobs", json={"jobs": [{"ops": [command("true", comment="ruled")]}]})
    wait_until(lambda: got(web, place)["load"]["rejected"] == 4, what="the jobs of the queue are rejected, too")

    assert paused == {"rejected": 0, "held": 3, "running": 0}
    assert refused.status_code == 403
    assert [rule["load"]["held"] for rule in got(web, "/3/filters")["filters"] if place.endswith(rule["uuid"])] == [0]
    web.local.delete(place)


def test_queue_cluster_and_objects_are_shown(web: Web) -> None:
    limits = web.local.put("/3/queue/limits", json={"max_running_jobs": 17}).json()

    assert (limits["max_running_jobs"], limits["drained"]) == (17, False)
    assert got(web, "/3/queue") == limits
    assert got(web, "/3/cluster")["name"] == "cluster.test"
    assert got(web, "/3/nodes?fields=name,offline")["objects"] == [{"name": "node1.test", "offline": False}]
    assert [group["name"] for group in got(web, "/3/groups")["objects"]] == ["default"]
    assert got(web, "/3/instances?filter=name=web1") == got(web, "/3/networks") == {"objects": [], "notes": []}
    assert "received_ts" in [field["name"] for field in got(web, "/3/fields")["fields"]]
    raw = web.local.post("/3/query/node", json={"fields": ["name"]}).json()
    assert (raw["fields"][0]["title"], raw["data"]) == ("Node", [[[0, "node1.test"]]])
