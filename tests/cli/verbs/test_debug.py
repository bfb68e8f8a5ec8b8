"""`gnt-debug`: submissions that are measured, methods of wconfd by hand, promises of the queue. Source: cli.md 4."""

import json
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from common.access import Role
from common.ids import JobId
from common.locks import Owner, parse_lock, parse_mode
from common.paths import Paths
from protocol.luxi.jobs import SubmitJob, SubmitManyJobs
from protocol.messages import Request
from protocol.peer import Peer
from protocol.serving.route import AnyRoute, Route
from protocol.wconfd.locks import CleanupLocks, Echo, ListAllLocksOwners, ListLocks, TryUpdateLocks
from tests.cli.command import Background, Ended, run
from tests.cli.fakeluxid import AT, FakeJob, FakeLuxid, serving
from tests.support.wait import wait_until

Start = Callable[..., FakeLuxid]
OP = {"OP_ID": "OP_TEST_DUMMY"}


@pytest.fixture
def debug(tmp_path: Path) -> Callable[..., Ended]:
    """Run `gnt-debug` against the root `tmp_path`."""
    return lambda *words: run("gnt-debug", "--root", tmp_path, *words)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "job.json"
    path.write_text(json.dumps([OP]))
    return path


def test_each_submits_the_jobs_one_by_one(start_luxid: Start, debug: Callable[..., Ended], file: Path) -> None:
    luxid = start_luxid()

    ended = debug("submit-job", "--each", "--job-repeat", "3", "-v", file)

    assert ended == Ended(0, "1\n2\n3\n", "submitting 3 jobs with 3 opcodes\n")
    assert [type(call) for call in luxid.calls] == [SubmitJob] * 3


def test_timing_stats_are_counts_and_seconds(start_luxid: Start, tmp_path: Path, file: Path) -> None:
    luxid = start_luxid()

    words = ("submit-job", "--timing-stats", "--op-repeat", "2", "--job-repeat", "2", "-v", file)
    with Background("gnt-debug", "--root", tmp_path, *words) as submit:
        wait_until(lambda: luxid.is_waited_for(1), what="the first job is waited for")
        luxid.change(1, status="success")
        wait_until(lambda: luxid.is_waited_for(2), what="the second job is waited for")
        luxid.change(2, status="error")
        ended = submit.end()

    assert isinstance(luxid.calls[0], SubmitManyJobs)
    assert ended.code == 0
    assert re.sub(r"\d+\.\d{6}", "SECONDS", ended.out) == (
        "C:op     4\nC:job    2\nT:submit SECONDS\nT:exec   SECONDS\nT:total  SECONDS\n"
    )
    assert ended.err == (
        "submitting 2 jobs with 4 opcodes\nwaiting for jobs 1, 2\nwarning: 1 of 2 jobs did not succeed: 2\n"
    )


def test_a_delay_has_all_that_ganetis_has(start_luxid: Start, debug: Callable[..., Ended]) -> None:
    luxid = start_luxid()

    ended = debug("delay", "--no-master", "-n", "a", "-n", "b", "-r", "3", "-i", "-l", "--priority", "low", "0.5")

    assert ended == Ended(0, "1\n", "")
    op = dict(luxid.calls[0].job[0])
    assert [entry[0] for entry in op.pop("reason")] == ["gantry:login", "gnt:client:gnt-debug"]
    assert op == {
        "OP_ID": "OP_TEST_DELAY",
        "duration": 0.5,
        "on_master": False,
        "on_nodes": ["a", "b"],
        "repeat": 3,
        "interruptible": True,
        "no_locks": True,
        "priority": 10,
    }


A = Owner(JobId(7), "/run/a")
N1, N2, SHARED = parse_lock("node/n1"), parse_lock("node/n2"), parse_mode("shared")


