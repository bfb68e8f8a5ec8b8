"""Jobs over Ganeti's resources: waiting, canceling, what cannot be done, and who may not.

Source: rapi.md 2, 4, 6.3, 6.6; its advice where the real one is broken.
"""

import threading
from pathlib import Path
from typing import Any

import httpx2
import pytest

from common.ids import JobId
from protocol.luxi.jobs import ArchiveJob
from protocol.luxi.queue import SetDrainFlag
from tests.daemon.luxid.ops import dummy, gated
from tests.support.wait import wait_until
from tests.support.web.httpwire import request
from tests.support.web.rapid import Web
from tests.support.web.rawhttp import over_tls


def wait(client: httpx2.Client, job_id: int, **body: Any) -> httpx2.Response:
    return client.request("GET", f"/2/jobs/{job_id}/wait", json=body)


def test_a_wait_ends_when_the_job_changes(web: Web, chief: httpx2.Client, tmp_path: Path) -> None:
    job_id = web.cluster.submit(gated(tmp_path / "go"))
    web.cluster.wait(job_id, status="running")
    replies: list[httpx2.Response] = []
    known = {"fields": ["status"], "previous_job_info": ["running"], "previous_log_serial": None}
    waiting = threading.Thread(target=lambda: replies.append(wait(chief, job_id, **known)))

    waiting.start()
    wait_until(lambda: web.local.get("/3/health").json()["waiting"] == 1, what="the wait is under way")
    (tmp_path / "go").touch()
    waiting.join()

    assert replies[0].json() == {"job_info": ["success"], "log_entries": []}


def test_an_archived_job_is_read_and_waited_for_at_once(web: Web, chief: httpx2.Client) -> None:
    job_id = web.cluster.submit(dummy())
    web.cluster.wait(job_id)
    assert web.cluster.luxi(ArchiveJob(JobId(job_id))) is True

    assert chief.get(f"/2/jobs/{job_id}").json()["status"] == "success"
    assert wait(chief, job_id, fields=["id", "status"]).json()["job_info"] == [job_id, "success"]
    assert {"id": job_id, "uri": f"/2/jobs/{job_id}"} not in chief.get("/2/jobs").json()


def test_a_queued_job_is_canceled_and_an_ended_one_is_not(web: Web, chief: httpx2.Client, tmp_path: Path) -> None:
    running = web.cluster.submit(gated(tmp_path / "go"))
    queued = web.cluster.submit(dummy(depends=[[running, ["success"]]]))

    done = chief.delete(f"/2/jobs/{queued}", params={"dry-run": 1}).json()
    again = chief.delete(f"/2/jobs/{queued}")

    assert done[0] is True
    assert web.cluster.status(queued) == "canceled"
    assert (again.status_code, again.json()[0]) == (200, False)
    (tmp_path / "go").touch()
    web.cluster.wait(running)


def test_a_job_depends_on_others_by_the_body_even_where_the_rest_counts_nothing(
    web: Web, chief: httpx2.Client, tmp_path: Path
) -> None:
    first = web.cluster.submit(gated(tmp_path / "go"))

    second = chief.put("/2/tags?tag=x", json={"depends": [[first, ["success"]]], "nosuch": 1}).json()

    status, [op] = web.cluster.job(second, "status", "ops")
    assert (status, op["depends"]) == ("waiting", [[first, ["success"]]])
    (tmp_path / "go").touch()
    web.cluster.wait(first, second)


def test_a_client_that_goes_takes_the_search_for_operating_systems_with_it(web: Web, chief: httpx2.Client) -> None:
    everything = chief.post("/2/filters", json={"action": "PAUSE"}).json()

    def searches() -> list[int]:
        jobs = chief.get("/2/jobs", params={"bulk": 1}).json()
        return [job["id"] for job in jobs if job["summary"] == ["OS_DIAGNOSE"]]

    with over_tls(web) as hasty:
        hasty.sendall(request("GET", "/2/os", user=("chief", "csecret")))
        wait_until(searches, what="the search is submitted")

    assert web.cluster.wait(*searches()) == ["canceled"]
    chief.delete(f"/2/filters/{everything}")


