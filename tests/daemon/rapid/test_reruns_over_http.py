"""Jobs that run again, their tries, batches and pruning under /3 (DESIGN section 16), as the document says."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from common.queue.reasons import Batch
from tests.support.wait import wait_until
from tests.support.web.jsonschemas import Document
from tests.support.web.rapid import Web

Json = Any
FIRST_FAILS = "test -e {0} && echo second || { touch {0}; echo first; exit 75; }"
USERS = "op op-secret operate\nreader reader-secret read\n"


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with Web(tmp_path_factory.mktemp("reruns")) as web:
        web.put_users(USERS)
        web.start()
        document = Document(web.local.get("/3/openapi.json").json())

        def check(reply: httpx2.Response) -> None:
            reply.read()
            document.check(reply)

        web.local.event_hooks["response"].append(check)
        yield web


def command(script: str, **parameters: Json) -> Json:
    return {"OP_ID": "OP_RUN_COMMAND", "argv": ["sh", "-c", script], **parameters}


def submit(web: Web, *jobs: Json) -> list[int]:
    reply = web.local.post("/3/jobs", json={"jobs": list(jobs)})
    assert reply.status_code == 201, reply.text
    return [each["id"] for each in reply.json()["jobs"]]


def test_a_job_runs_again_under_its_name(web: Web, tmp_path: Path) -> None:
    (old,) = submit(web, {"ops": [command(FIRST_FAILS.replace("{0}", str(tmp_path / "x")))], "name": "again"})
    assert web.cluster.wait(old) == ["error"]

    told = web.local.post(f"/3/jobs/{old}/rerun")
    assert told.status_code == 200, told.text
    new = told.json()["id"]

    assert web.cluster.wait(new) == ["success"]
    shown = web.local.get(f"/3/jobs/{new}").json()
    assert (shown["name"], shown["labels"]) == ("again", {"rerun-of": str(old)})
    assert web.local.post("/3/jobs/99999/rerun").status_code == 404


def test_the_failed_ones_of_many_run_again_after_a_look(web: Web, tmp_path: Path) -> None:
    fails = command(FIRST_FAILS.replace("{0}", str(tmp_path / "x")))
    ids = submit(web, {"ops": [command("true")]}, {"ops": [fails]})
    web.cluster.wait(*ids)
    wish = {"ids": ids, "failed_only": True}

    looked = web.local.post("/3/jobs/rerun", json={**wish, "dry_run": True}).json()
    assert (looked["ids"], looked["results"]) == ([ids[1]], [])
    assert web.local.post("/3/jobs/rerun", json={**wish, "expected": 2}).status_code == 409
    done = web.local.post("/3/jobs/rerun", json={**wish, "ticket": looked["ticket"]}).json()

    assert [each["of"] for each in done["results"]] == [ids[1]]
    assert web.cluster.wait(done["results"][0]["id"]) == ["success"]


def test_what_has_not_ended_and_who_may_only_read_run_nothing_again(web: Web) -> None:
    (held,) = submit(web, {"ops": [command("true")], "hold": ""})

    assert web.local.post(f"/3/jobs/{held}/rerun").status_code == 409
    with web.remote() as reader:
        reader.auth = ("reader", "reader-secret")
        assert reader.post(f"/3/jobs/{held}/rerun").status_code == 403
        assert reader.post("/3/prune", json={"dry_run": True}).status_code == 403
        reader.auth = ("op", "op-secret")
        assert reader.post("/3/prune", json={"dry_run": True}).status_code == 200
        assert reader.post("/3/prune", json={"dry_run": False}).status_code == 403
    web.local.post("/3/jobs/cancel", json={"ids": [held]})


def chain(web: Web, marker: Path) -> list[int]:
    """A job that fails until the file is there, one behind it, one behind that in any case, and one beside them."""
    ids = submit(
        web,
        {"ops": [command(f"[ -e {marker} ]")], "name": "root"},
        {"ops": [command("true", depends=[[-1, ["success"]]])], "name": "next"},
        {"ops": [command("true", depends=[[-1, ["success", "error", "canceled"]]])], "name": "last"},
        {"ops": [command("true")], "name": "beside"},
    )
    assert web.cluster.wait(*ids) == ["error", "error", "success", "success"]
    return ids


def test_a_job_runs_again_with_its_dependents_also_from_the_archive(web: Web, tmp_path: Path) -> None:
    marker = tmp_path / "mended"
    root, following, last, _ = chain(web, marker)
    web.local.post("/3/jobs/archive", json={"ids": [following]})
    marker.touch()
    wish = {"ids": [root], "with_dependents": True}

    looked = web.local.post("/3/jobs/rerun", json={**wish, "dry_run": True}).json()
    assert looked["ids"] == [root, following, last]
    assert [(each["of"], each["left_out"], each["depends_on"]) for each in looked["would_make"]] == [
        (root, 0, []),
        (following, 0, [root]),
        (last, 0, [following]),
    ]
    assert looked["results"] == []
    done = web.local.post("/3/jobs/rerun", json={**wish, "ticket": looked["ticket"]}).json()

    new = [each["id"] for each in done["results"]]
    assert (web.cluster.wait(*new), done["would_make"]) == (["success"] * 3, [])
    ops = [web.local.get(f"/3/jobs/{job_id}").json()["ops"][0] for job_id in new]
    assert [op.get("depends") for op in ops[1:]] == [
        [[new[0], ["success"]]],
        [[new[1], ["success", "error", "canceled"]]],
    ]
    failed = web.local.post("/3/jobs/rerun", json={**wish, "failed_only": True, "dry_run": True}).json()
    assert failed["ids"] == [root, following]


def test_a_job_runs_again_from_its_failed_opcode_on(web: Web, tmp_path: Path) -> None:
    marker, log = tmp_path / "mended", tmp_path / "log"
    ops = [command(f"echo 1 >> {log}"), command(f"[ -e {marker} ]"), command(f"echo 3 >> {log}")]
    (old,) = submit(web, {"ops": ops, "name": "three"})
    assert web.cluster.wait(old) == ["error"]
    marker.touch()

    wish = {"ids": [old], "from_failed": True, "dry_run": True}
    (look,) = web.local.post("/3/jobs/rerun", json=wish).json()["would_make"]
    assert (look["left_out"], len(look["summary"])) == (1, 2)
    new = web.local.post(f"/3/jobs/{old}/rerun", json={"from_failed": True}).json()["id"]

    assert web.cluster.wait(new) == ["success"]
    assert log.read_text() == "1\n3\n"
    shown = web.local.get(f"/3/jobs/{new}").json()
    assert (shown["name"], shown["labels"], len(shown["ops"])) == ("three", {"rerun-of": str(old)}, 2)
    refused = web.local.post(f"/3/jobs/{new}/rerun", json={"from_failed": True})
    assert refused.status_code == 409
    assert f"no opcode of job {new} failed, it ended as success" in refused.text


def test_each_try_has_its_output(web: Web, tmp_path: Path) -> None:
    op = command(FIRST_FAILS.replace("{0}", str(tmp_path / "x")), retries=1, retry_delay=0.1)
    (job_id,) = submit(web, {"ops": [op]})
    assert web.cluster.wait(job_id) == ["success"]
    path = f"/3/jobs/{job_id}/output"

    assert [each["exit"] for each in web.local.get(f"/3/jobs/{job_id}").json()["tries"][0]] == [75]
    assert web.local.get(path).text == "first\nsecond\n"
    assert [web.local.get(path, params={"try": number}).text for number in (1, 2)] == ["first\n", "second\n"]
    assert web.local.get(f"{path}/piece", params={"try": 2}).json()["text"] == "second\n"
    assert web.local.get(path, params={"try": 3}).status_code == 404


def test_batches_are_listed_with_their_state(web: Web) -> None:
    def member(place: int, script: str) -> Json:
        trail = [["gantry:batch", Batch("nightly-7", place, 2).text, 0]]
        return {"ops": [command(script, reason=trail)], "name": "nightly"}

    ids = submit(web, member(1, "true"), member(2, "false"))
    web.cluster.wait(*ids)

    (batch,) = web.local.get("/3/batches").json()["batches"]
    assert (batch["batch"], batch["state"], batch["counts"]) == ("nightly-7", "error", {"success": 1, "error": 1})
    assert (batch["first_id"], batch["last_id"], batch["name"]) == (*ids, "nightly")


def test_the_queue_tells_how_many_jobs_are_deferred(web: Web) -> None:
    before = web.local.get("/3/queue").json()["deferred"]
    ids = submit(web, {"ops": [command("true")], "hold": ""}, {"ops": [command("true")], "begin_at": 4e9})

    assert web.local.get("/3/queue").json()["deferred"] == before + 2
    wait_until(lambda: f"gantry_jobs_deferred {before + 2}" in web.local.get("/metrics").text, what="metrics, too")
    web.local.post("/3/jobs/cancel", json={"ids": ids})
    assert web.local.get("/3/queue").json()["deferred"] == before


def test_pruning_tells_first_what_it_would_remove(web: Web) -> None:
    told = web.local.post("/3/prune", json={"dry_run": True})

    assert (told.status_code, told.json()["jobs"]) == (200, 0)
    assert web.local.post("/3/prune", json={}).status_code == 400


def test_the_batch_of_a_submission_is_a_field(web: Web) -> None:
    body = {
        "jobs": [
            {"ops": [command("true")], "name": f"each-{host}", "labels": {"host": host}} for host in ("web1", "web2")
        ],
        "batch": {"at_most": 1, "failures": 0, "each": ["host"]},
    }

    key = {"Idempotency-Key": "a-batch"}
    first, again = (web.local.post("/3/jobs", json=body, headers=key).json() for _ in range(2))

    assert first["batch"]
    assert (again["earlier"], again["batch"], again["jobs"]) == (True, first["batch"], first["jobs"])
    for job in first["jobs"]:
        shown = web.local.get(f"/3/jobs/{job['id']}").json()
        assert shown["batch"] == first["batch"]
        place = first["jobs"].index(job) + 1
        assert shown["batch_terms"] == {"place": place, "jobs": 2, "at_most": 1, "failures": 0, "each": ["host"]}
    named = web.local.post("/3/jobs", json={**body, "batch": {"id": "release-7"}}).json()
    assert named["batch"] == "release-7"
    assert {"release-7", first["batch"]} <= {each["batch"] for each in web.local.get("/3/batches").json()["batches"]}
    assert web.local.post("/3/jobs", json={"jobs": body["jobs"]}).json()["batch"] == ""


def test_a_malformed_batch_is_refused_by_its_field(web: Web) -> None:
    jobs = [{"ops": [command("true")]}]
    for batch, words in (
        ({"id": "a b"}, "no batch can be named 'a b'"),
        ({"id": "x" * 65}, "1 to 64 letters"),
        ({"at_most": 0}, "at_most of a batch must be at least 1"),
        ({"failures": -1}, "failures of a batch must be at least 0"),
        ({"each": ["Host"]}, "each of a batch must be keys of labels"),
        ({"at_most": "2"}, "at_most"),
        ({"place": 1}, "place"),
        ([], "batch"),
    ):
        reply = web.local.post("/3/jobs", json={"jobs": jobs, "batch": batch})
        assert (reply.status_code, words in reply.json()["detail"]) == (400, True), reply.text
    twice = [{"ops": [command("true", reason=[["gantry:batch", Batch("b", 1, 1).text, 0]])]}]
    reply = web.local.post("/3/jobs", json={"jobs": twice, "batch": {}})
    assert (reply.status_code, "name it once" in reply.json()["detail"]) == (400, True), reply.text
