"""The examples of the filters design, set over HTTPS, each with its effect on real jobs.

Source: filters design, "Examples" and "REST API"; rapi.md 6.4.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.daemon.luxid.ops import dummy, gated
from tests.support.cluster import Cluster
from tests.support.stamps import Stamps
from tests.support.wait import wait_until
from tests.support.web.rapid import Web

NEWER = [["jobid", [">", "id", "watermark"]]]
CREATIONS = [["opcode", ["=", "OP_ID", "OP_INSTANCE_CREATE"]]]
COMMANDS = [["opcode", ["=", "OP_ID", "OP_RUN_COMMAND"]]]
PINK_BUNNY = [["reason", ["=~", "reason", "maintenance pink bunny"]]]
CREATION = {"__version__": 1, "instance_name": "web2", "disks": [], "nics": [], "mode": "create"}
# places for jobs
PLACES = 4
SetRule = Callable[..., Any]


@pytest.fixture
def set_rule(chief: httpx2.Client) -> Iterator[SetRule]:
    """Set a rule, which is deleted after the test; return its UUID."""
    uuids: list[str] = []

    def set_one(**rule: Any) -> str:
        reply = chief.post("/2/filters", json=rule)
        assert reply.status_code == 200, reply.text
        uuids.append(reply.json())
        return uuids[-1]

    yield set_one
    for uuid in uuids:
        chief.delete(f"/2/filters/{uuid}")
    assert chief.get("/2/filters").json() == []


@pytest.fixture
def cluster(web: Web) -> Cluster:
    return web.cluster


@contextmanager
def full(cluster: Cluster, gate: Path) -> Iterator[None]:
    """Take all places, until the end of the context."""
    running = cluster.submit_many(*[(gated(gate),)] * PLACES)
    cluster.wait(*running, status="running")
    try:
        yield
    finally:
        gate.touch()
        assert cluster.wait(*running) == ["success"] * PLACES


def submit(client: httpx2.Client, reason: str = "") -> int:
    """Submit a job by a resource of Ganeti's; returns its id."""
    reply = client.put("/2/redistribute-config", params={"reason": reason} if reason else {})
    assert reply.status_code == 200, reply.text
    job_id = reply.json()
    assert type(job_id) is int
    return job_id


def delete(client: httpx2.Client, uuid: str) -> None:
    reply = client.delete(f"/2/filters/{uuid}")
    assert (reply.status_code, reply.json()) == (200, None)


def test_a_drain_refuses_what_comes_and_what_is_there_ends(
    cluster: Cluster, chief: httpx2.Client, set_rule: SetRule, tmp_path: Path
) -> None:
    with full(cluster, tmp_path / "go"):
        queued = submit(chief)

        uuid = set_rule(priority=0, predicates=NEWER, action="REJECT", reason=[["gnt:user", "the disks", 1]])

        refused = chief.put("/2/redistribute-config")
        assert (refused.status_code, refused.json()["code"]) == (403, 403)
        assert f"rejected by filter rule {uuid}" in refused.json()["message"]
        assert "the disks" in refused.json()["message"]
        assert cluster.status(queued) == "queued"
    assert cluster.wait(queued) == ["success"]
    delete(chief, uuid)
    assert cluster.wait(submit(chief)) == ["success"]


def test_a_soft_drain_lets_what_comes_wait_until_it_is_deleted(
    cluster: Cluster, chief: httpx2.Client, set_rule: SetRule, tmp_path: Path
) -> None:
    with full(cluster, tmp_path / "go"):
        queued = submit(chief)

        uuid = set_rule(predicates=NEWER, action="PAUSE")

        newer = submit(chief)
    assert cluster.wait(queued) == ["success"]
    assert cluster.status(newer) == "queued"
    delete(chief, uuid)
    assert cluster.wait(newer) == ["success"]


def test_of_all_jobs_only_those_of_one_maintenance(cluster: Cluster, chief: httpx2.Client, set_rule: SetRule) -> None:
    set_rule(priority=0, predicates=PINK_BUNNY, action="ACCEPT")
    uuid = set_rule(priority=1, predicates=[], action="PAUSE")

    other, maintenance = submit(chief, "nightly"), submit(chief, "maintenance pink bunny")

    assert cluster.wait(maintenance) == ["success"]
    assert cluster.status(other) == "queued"
    delete(chief, uuid)
    assert cluster.wait(other) == ["success"]