def test_a_drained_queue_is_unavailable(web: Web, chief: httpx2.Client) -> None:
    web.cluster.luxi(SetDrainFlag(True))
    try:
        reply = chief.put("/2/redistribute-config")
    finally:
        web.cluster.luxi(SetDrainFlag(False))

    assert (reply.status_code, reply.json()["code"]) == (503, 503)
    assert "drained" in reply.json()["message"]


# verb, path, body -> status
STATUSES: list[tuple[str, str, Any, int]] = [
    ("GET", "/2/nodes/nosuch", None, 404),
    ("GET", "/2/nodes/nosuch/role", None, 404),
    ("GET", "/2/nodes/nosuch/tags", None, 404),
    ("GET", "/2/instances/nosuch/console", None, 404),
    ("GET", "/2/groups/nosuch", None, 404),
    ("GET", "/2/filters/nosuch", None, 404),
    ("DELETE", "/2/filters/nosuch", {}, 404),
    ("GET", "/2/jobs/9999999999999999999999", None, 404),
    ("GET", "/2/jobs/1/", None, 404),
    ("GET", "/2/nodes/a%2Db", None, 404),
    ("GET", "/2/nodes?bulk=yes", None, 400),
    ("GET", "/2/nodes?bulk=1&lock=1", None, 400),
    ("GET", "/2/query/os?fields=name", None, 400),
    ("GET", "/2/query/job", None, 400),
    ("GET", "/2/query/job?fields=nosuch", None, 200),
    ("GET", "/2/query/job/fields?fields=id,%20nosuch", None, 200),
    ("PUT", "/2/modify", {"compression_tools": []}, 403),
    ("PUT", "/2/modify", {"max_running_jobs": 0}, 400),
    ("PUT", "/2/tags", None, 400),
    ("HEAD", "/2/jobs", None, 501),
    ("PATCH", "/2/jobs", None, 501),
]


@pytest.mark.parametrize(("verb", "path", "body", "status"), STATUSES)
def test_what_cannot_be_done_has_its_status(chief: httpx2.Client, verb: str, path: str, body: Any, status: int) -> None:
    reply = chief.request(verb, path, **({} if body is None else {"json": body}))

    assert reply.status_code == status, reply.text
    if verb != "HEAD" and status != 200:
        assert reply.json().keys() == {"code", "message", "explain"}
        assert reply.json()["code"] == status


def test_a_content_type_may_have_a_charset(chief: httpx2.Client) -> None:
    headers = {"Content-Type": "application/JSON; charset=utf-8"}

    reply = chief.put("/2/query/node", content=b'{"fields": ["name"]}', headers=headers)

    assert reply.json()["data"] == [[[0, "node1.test"]]]


@pytest.mark.parametrize(
    ("user", "verb", "path", "status"),
    [
        (None, "GET", "/version", 200),
        (None, "GET", "/2/jobs", 401),
        (None, "PUT", "/2/redistribute-config", 401),
        (("reader", "wrong"), "GET", "/version", 401),
        (("stranger", "ssecret"), "GET", "/2/jobs", 403),
        (("reader", "rsecret"), "GET", "/2/jobs?bulk=1", 200),
        (("reader", "rsecret"), "GET", "/2/os", 403),
        (("reader", "rsecret"), "GET", "/2/instances/x/info", 403),
        (("reader", "rsecret"), "PUT", "/2/redistribute-config", 403),
        (("reader", "rsecret"), "POST", "/2/filters", 403),
        (("reader", "rsecret"), "DELETE", "/2/jobs/1", 403),
    ],
)
def test_by_our_rule_who_reads_changes_nothing(
    web: Web, user: tuple[str, str] | None, verb: str, path: str, status: int
) -> None:
    jobs = web.local.get("/2/jobs").json()

    reply = web.remote(auth=user).request(verb, path)

    assert reply.status_code == status, reply.text
    assert web.local.get("/2/jobs").json() == jobs


