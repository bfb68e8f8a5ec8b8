"""`gnt-job run` on nodes: one submission of one job a node. Source: DESIGN section 13, "Fleet"."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from common.queue.reasons import Batch, batch_of_trail
from protocol.luxi.jobs import SubmitJob, SubmitManyJobs
from protocol.luxi.queries import Query
from tests.cli.command import Ended
from tests.cli.fakeluxid import FakeLuxid

Start = Callable[..., FakeLuxid]
Job = Callable[..., Ended]


def node(name: str, group: str = "web", *, is_offline: bool = False, is_drained: bool = False) -> dict[str, Any]:
    return {"name": name, "group": group, "offline": is_offline, "drained": is_drained}


@pytest.fixture
def luxid(start_luxid: Start) -> FakeLuxid:
    luxid = start_luxid()
    luxid.nodes = [
        node("web10.lab"), node("web2.lab"), node("web1.lab"), node("db1.lab", "db"),
        node("web3.lab", is_drained=True), node("web4.lab", is_offline=True), node("old.lab", "old", is_offline=True),
    ]  # fmt: skip
    return luxid


def submitted(luxid: FakeLuxid) -> list[dict[str, Any]]:
    (call,) = (each for each in luxid.calls if isinstance(each, SubmitJob | SubmitManyJobs))
    jobs = [call.job] if isinstance(call, SubmitJob) else call.jobs
    return [dict(op) for (op,) in jobs]


def places(luxid: FakeLuxid) -> list[Batch | None]:
    return [batch_of_trail(op["reason"]) for op in submitted(luxid)]


def test_one_node_is_one_job_as_any_other(luxid: FakeLuxid, job: Job) -> None:
    ended = job("run", "--node", "web1", "--", "uptime")

    assert ended == Ended(0, "1\n", "")
    (op,) = submitted(luxid)
    assert (op["node"], op["argv"]) == ("web1.lab", ["uptime"])
    # the folder here may not be there
    assert "cwd" not in op
    assert places(luxid) == [None]


def test_several_nodes_are_one_submission_of_a_batch(luxid: FakeLuxid, job: Job) -> None:
    ended = job(
        *("run", "--node", "web2", "--node", "db1.lab", "--node", "web2.lab", "--at-most", "1"),
        *("--lock", "node/{node}", "--lock", "instance/i1:shared", "--reason", "week 12", "--", "true"),
    )

    assert ended == Ended(0, "1\n2\n", "")
    ops = submitted(luxid)
    assert [op["node"] for op in ops] == ["web2.lab", "db1.lab"]
    assert [op["locks"] for op in ops] == [
        {"node/web2.lab": "exclusive", "instance/i1": "shared"},
        {"node/db1.lab": "exclusive", "instance/i1": "shared"},
    ]
    first, second = places(luxid)
    assert first is not None
    assert (first.place, first.size, first.at_most, first.failures) == (1, 2, 1, None)
    assert second == Batch(first.batch_id, 2, 2, 1)
    assert ["gnt:user", "week 12"] in [entry[:2] for entry in ops[1]["reason"]]


def test_a_group_leaves_out_what_is_offline_or_drained_and_says_so(luxid: FakeLuxid, job: Job) -> None:
    ended = job("run", "--node-group", "web", "--stop-on-failure", "--", "true")

    assert ended == Ended(0, "1\n2\n3\n", "left out: web3.lab (drained)\nleft out: web4.lab (offline)\n")
    assert [op["node"] for op in submitted(luxid)] == ["web1.lab", "web2.lab", "web10.lab"]
    assert [each.failures for each in places(luxid) if each is not None] == [0, 0, 0]


def test_each_node_and_a_drained_one_that_is_named(luxid: FakeLuxid, job: Job) -> None:
    assert job("run", "--each-node", "--max-failures", "2", "--", "true").out == "1\n2\n3\n4\n"
    assert [op["node"] for op in submitted(luxid)] == ["db1.lab", "web1.lab", "web2.lab", "web10.lab"]
    luxid.calls.clear()

    assert job("run", "--node", "web3", "--node-group", "db", "--", "true") == Ended(0, "5\n6\n", "")
    assert [op["node"] for op in submitted(luxid)] == ["web3.lab", "db1.lab"]


def test_json_tells_the_id_of_each_node(luxid: FakeLuxid, job: Job) -> None:
    ended = job("run", "--output", "json", "--node", "web1", "--node", "web2", "--", "true")

    assert json.loads(ended.out) == [{"node": "web1.lab", "id": 1}, {"node": "web2.lab", "id": 2}]


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--node", "wbe1"], "there is no node 'wbe1'; did you mean 'web1'?"),
        (["--node", "x"], "there is no node 'x'; there are db1.lab, old.lab, web1.lab, web2.lab, web3.lab, web4.lab, "),
        (["--node", "web4"], "node 'web4.lab' is marked offline; nothing can be run there"),
        (["--node-group", "wbe"], "there is no node group 'wbe' that has nodes; did you mean 'web'?"),
        (["--node-group", "old"], "no node is left to run it on: old.lab is offline"),
    ],
)
def test_wrong_nodes_are_told_before_anything_is_submitted(
    luxid: FakeLuxid, job: Job, words: list[str], error: str
) -> None:
    ended = job("run", *words, "--", "true")

    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith(f"error: {error}")
    assert [type(call) for call in luxid.calls] == [Query]


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--each-node", "--node", "web1"], "--each-node takes all nodes already; leave it out, or --node"),
        (["--each-node", "--node-group", "web"], "--each-node takes all nodes already; leave it out, or --node-group"),
        (
            ["--at-most", "2"],
            "--at-most is for several jobs; name nodes by --node, --node-group or --each-node, or values by --each",
        ),
        (["--stop-on-failure"], "--stop-on-failure is for several jobs; name nodes by --node, --node-group or"),
        (["--node", "web1", "--max-failures", "1"], "--max-failures is for several jobs; name nodes by --node, --no"),
        (
            ["--each-node", "--stop-on-failure", "--max-failures", "1"],
            "--stop-on-failure allows no failure, --max-failures 1; give one of them",
        ),
        (["--lock", "node/{node}"], "'{node}' in --lock node/{node} is for commands on nodes; name them by --node"),
        (["--each-node", "--lock", "node/{nod}"], "'{nod}' in --lock node/{nod} stands for nothing; {node} stands"),
        (["--node", ""], "--node and --node-group need a name; 'gnt-node list -o name,group' shows all"),
        (["--each-node", "--cwd", "here"], "--cwd 'here' is on the node; write a path that begins with /"),
        (["--each-node", "--stdin", "dump"], "--stdin 'dump' is on the node; write a path that begins with /"),
        (["--each-node", "--at-most", "0"], "invalid value for '--at-most': 0 is not in the range x>=1"),
    ],
)
def test_options_that_do_not_fit_together_are_refused(
    luxid: FakeLuxid, job: Job, words: list[str], error: str, tmp_path: Path
) -> None:
    ended = job("run", *words, "--", "true", cwd=tmp_path)

    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"error: {error}")
    assert luxid.calls == []
