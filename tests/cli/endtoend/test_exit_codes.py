"""The exit codes of tools that wait, with real daemons; and the table that tells them. Source: everyday.md i, j."""

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol.luxi.queries import QueryJobs
from tests.cli.command import CHECKOUT, Background, Ended, argv, environment, run
from tests.support.cluster import Cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("c")) as cluster:
        cluster.start()
        yield cluster


def wait_for(cluster: Cluster, *words: object) -> Ended:
    return run("gnt-job", "--root", cluster.root, "run", "--wait", *words)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--", "sh", "-c", "exit 7"), 7),
        (("--exit-code", "3", "--", "sh", "-c", "exit 3"), 3),
        (("--", "sh", "-c", "kill -KILL $$"), 137),
        (("--timeout", "0.2s", "--", "sleep", "60"), 124),
        (("--", "/no/such/program"), 126),
        (("--cwd", "/no/such/folder", "--", "true"), 126),
        (("--lock", "no-level", "--", "true"), 125),
    ],
)
def test_run_ends_as_its_command(cluster: Cluster, words: tuple[str, ...], code: int) -> None:
    ended = wait_for(cluster, *words)

    assert ended.code == code
    assert (ended.err == "") == (words[0] == "--exit-code")


def test_a_wait_that_is_over_leaves_the_job_alone_and_names_it(cluster: Cluster, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)

    ended = wait_for(cluster, "--wait-timeout", "0.3s", "cat", gate)
    job_id = int(ended.err.split("job ")[1].split()[0])
    status = cluster.status(job_id)
    gate.write_text("on\n")

    assert (ended.code, ended.out) == (124, "")
    assert ended.err.startswith(f"waited for 0.3s; job {job_id} goes on; watch again with: ")
    assert status in ("queued", "waiting", "running")
    assert cluster.wait(job_id) == ["success"]


def test_a_canceled_job_is_126(cluster: Cluster, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    words = ("--root", cluster.root, "run", "--wait", "--print-jobid", "cat", gate)

    with Background("gnt-job", *words) as waiting:
        job_id = int(waiting.read_line())
        cluster.wait(job_id, status="running")
        run("gnt-job", "--root", cluster.root, "cancel", "--kill", job_id)
        ended = waiting.end()

    assert (ended.code, ended.err) == (126, f"error: job {job_id} was canceled\n")


def test_a_job_after_one_that_failed_never_ran(cluster: Cluster) -> None:
    first = cluster.submit({"OP_ID": "OP_TEST_DUMMY", "fail": True})
    cluster.wait(first)

    assert wait_for(cluster, "--after", first, "true").code == 126


def test_several_jobs_are_0_or_1_and_wait_and_watch_keep_theirs(cluster: Cluster) -> None:
    bad, good = ([{"OP_ID": "OP_RUN_COMMAND", "argv": ["sh", "-c", f"exit {code}"]}] for code in (7, 0))
    base = ("gnt-job", "--root", cluster.root)

    one = run(*base, "submit", "--wait", "-", stdin=json.dumps(bad))
    several = run(*base, "submit", "--wait", "-", stdin=json.dumps([good, bad]))
    job_id = int(run(*base, "run", "sh", "-c", "exit 7").out)

    assert (one.code, several.code) == (7, 1)
    assert (run(*base, "wait", job_id).code, run(*base, "watch", job_id).code) == (1, 1)


def test_without_daemons_a_waiting_run_is_125_and_others_3(tmp_path: Path) -> None:
    base = ("gnt-job", "--root", tmp_path)

    assert run(*base, "run", "--wait", "true").code == 125
    assert run(*base, "run", "true").code == 3
    assert run(*base, "run", "--wait", "--no-such-option", "true").code == 125
    assert run(*base, "run", "--no-such-option", "true").code == 2


def test_the_table_is_told_by_help_and_in_the_help_of_run() -> None:
    told = run("gantry", "help", "exit-codes")
    as_json = json.loads(run("gantry", "help", "exit-codes", "--output", "json").out)

    assert told.code == 0
    codes = [row["code"] for row in as_json["waiting"]]
    assert {"124", "125", "126", "128+n", "130"} <= set(codes)
    usage = run("gnt-job", "run", "--help").out
    for row in (*as_json["waiting"], *as_json["others"]):
        assert f"{row['code']} " in told.out
        assert row["meaning"] in " ".join(told.out.split())
    assert max(map(len, told.out.splitlines())) <= 80
    assert all(f"  {code} " in usage for code in codes)
    assert run("gantry", "help").out.split()[0] == "exit-codes"


def test_ctrl_c_twice_on_a_terminal_ends_the_command(cluster: Cluster) -> None:
    ours, theirs = pty.openpty()
    words = ("--root", cluster.root, "run", "--wait", "--print-jobid", "--", "sh", "-c", "echo begun; exec sleep 600")
    # as long as a busy machine needs; and tests that run in the background of a shell are deaf to Ctrl-C
    hears = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    patient = "from cli.live import watching; watching.AGAIN_S = 60.0"
    command = argv("gnt-job", *words, prelude=f"{hears}; {patient}")
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment(), start_new_session=True
    ) as process:
        os.close(theirs)
        job_id = int(read_until(ours, "\n"))
        # it is followed by then
        read_until(ours, "begun")
        process.send_signal(signal.SIGINT)
        read_until(ours, "Ctrl-C again within 60 s ends it")
        process.send_signal(signal.SIGINT)
        read_until(ours, f"job {job_id} is being killed")
        code = process.wait(60)
    os.close(ours)

    assert code == 130
    assert cluster.wait(job_id) == ["canceled"]


def read_until(fd: int, text: str) -> str:
    shown = ""
    while text not in shown:
        shown += os.read(fd, 1).decode()
    return shown


@pytest.mark.parametrize("program", ["gnt-job", "gantry"])
def test_an_interrupt_while_a_program_loads_ends_it_without_a_traceback(program: str) -> None:
    hears = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    loads = f"import os, sys; sys.argv = ['/usr/bin/{program}']; import cli"
    source = f"{hears}; {loads}; os.kill(os.getpid(), 2); print('goes on')"

    ended = subprocess.run([sys.executable, "-c", source], cwd=CHECKOUT, capture_output=True, text=True, check=False)

    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGINT, "", "")


@pytest.mark.parametrize("words", [(), ("--output", "json"), ("--wait", "--print-jobid")])
def test_a_full_output_names_the_submitted_job_so_that_nobody_submits_it_again(
    cluster: Cluster, words: tuple[str, ...]
) -> None:
    command = argv("gnt-job", "--root", cluster.root, "run", *words, "--", "true")

    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=environment(), check=False)

    last = cluster.luxi(QueryJobs(None, ("id",)))[-1][0]
    assert ended.returncode == (125 if "--wait" in words else 1)
    assert ended.stderr.splitlines() == [
        f"submitted as job {last}; only the output fails: no space left on device",
        "error: no space left on device; make room on its disk and try again",
    ]
