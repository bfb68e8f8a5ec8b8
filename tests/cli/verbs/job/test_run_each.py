"""`gnt-job run --each`: one submission of a job for each value. Source: DESIGN section 16; everyday.md d."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from common.queue.reasons import batch_of_trail
from common.queue.terms import terms_of_trail
from protocol.luxi.jobs import SubmitManyJobs
from tests.cli.command import Ended
from tests.cli.fakeluxid import FakeLuxid
from tests.cli.programhost import ProgramHost

Start = Callable[..., FakeLuxid]
Job = Callable[..., Ended]


@pytest.fixture
def run(host: ProgramHost, tmp_path: Path) -> Job:
    return partial(host.run, "gnt-job", "--root", tmp_path, "run", cwd=tmp_path)


@pytest.fixture
def luxid(start_luxid: Start) -> FakeLuxid:
    return start_luxid()


def ops(luxid: FakeLuxid) -> list[dict[str, Any]]:
    (call,) = (each for each in luxid.calls if isinstance(each, SubmitManyJobs))
    return [dict(op) for (op,) in call.jobs]


def test_each_value_is_a_job_of_one_batch(luxid: FakeLuxid, run: Job, tmp_path: Path) -> None:
    ended = run(
        *("--each", "host=web1,web 2", "--at-most", "1", "--lock", "node/{host}", "--env", "WHERE=at {host}"),
        *(
            "--label",
            "team=web",
            "--label",
            "on={host}!",
            "--cwd",
            "/srv/{host}",
            "--",
            "ssh",
            "{host}",
            "{{host}} {x}",
        ),
    )

    assert ended == Ended(0, "1\n2\n", "")
    first, second = ops(luxid)
    assert first["argv"] == ["ssh", "web1", "{host} {x}"]
    assert second["argv"] == ["ssh", "web 2", "{host} {x}"]
    assert second["env"] == {
        "WHERE": "at web 2",
        "GANTRY_EACH_host": "web 2",
        "GANTRY_EACH_INDEX": "2",
        "GANTRY_EACH_COUNT": "2",
    }
    assert (second["cwd"], second["locks"]) == ("/srv/web 2", {"node/web 2": "exclusive"})
    terms = terms_of_trail(second["reason"])
    assert (terms.name, terms.labels) == ("ssh-web 2", {"host": "web 2", "team": "web", "on": "web 2!"})
    batches = [batch_of_trail(op["reason"]) for op in (first, second)]
    assert batches[0] is not None
    assert batches[1] is not None
    assert batches[0].batch_id == batches[1].batch_id
    assert [(each.place, each.size, each.at_most, each.each) for each in batches if each is not None] == [
        (1, 2, 1, ("host",)),
        (2, 2, 1, ("host",)),
    ]


@pytest.mark.parametrize(
    ("name", "expected"), [("backup", "backup-a-1"), ("backup {host}", "backup a"), ("{n}@{host}", "1@a")]
)
def test_a_name_tells_the_jobs_apart(luxid: FakeLuxid, run: Job, name: str, expected: str) -> None:
    run("--each", "host=a,b", "--each", "n=1..2", "--name", name, "--", "true")

    names = [terms_of_trail(op["reason"]).name for op in ops(luxid)]
    assert names[0] == expected
    assert len(names) == 4


def test_a_mistyped_mark_is_told_and_stays(luxid: FakeLuxid, run: Job) -> None:
    ended = run("--each", "host=a,b", "--", "ssh", "{hots}", "{host}", "{print}", "{{hosts}}")

    assert ended == Ended(0, "1\n2\n", "'{hots}' stays as it is; did you mean '{host}'?\n")
    assert ops(luxid)[0]["argv"] == ["ssh", "{hots}", "a", "{print}", "{{hosts}}"]


def test_values_come_from_a_file_or_from_standard_input(luxid: FakeLuxid, run: Job, tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("a\n\n# b\nc d\n")

    ended = run("--each", "file=@list.txt", "--each", "day=@-", "--", "true", "{file}", "{day}", stdin="mon\ntue\n")

    assert ended.out == "1\n2\n3\n4\n"
    assert [op["argv"][1:] for op in ops(luxid)] == [["a", "mon"], ["a", "tue"], ["c d", "mon"], ["c d", "tue"]]


def test_values_and_nodes_go_together(luxid: FakeLuxid, run: Job) -> None:
    luxid.nodes = [{"name": name, "group": "g", "offline": False, "drained": False} for name in ("n1.lab", "n2.lab")]

    ended = run("--output", "json", "--each", "size=s,l", "--each-node", "--lock", "node/{node}", "--", "x", "{size}")

    assert json.loads(ended.out) == [
        {"size": "s", "node": "n1.lab", "id": 1},
        {"size": "s", "node": "n2.lab", "id": 2},
        {"size": "l", "node": "n1.lab", "id": 3},
        {"size": "l", "node": "n2.lab", "id": 4},
    ]
    last = ops(luxid)[-1]
    assert (last["node"], last["locks"], last["argv"]) == ("n2.lab", {"node/n2.lab": "exclusive"}, ["x", "l"])
    assert terms_of_trail(last["reason"]).labels == {"size": "l"}


def test_without_values_the_node_stands_in_names_and_labels_only(luxid: FakeLuxid, run: Job) -> None:
    luxid.nodes = [{"name": name, "group": "g", "offline": False, "drained": False} for name in ("n1", "n2")]

    run("--each-node", "--name", "up of {node}", "--label", "on={node}", "--", "awk", "{node}")

    assert [terms_of_trail(op["reason"]).name for op in ops(luxid)] == ["up of n1", "up of n2"]
    assert terms_of_trail(ops(luxid)[0]["reason"]).labels == {"on": "n1"}
    assert ops(luxid)[0]["argv"] == ["awk", "{node}"]


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--each", "host"], "'host' has no values; write NAME=VALUE,VALUE or NAME=@FILE"),
        (["--each", "host=@nothing"], "cannot read 'nothing': No such file or directory"),
        (["--each", "host=a", "--each", "host=b"], "'host' is there twice"),
        (["--each", "a=1..101", "--each", "b=1..100"], "101 of a x 100 of b are 10,100 jobs, of at most 10,000"),
        (["--each", "host=a", "--lock", "node/{hots}"], "'{hots}' in --lock node/{hots} stands for nothing; {host}"),
        (["--each", "node=a", "--each-node"], "{node} stands for the nodes that are named; give --each another name"),
        (["--each", "host=a", "--label", "Host=b"], "a label is named by 1 to 63"),
    ],
)
def test_what_does_not_fit_together_is_refused(luxid: FakeLuxid, run: Job, words: list[str], error: str) -> None:
    luxid.nodes = [{"name": "n1", "group": "g", "offline": False, "drained": False}]

    ended = run(*words, "--", "true")

    assert ended.code in (1, 2)
    assert error in ended.err
    assert luxid.jobs == {}


def test_a_large_batch_tells_its_share_of_the_queue(luxid: FakeLuxid, run: Job) -> None:
    assert run("--each", "n=1..999", "--", "true").err == ""
    assert run("--each", "n=1..1000", "--", "true").err == "1,000 jobs take 1,000 of 100,000 queue places\n"


def test_no_value_goes_through_a_shell(luxid: FakeLuxid, run: Job) -> None:
    ended = run("--each", "host=a;reboot", "--shell", "--", "echo {host}")

    assert ended.code == 2
    assert '"$GANTRY_EACH_host" for {host}' in ended.err
    assert run("--each", "host=a;reboot", "--shell", "--", 'echo "$GANTRY_EACH_host"').code == 0