def test_creations_of_instances_are_refused_and_those_that_wait_are_canceled(
    cluster: Cluster, chief: httpx2.Client, set_rule: SetRule, tmp_path: Path
) -> None:
    with full(cluster, tmp_path / "go"):
        creation, other = chief.post("/2/instances", json=CREATION).json(), submit(chief)

        uuid = set_rule(predicates=CREATIONS, action="REJECT")

        assert cluster.wait(creation) == ["canceled"]
        refused = chief.post("/2/instances", json=CREATION)
        assert (refused.status_code, uuid in refused.json()["message"]) == (403, True)
        assert cluster.status(other) == "queued"
    assert cluster.wait(other) == ["success"]


def test_of_an_opcode_never_more_run_than_the_rule_says(
    cluster: Cluster, chief: httpx2.Client, set_rule: SetRule, tmp_path: Path
) -> None:
    stamps = Stamps(tmp_path / "work")
    set_rule(predicates=COMMANDS, action=["RATE_LIMIT", 2])

    jobs = cluster.submit_many(*[(stamps.gated("gate"),)] * 3)

    wait_until(lambda: len(stamps.lines()) == 2, what="two of them run", state=stamps.lines)
    assert cluster.wait(submit(chief)) == ["success"], "it waits for no limit"
    assert len(stamps.lines()) == 2
    stamps.open_gate("gate")
    assert cluster.wait(*jobs) == ["success"] * 3
    stamps.assert_nothing_ran_twice()


def test_an_ad_hoc_limit_is_a_reason_and_needs_no_rule(cluster: Cluster, chief: httpx2.Client, tmp_path: Path) -> None:
    limit = "rate-limit:1:backup"
    holder = cluster.submit({**gated(tmp_path / "go"), "reason": [["gnt:user", limit, 1]]})
    cluster.wait(holder, status="running")

    limited, free = submit(chief, limit), submit(chief, "rate-limit:1:other")

    assert cluster.wait(free) == ["success"]
    assert cluster.status(limited) == "queued"
    (tmp_path / "go").touch()
    assert cluster.wait(holder, limited) == ["success"] * 2


def test_a_replaced_rule_has_a_fresh_watermark_and_no_old_reasons(
    cluster: Cluster, chief: httpx2.Client, set_rule: SetRule
) -> None:
    uuid = set_rule(reason=[["gnt:user", "first", 1]])
    before = chief.get(f"/2/filters/{uuid}").json()
    last = cluster.submit(dummy())

    reply = chief.put(f"/2/filters/{uuid}", json={"priority": 3, "action": "CONTINUE"})

    after = chief.get(f"/2/filters/{uuid}").json()
    assert (reply.status_code, reply.json()) == (200, uuid)
    assert (before["priority"], before["predicates"], before["action"]) == (0, [], "CONTINUE")
    assert (before["watermark"], after["watermark"], after["priority"]) == (last - 1, last, 3)
    assert [entry[:2] for entry in before["reason_trail"]] == [
        ["gnt:user", "first"],
        ["gantry:http", "chief"],
        ["luxid", ""],
    ]
    assert [entry[:2] for entry in after["reason_trail"]] == [["gantry:http", "chief"], ["luxid", ""]]
    assert chief.get("/2/filters", params={"bulk": 1}).json() == [after]
    cluster.wait(last)


@pytest.mark.parametrize(
    "rule",
    [
        {"predicates": [["jobid", ["~~", "id"]]]},
        {"predicates": [["nosuch", [">", "id", 1]]]},
        {"action": ["RATE_LIMIT", 0]},
        {"action": "accept"},
        {"action": None},
        {"priority": None},
        {"reason": [["only two", "parts"]]},
        {"priority": -1},
    ],
)
def test_a_wrong_rule_is_told_to_be_wrong_and_nothing_is_set(chief: httpx2.Client, rule: dict[str, Any]) -> None:
    reply = chief.post("/2/filters", json=rule)

    assert (reply.status_code, reply.json()["code"]) == (400, 400)
    assert chief.get("/2/filters").json() == []
