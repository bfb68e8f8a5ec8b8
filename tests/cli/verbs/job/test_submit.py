"""`gnt-job submit` and `gnt-debug submit-job`. Source: cli.md 1.2, 2 and 4."""

import json
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.connection import user_name
from common.paths import Paths
from common.queue.terms import JobTerms, terms_of_trail
from protocol.luxi.jobs import SubmitJob, SubmitManyJobs
from tests.cli.command import Background, Ended, run
from tests.cli.fakeluxid import FakeJob, FakeLuxid

OP = {"OP_ID": "OP_TEST_DUMMY"}
Start = Callable[..., FakeLuxid]
Job = Callable[..., Ended]


def test_a_list_of_opcodes_is_one_job_and_its_id_is_printed(start_luxid: Start, job: Job) -> None:
    luxid = start_luxid(FakeJob(41))

    ended = job("submit", "-", stdin=json.dumps([OP, OP]))

    assert ended == Ended(0, "42\n", "")
    (call,) = luxid.calls
    assert isinstance(call, SubmitJob)
    assert [op["OP_ID"] for op in call.job] == ["OP_TEST_DUMMY", "OP_TEST_DUMMY"]


def test_one_opcode_alone_is_a_job_of_one(start_luxid: Start, job: Job) -> None:
    luxid = start_luxid()

    ended = job("submit", "-", stdin=json.dumps(OP))

    assert ended == Ended(0, "1\n", "")
    assert len(luxid.calls[0].job) == 1


def test_a_list_of_jobs_is_one_submission_that_keeps_relative_dependencies(
    start_luxid: Start, tmp_path: Path, job: Job
) -> None:
    luxid = start_luxid()
    second = {**OP, "depends": [[-1, ["success"]]]}
    file = tmp_path / "jobs.json"
    file.write_text(json.dumps([[OP], [second]]))

    ended = job("submit", file)

    assert ended == Ended(0, "1\n2\n", "")
    (call,) = luxid.calls
    assert isinstance(call, SubmitManyJobs)
    assert call.jobs[1][0]["depends"] == [[-1, ["success"]]]


def test_the_reason_trail_ends_with_the_user_and_the_program(start_luxid: Start, job: Job) -> None:
    luxid = start_luxid()
    given = {**OP, "reason": [["gnt:user", "first", 1]]}

    job("submit", "--reason", "again", "--priority", "high", "-", stdin=json.dumps([given]))

    (op,) = luxid.calls[0].job
    assert [entry[:2] for entry in op["reason"]] == [
        ["gnt:user", "first"],
        ["gantry:login", user_name()],
        ["gnt:user", "again"],
        ["gnt:client:gnt-job", "submit"],
    ]
    assert op["priority"] == -10


def test_a_submission_whose_answer_was_lost_is_sent_again_under_the_same_key(tmp_path: Path) -> None:
    paths = Paths.under_root(tmp_path)
    paths.make_folders()
    heard: list[bytes] = []

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(paths.query_socket))
        listener.listen()
        with Background("gnt-job", "--root", tmp_path, "run", "true") as submit:
            for reply in (b"", b'{"success": true, "result": 7}\x03'):
                connection, _ = listener.accept()
                with connection:
                    heard.append(_read_request(connection))
                    connection.sendall(reply)
            ended = submit.end()

    assert ended == Ended(0, "7\n", "")
    assert heard[0] == heard[1]
    _, key = json.loads(heard[0])["args"]
    assert len(key) == 32


def _read_request(connection: socket.socket) -> bytes:
    request = b""
    while not request.endswith(b"\x03"):
        request += connection.recv(65536)
    return request[:-1]


def test_each_submission_has_a_key_of_its_own(start_luxid: Start, job: Job) -> None:
    luxid = start_luxid()

    for _ in range(2):
        job("submit", "-", stdin=json.dumps([[OP], [OP]]))

    keys = {call.key for call in luxid.calls}
    assert len(keys) == 2
    assert None not in keys


def test_ganetis_submit_option_prints_the_id_on_standard_error(start_luxid: Start, job: Job) -> None:
    start_luxid()

    assert job("submit", "--submit", "-", stdin=json.dumps(OP)) == Ended(0, "", "JobID: 1\n")


def test_json_output_is_the_answer_of_the_wire(start_luxid: Start, job: Job) -> None:
    start_luxid()

    ended = job("submit", "--output", "json", "-", stdin=json.dumps([[OP], [OP]]))

    assert ended == Ended(0, "[[true,1],[true,2]]\n", "")