def test_a_reader_sees_no_arguments_of_others(web: Web) -> None:
    job_id = web.cluster.submit({"OP_ID": "OP_RUN_COMMAND", "argv": ["echo", "a secret word"]})
    web.cluster.wait(job_id)

    seen = web.remote(auth=("reader", "rsecret")).get(f"/2/jobs/{job_id}")

    assert seen.status_code == 200
    assert "a secret word" not in seen.text
    assert "a secret word" in web.local.get(f"/2/jobs/{job_id}").text


def test_what_is_written_to_groups_and_tags_is_done_by_jobs_and_read_again(web: Web, chief: httpx2.Client) -> None:
    def write(method: str, path: str, body: object = None) -> object:
        reply = chief.request(method, path, json=body)
        assert reply.status_code == 200, reply.text
        job_id = reply.json()
        web.cluster.wait(job_id)
        status, (result,) = web.cluster.job(job_id, "status", "opresult")
        assert status == "success", result
        return result

    write("POST", "/2/groups", {"group_name": "g2", "alloc_policy": "unallocable"})
    assert write("PUT", "/2/groups/g2/modify", {"alloc_policy": "last_resort", "ndparams": {"ssh_port": 23}}) == [
        ["ndparams", "{'ssh_port': 23}"]
    ]
    assert write("PUT", "/2/groups/g2/rename", {"new_name": "g3"}) == "g3"
    write("PUT", "/2/groups/g3/assign-nodes", {"nodes": ["node1"]})
    for path in ("/2", "/2/groups/g3", "/2/nodes/node1.test"):
        write("PUT", f"{path}/tags?tag=a&tag=b:1")
        write("DELETE", f"{path}/tags?tag=a")
        # another test has left a tag on the cluster
        assert set(chief.get(f"{path}/tags").json()) - {"x"} == {"b:1"}

    found = chief.get("/2/groups/g3").json()
    assert (found["alloc_policy"], found["node_list"], found["tags"]) == ("last_resort", ["node1.test"], ["b:1"])
    write("PUT", "/2/groups/default/assign-nodes", {"nodes": ["node1.test"]})
    write("DELETE", "/2/groups/g3")
    assert [each["name"] for each in chief.get("/2/groups").json()] == ["default"]


def test_networks_and_the_cluster_are_changed(web: Web, chief: httpx2.Client) -> None:
    connection: dict[str, object] = {
        "group_name": "default",
        "network_mode": "bridged",
        "network_link": "br0",
    }
    writes: list[tuple[str, str, dict[str, object]]] = [
        ("POST", "/2/networks", {"network_name": "web", "network": "192.0.2.0/28", "gateway": "192.0.2.1"}),
        ("PUT", "/2/networks/web/modify", {"add_reserved_ips": ["192.0.2.9"]}),
        ("PUT", "/2/networks/web/connect", connection),
        ("PUT", "/2/modify", {"mac_prefix": "aa:00:77", "beparams": {"vcpus": 2}}),
    ]

    ended = [web.cluster.wait(chief.request(verb, path, json=body).json()) for verb, path, body in writes]

    assert ended == [["success"]] * len(writes)
    found = chief.get("/2/networks/web").json()
    assert (found["map"], found["group_list"]) == ("XX.......X.....X", [["default", "bridged", "br0", ""]])
    info = chief.get("/2/info").json()
    assert (info["mac_prefix"], info["beparams"]["default"]["vcpus"]) == ("aa:00:77", 2)
    again = [("PUT", "/2/networks/web/disconnect", {"group_name": "default"}), ("DELETE", "/2/networks/web", {})]
    ended = [web.cluster.wait(chief.request(verb, path, json=body).json()) for verb, path, body in again]
    assert ended == [["success"]] * len(again)
    assert {"name": "web", "uri": "/2/networks/web"} not in chief.get("/2/networks").json()