@contextmanager
def fake_wconfd(root: Path, answers: dict[type[Request[Any]], Any]) -> Iterator[list[Any]]:
    """Yields the calls it gets."""
    paths = Paths.under_root(root)
    paths.make_folders()
    calls: list[Any] = []

    def route(kind: type[Request[Any]], answer: Any) -> AnyRoute:
        async def tell(call: Any, _: Peer) -> Any:
            calls.append(call)
            return call.text if answer is Echo else answer

        return Route(kind, tell, role=Role.READ)

    with serving(paths.wconfd_socket, [route(kind, answer) for kind, answer in answers.items()]):
        yield calls


def test_a_method_of_wconfd_is_called_with_json(tmp_path: Path, debug: Callable[..., Ended]) -> None:
    with fake_wconfd(tmp_path, {TryUpdateLocks: [A]}) as calls:
        ended = debug("wconfd", "tryupdatelocks", '["me", "/run/me"]', '[["node/n1", "shared"]]')

    assert ended == Ended(0, '[[7,"/run/a"]]\n', "")
    (call,) = calls
    assert (call.owner, [str(request.lock) for request in call.requests]) == (Owner("me", "/run/me"), ["node/n1"])


def test_the_forms_of_ganeti_work(tmp_path: Path, debug: Callable[..., Ended]) -> None:
    held = [(N1, [(A, SHARED)]), (N2, [(Owner(JobId(8), "/run/b"), SHARED), (A, SHARED)])]
    answers = {Echo: Echo, CleanupLocks: (), ListAllLocksOwners: held, ListLocks: [(N1, SHARED)]}
    with fake_wconfd(tmp_path, answers):
        echoed = debug("wconfd", "echo", "12")
        cleaned = debug("wconfd", "cleanuplocks")
        of_job = debug("wconfd", "listlocks", "7")
        of_owner = debug("wconfd", "listlocks", '[7, "/run/a"]')

    assert echoed == Ended(0, "12\n", "")
    assert cleaned == Ended(0, "[]\n", "")
    assert of_job == Ended(0, '[["node/n1","shared"],["node/n2","shared"]]\n', "")
    assert of_owner == Ended(0, '[["node/n1","shared"]]\n', "")


def test_the_methods_are_listed_with_their_arguments(tmp_path: Path, debug: Callable[..., Ended]) -> None:
    Paths.under_root(tmp_path).make_folders()

    ended = debug("wconfd")

    lines = [line.split(maxsplit=1) for line in ended.out.splitlines()]
    rows = {line[0]: line[1] for line in lines}
    assert ended.code == 0
    assert rows["METHOD"].split() == ["ARGUMENTS", "WHAT", "IT", "DOES"]
    assert rows["tryUpdateLocks"].startswith("owner requests ")
    assert rows["cleanupLocks"].startswith("- ")


def test_a_method_that_is_not_there_is_2_with_the_nearest(tmp_path: Path, debug: Callable[..., Ended]) -> None:
    Paths.under_root(tmp_path).make_folders()

    assert debug("wconfd", "tryupdatelock") == Ended(
        2, "", "error: wconfd has no method 'tryupdatelock'; did you mean 'tryUpdateLocks'?\n"
    )


def test_wrong_arguments_are_2_with_the_names(tmp_path: Path, debug: Callable[..., Ended]) -> None:
    Paths.under_root(tmp_path).make_folders()

    ended = debug("wconfd", "listLocks")

    assert ended == Ended(2, "", "error: listLocks lacks owner; its arguments are owner\n")