def test_a_job_that_is_not_taken_is_told_and_the_others_stay(start_luxid: Start, job: Job) -> None:
    start_luxid()

    ended = job("submit", "-", stdin=json.dumps([[OP], [OP] * 9]))

    assert ended == Ended(1, "1\n", "error: job 2 of 2 was not taken: the disk is full\n")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('[\n{"OP_ID": }]', "standard input:2:11: not JSON: unexpected character, expected a JSON value"),
        ("[]", "standard input:1:1: expected a list of opcodes, or of jobs, or a plan with 'jobs', got []"),
        ("7", "standard input:1:1: expected a list of opcodes, or of jobs, or a plan with 'jobs', got 7"),
        (
            '[[{"OP_ID": "OP_A"}], []]',
            "standard input:1:23: [1]: expected a job: a list of at least one opcode, got []",
        ),
        (
            '[[{"OP_ID": "OP_A"}, 3]]',
            "standard input:1:22: [0][1]: expected an opcode: an object with an OP_ID, got 3",
        ),
        (
            '[{"OP_ID": "OP_RUN_COMMAND", "locks": {"node/a": "shared", "node/a": "exclusive"}}]',
            "standard input:1:60: an object has the key 'node/a' twice; write it once",
        ),
        ("[{}]", 'standard input:1:2: [0]: the opcode lacks a string OP_ID, e.g. "OP_RUN_COMMAND"'),
    ],
)
def test_a_wrong_file_is_refused_with_the_place_in_it(start_luxid: Start, job: Job, text: str, error: str) -> None:
    luxid = start_luxid()

    ended = job("submit", "-", stdin=text)

    assert ended == Ended(2, "", f"error: {error}\n")
    assert luxid.calls == []


def test_a_missing_file_is_told_with_its_path(start_luxid: Start, tmp_path: Path, job: Job) -> None:
    start_luxid()

    ended = job("submit", tmp_path / "none.json")

    assert ended.code == 1
    assert ended.err == f"error: no such file or directory '{tmp_path}/none.json'; check the path and its owner\n"


def test_debug_submit_job_makes_one_job_of_each_file(start_luxid: Start, tmp_path: Path) -> None:
    luxid = start_luxid()
    for name in "ab":
        (tmp_path / name).write_text(json.dumps([{**OP, "comment": name}]))

    ended = run("gnt-debug", "--root", tmp_path, "submit-job", "--op-repeat", "2", tmp_path / "a", tmp_path / "b")

    assert ended == Ended(0, "1\n2\n", "")
    assert [[op["comment"] for op in job] for job in luxid.calls[0].jobs] == [["a", "a"], ["b", "b"]]


def test_delay_submits_the_opcode_that_sleeps(start_luxid: Start, tmp_path: Path) -> None:
    luxid = start_luxid()

    ended = run("gnt-debug", "--root", tmp_path, "delay", "-n", "node1", "0.5")

    assert ended == Ended(0, "1\n", "")
    (op,) = luxid.calls[0].job
    assert (op["OP_ID"], op["duration"], op["on_nodes"], op["no_locks"]) == ("OP_TEST_DELAY", 0.5, ["node1"], False)


def test_a_plan_in_yaml_is_one_submission(start_luxid: Start, tmp_path: Path, job: Job) -> None:
    luxid = start_luxid()
    file = tmp_path / "plan.yaml"
    file.write_text("jobs:\n- {name: a, run: [make]}\n- {name: b, run: [x], after: a}  # then\n")

    ended = job("submit", "--label", "team=web", file)

    assert ended == Ended(0, "1\n2\n", "")
    (call,) = luxid.calls
    assert isinstance(call, SubmitManyJobs)
    assert call.jobs[1][0]["depends"] == [[-1, ["success"]]]
    terms = [terms_of_trail(ops[0]["reason"]) for ops in call.jobs]
    assert terms == [JobTerms("a", {"team": "web"}), JobTerms("b", {"team": "web"})]


def test_a_wrong_plan_is_refused_with_line_and_column(start_luxid: Start, tmp_path: Path, job: Job) -> None:
    luxid = start_luxid()
    file = tmp_path / "plan.yaml"
    file.write_text("jobs:\n- run: [make]\n  timeout: 1:30\n")

    ended = job("submit", file)

    assert (ended.code, ended.out, luxid.calls) == (2, "", [])
    assert ended.err.startswith(f"error: {file}:3:12: jobs[0].timeout: '1:30' is not a duration")


def test_the_schema_needs_no_file(job: Job) -> None:
    assert json.loads(job("submit", "--schema").out)["required"] == ["jobs"]
    assert "missing argument 'FILE'" in job("submit").err