def test_a_queue_that_takes_everything_keeps_no_promise(start_luxid: Start, tmp_path: Path) -> None:
    luxid = start_luxid()

    with Background("gnt-debug", "--root", tmp_path, "test-jobqueue") as test:
        lines = [test.read_line(), test.read_line()]
        for job_id in range(3, 9):
            wait_until(lambda job_id=job_id: job_id in luxid.jobs, what=f"job {job_id} is there")  # type: ignore[misc]
            luxid.change(job_id, status="success")
        ended = test.end()

    assert lines == [
        "a dependency that cannot be is refused: a dependency on the job before the first was taken: 1\n",
        "priorities outside the three are refused: priority -21 in opcode 1 of 1 was taken: 2\n",
    ]
    assert ended.out.splitlines() == [
        "jobs run after those they depend on: job 4 depends on [-1], expected [3]",
        "messages and states arrive in order: job 8 (trial 1): expected the messages ['TESTMSG=one'], got []",
    ]
    assert ended.code == 1
    assert ended.err.startswith("error: 4 of 4 checks failed: a dependency that cannot be is refused, ")


def test_a_witness_goes_to_every_socket_that_the_log_names(start_luxid: Start, tmp_path: Path) -> None:
    from cli.debug.jobs import witness
    from cli.live.following import JobFeed
    from protocol.blocking import BlockingClient

    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        log = [
            [1, AT, "jqueue-test", [str(path), "exec", None]],
            [2, AT, "message", "TESTMSG=a"],
            [3, AT, "jqueue-test", [str(path), "logmsg", 1]],
        ]
        luxid = start_luxid(FakeJob(5, "success", log=log))

        with BlockingClient(luxid.path) as client, BlockingClient(luxid.path) as connection:
            feed = JobFeed(connection, lambda: client, [5], ("status",))
            feed.begin()
            seen = witness(client, 5, feed)

    assert seen.messages == ("TESTMSG=a",)
    assert seen.steps == (("exec", None, "success"), ("logmsg", 1, "success"))
    assert seen.statuses == ("success",)


@pytest.mark.parametrize(
    ("words", "jobs"), [(("gnt-debug",), "gnt-job"), (("gantry", "debug"), "gantry job")], ids=["gnt-debug", "gantry"]
)
def test_whoever_stops_watching_is_told_commands_that_there_are(
    start_luxid: Start, tmp_path: Path, words: tuple[str, ...], jobs: str
) -> None:
    luxid = start_luxid()

    with Background(*words, "--root", tmp_path, "delay", "20", "--wait") as watched:
        wait_until(lambda: luxid.is_waited_for(1), what="the job is watched")
        watched.interrupt()
        ended = watched.end()

    prefix = f"{jobs} --root {tmp_path}"
    assert ended == Ended(
        130, "", f"\njob 1 goes on; watch again with: {prefix} watch 1; cancel with: {prefix} cancel 1\n"
    )


@pytest.mark.parametrize("seconds", ["nan", "inf", "abc"])
def test_a_delay_is_a_duration(start_luxid: Start, debug: Callable[..., Ended], seconds: str) -> None:
    luxid = start_luxid()

    ended = debug("delay", seconds)

    error = f"error: '{seconds}' is not a duration; write seconds, or a number with s, m, h, d or w, as in 90s\n"
    assert ended == Ended(2, "", error)
    assert luxid.calls == []


@pytest.mark.parametrize("program", [("gnt-debug", "submit-job"), ("gnt-job", "submit")], ids=" ".join)
def test_a_file_that_cannot_be_read_is_1_wherever_it_is_named(tmp_path: Path, program: tuple[str, ...]) -> None:
    missing, folder = (run(*program, "--root", tmp_path, name) for name in (tmp_path / "none", tmp_path))

    error = f"error: no such file or directory '{tmp_path}/none'; check the path and its owner\n"
    assert missing == Ended(1, "", error)
    assert folder == Ended(1, "", f"error: is a directory '{tmp_path}'; name a file in it\n")


@pytest.mark.parametrize("words", [[], ["trace.jsonl", "--generate", "mixed"]], ids=["none", "two"])
def test_a_simulation_has_one_load(words: list[str]) -> None:
    error = "error: give one of TRACE, --generate and --export; see 'gnt-debug simulate --help'\n"
    assert run("gnt-debug", "simulate", *words) == Ended(2, "", error)
