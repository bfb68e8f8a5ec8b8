"""The programs against real daemons: what an operator does on a day. Source: DESIGN section 1."""

import json
import os
import pwd
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import Background, Ended, normalised, run
from tests.cli.endtoend.lockwaits import wait_for_lock
from tests.support.cluster import Cluster
from tests.support.wait import wait_until


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("c")) as cluster:
        cluster.start()
        yield cluster


def job(cluster: Cluster, *words: object, stdin: str = "") -> Ended:
    return run("gnt-job", "--root", cluster.root, *words, stdin=stdin)


def submit(cluster: Cluster, *words: object) -> int:
    ended = job(cluster, "run", *words)
    assert (ended.code, ended.err) == (0, "")
    return int(ended.out)


def test_a_command_runs_as_if_it_ran_here(cluster: Cluster, tmp_path: Path) -> None:
    words = ("run", "--wait", "--cwd", tmp_path, "--env", "A=b", "--shell", "--", "pwd; echo $A; exit 0")

    assert job(cluster, *words) == Ended(0, f"{tmp_path}\nb\n", "")


def test_a_command_that_fails_says_why(cluster: Cluster) -> None:
    ended = job(cluster, "run", "--wait", "--print-jobid", "--", "sh", "-c", "echo no space; exit 7")

    job_id = ended.out.partition("\n")[0]
    assert (ended.code, ended.out) == (7, f"{job_id}\nno space\n")
    assert ended.err == (
        f"""error: job {job_id} failed: RUN_COMMAND(sh -c 'echo no space; exit 7'): """
        "'sh' ended with exit code 7 (expected 0); last output: no space\n"
    )


def test_input_goes_in_and_a_separate_standard_error_comes_out_as_such(cluster: Cluster) -> None:
    words = (
        "run",
        "--print-jobid",
        "--wait",
        "--stdin",
        "-",
        "--stderr",
        "apart",
        "--shell",
        "--",
        "cat; echo bad >&2",
    )
    ended = job(cluster, *words, stdin="typed here\n")
    job_id = ended.out.partition("\n")[0]

    assert ended == Ended(0, f"{job_id}\ntyped here\n", "bad\n")
    assert job(cluster, "output", job_id) == Ended(0, "typed here\n", "")
    assert job(cluster, "output", "--stderr", job_id) == Ended(0, "bad\n", "")


def test_a_filter_by_a_field_without_a_value_matches_nothing_and_names_it(cluster: Cluster) -> None:
    job_id = submit(cluster, "--", "sleep", "60")

    for words in ("end_ts > 5", "not (end_ts > 5)"):
        ended = job(cluster, "list", "--no-headers", "-o", "id", "--where", f"id={job_id} and {words}")
        note = "note: left out 1 job: field 'end_ts', by which the filter judges, has no value there\n"
        assert ended == Ended(0, "", note)
    job(cluster, "cancel", "--kill", job_id)
    cluster.wait(job_id)


def test_a_bad_opcode_is_refused_with_its_place(cluster: Cluster) -> None:
    ended = job(cluster, "submit", "-", stdin=json.dumps([{"OP_ID": "OP_TEST_DELAY", "duration": "long"}]))

    # the file is wrong, as one that is no JSON: nothing was submitted
    assert (ended.code, ended.out) == (2, "")
    assert "duration" in ended.err
    assert ended.err.startswith("error: standard input:1:")


def test_jobs_that_depend_on_one_another_run_in_order(cluster: Cluster, tmp_path: Path) -> None:
    trace = tmp_path / "trace"

    def step(text: str) -> dict[str, object]:
        return {"OP_ID": "OP_RUN_COMMAND", "argv": [f"echo {text} >> {trace}"], "shell": True}

    jobs = [[step("a")], [{**step("b"), "depends": [[-1, ["success"]]]}]]
    ended = job(cluster, "submit", "--wait", "-", stdin=json.dumps(jobs))

    assert (ended.code, ended.err) == (0, "")
    assert trace.read_text() == "a\nb\n"


def test_a_job_waits_for_a_lock_and_both_are_seen_in_the_table(cluster: Cluster, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    holder = submit(cluster, "--lock", "node/web7", "cat", gate)
    cluster.wait(holder, status="running")
    asker = submit(cluster, "--lock", "node/web7:shared", "true")
    wait_for_lock(cluster, asker)

    with Background("gnt-job", "--root", cluster.root, "watch", asker) as watch:
        told = watch.read_error_line()
        table = run("gnt-debug", "--root", cluster.root, "locks").out
        gate.write_text("open\n")
        ended = watch.end()

    rows = {line.split()[0]: line.split()[1:] for line in table.splitlines()}
    assert rows["node/web7"] == ["exclusive", f"job/{holder}", f"shared:job/{asker}"]
    held = f"held by job/{holder} (exclusive, for TIME)"
    assert normalised(told) == f"job {asker} has waited TIME for node/web7 (shared), {held}\n"
    assert (ended.code, ended.err) == (0, "")


def test_whoever_watches_a_waiting_job_is_told_what_it_waits_for(cluster: Cluster, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    holder = submit(cluster, "--lock", "node/web8", "cat", gate)
    cluster.wait(holder, status="running")
    after = submit(cluster, "--after", holder, "true")

    with Background("gnt-job", "--root", cluster.root, "watch", after) as watch:
        told = watch.read_error_line()
        gate.write_text("open\n")
        ended = watch.end()

    assert normalised(told) == f"job {after} waits for job/{holder}, which is running for TIME, to succeed\n"
    assert (ended.code, ended.err) == (0, "")


def test_a_watched_job_can_be_canceled_by_another_program(cluster: Cluster, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    job_id = submit(cluster, "cat", gate)
    cluster.wait(job_id, status="running")

    with Background("gnt-job", "--root", cluster.root, "watch", job_id) as watch:
        heading = watch.read_line()
        kill = job(cluster, "cancel", "--kill", job_id)
        ended = watch.end()

    assert heading.startswith(f"Job {job_id}: RUN_COMMAND(cat /")
    assert kill.code == 0
    assert (ended.code, ended.err) == (1, f"error: job {job_id} was canceled\n")


def test_an_interrupted_watcher_leaves_the_job_alone(cluster: Cluster, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    job_id = submit(cluster, "cat", gate)
    cluster.wait(job_id, status="running")

    with Background("gnt-job", "--root", cluster.root, "watch", job_id) as watch:
        watch.read_line()
        watch.interrupt()
        ended = watch.end()
    gate.write_text("open\n")

    assert ended.code == 130
    assert f"job {job_id} goes on; watch again with: " in ended.err
    assert job(cluster, "wait", job_id).code == 0


def test_a_watcher_outlives_a_restart_of_luxid(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    with Cluster(tmp_path / "c") as cluster:
        cluster.start()
        job_id = submit(cluster, "cat", gate)
        cluster.wait(job_id, status="running")

        with Background("gnt-job", "--root", cluster.root, "watch", job_id) as watch:
            watch.read_line()
            cluster.kill("luxid")
            cluster.start("luxid")
            gate.write_text("through\n")
            ended = watch.end()

    assert (ended.code, ended.err) == (0, "")
    assert ended.out.splitlines()[1] == "through"
    assert normalised(ended.out.splitlines()[2]) == f"job {job_id}: success in TIME"


def test_an_ended_job_is_archived_and_still_told_by_its_id(cluster: Cluster) -> None:
    job_id = submit(cluster, "true")
    cluster.wait(job_id)

    assert job(cluster, "archive", job_id) == Ended(0, "", "")

    everything = job(cluster, "list", "--no-headers", "--separator", ",", "-o", "id").out.split()
    assert str(job_id) not in everything
    named = job(cluster, "list", "--no-headers", "--separator", ",", "-o", "id,status,archived", job_id)
    assert named == Ended(0, f"{job_id},success,Y\n", "")


def test_a_drained_queue_refuses_with_the_command_that_opens_it(cluster: Cluster) -> None:
    run("gnt-cluster", "--root", cluster.root, "queue", "drain")
    refused = job(cluster, "run", "true")
    run("gnt-cluster", "--root", cluster.root, "queue", "undrain")
    taken = job(cluster, "run", "--wait", "true")

    assert (refused.code, refused.out) == (1, "")
    assert "gnt-cluster queue undrain" in refused.err
    assert taken == Ended(0, "", "")


def test_a_dry_run_checks_and_does_nothing(cluster: Cluster, tmp_path: Path) -> None:
    done = tmp_path / "done"

    ops = [
        {"OP_ID": "OP_RUN_COMMAND", "argv": ["touch", str(done)], "cwd": cwd} for cwd in ("/", f"{tmp_path}/nowhere")
    ]
    file = tmp_path / "job.json"
    # the parameter of opcodes, which Ganeti's clients set: the job is queued, takes its locks, and checks
    good, bad = (job(cluster, "submit", "--wait", "-", stdin=json.dumps({**op, "dry_run": True})) for op in ops)
    before = job(cluster, "list", "--no-headers").out
    file.write_text(json.dumps([[op] for op in ops]))

    of_run = job(cluster, "run", "--dry-run", "--wait", "--each", "n=1,2", "--", "touch", "{n}")
    of_file = job(cluster, "submit", "--dry-run", "--output", "json", file)
    wrong = job(cluster, "submit", "--dry-run", "-", stdin='{"OP_ID": "OP_RUN_COMMAND", "argv": 5}')

    assert of_run.out == "1: RUN_COMMAND(touch 1)\n2: RUN_COMMAND(touch 2)\n"
    assert of_run.err == "would submit 2 jobs; nothing was submitted\n"
    assert [each["ops"][0]["cwd"] for each in json.loads(of_file.out)] == [op["cwd"] for op in ops]
    assert (wrong.code, "argv" in wrong.err) == (2, True)
    assert job(cluster, "list", "--no-headers").out == before
    assert good == Ended(0, "", "")
    assert bad.code == 126
    assert "nowhere" in bad.err
    assert not done.exists()


def test_jobs_are_found_by_filters(cluster: Cluster) -> None:
    job_id = submit(cluster, "echo", "needle-in-the-queue")
    cluster.wait(job_id)

    by_text = job(cluster, "list", "--no-headers", "-o", "id", "summary=~needle & op=run_command & status=success")
    mine = job(cluster, "list", "--mine", "--no-headers", "--separator", ",", "-o", "id")
    dry = job(cluster, "archive", "--dry-run", "--where", "summary=~needle")
    archived = job(cluster, "archive", "--force", "--where", "summary=~needle")
    after = job(cluster, "list", "--archived", "--where", "summary=~needle", "--no-headers", "-o", "id")

    assert by_text == Ended(0, f"{job_id}\n", "")
    assert str(job_id) in mine.out.split()
    assert dry.out.splitlines()[1].split() == [str(job_id), "success", "RUN_COMMAND(echo", "needle-in-the-queue)"]
    assert archived == Ended(0, "", "")
    assert after == Ended(0, f"{job_id}  Y\n", "")


def test_the_fields_of_jobs_are_told_with_all_that_can_be_filtered_by(cluster: Cluster) -> None:
    ended = job(cluster, "list-fields", "--no-headers", "--separator", ",")

    names = [line.partition(",")[0] for line in ended.out.splitlines()]
    assert ended.code == 0
    assert names == sorted(names)
    assert {"id", "opid", "summary_text", "user", "runtime", "archived"} <= set(names)


def test_the_queue_keeps_its_promises(cluster: Cluster) -> None:
    ended = run("gnt-debug", "--root", cluster.root, "test-jobqueue")

    assert ended == Ended(
        0,
        "a dependency that cannot be is refused: as it should be\n"
        "priorities outside the three are refused: as it should be\n"
        "jobs run after those they depend on: as it should be\n"
        "messages and states arrive in order: as it should be\n",
        "",
    )


def test_a_paused_job_is_told_why_and_runs_when_the_rule_is_gone(cluster: Cluster) -> None:
    words = ("pause", "--where", "op=run_command & reason=~upgrade", "--reason", "the mirror is down")
    ended = run("gnt-filter", "--root", cluster.root, *words)
    uuid = ended.out.strip()
    job_id = submit(cluster, "--reason", "upgrade of web1", "true")

    why = job(cluster, "why", job_id)
    again = run("gnt-filter", "--root", cluster.root, *words, "--dry-run", "--output", "json")
    listed = run("gnt-filter", "--root", cluster.root, "list", "--no-headers", "-o", "action,uuid")
    deleted = run("gnt-filter", "--root", cluster.root, "delete", uuid)

    assert (ended.code, ended.err) == (0, "")
    assert f"  is paused by filter rule {uuid}: the mirror is down" in why.out.splitlines()
    assert "in line" not in why.out
    # the rule that is there already comes first
    assert again.out == "[]\n"
    assert listed.out == f"PAUSE  {uuid}\n"
    assert deleted == Ended(0, "", "")
    assert job(cluster, "wait", job_id).code == 0


def test_an_ended_job_is_told_why_it_ended_so(cluster: Cluster) -> None:
    where = json.dumps([["reason", ["=~", "reason", "held-back"]]])
    words = ("add", "--predicates", where, "--action", "PAUSE", "--priority", "5")
    pause = run("gnt-filter", "--root", cluster.root, *words).out.strip()
    first = submit(cluster, "--reason", "held-back", "true")
    second = submit(cluster, "--after", first, "true")
    third = submit(cluster, "--reason", "held-back", "true")
    job(cluster, "cancel", first)
    cluster.wait(first, second)
    where = json.dumps([["jobid", ["=", "id", third]]])
    words = ("add", "--predicates", where, "--action", "REJECT", "--priority", "0")
    reject = run("gnt-filter", "--root", cluster.root, *words).out.strip()
    cluster.wait(third)
    for uuid in (pause, reject):
        run("gnt-filter", "--root", cluster.root, "delete", uuid)

    told = [normalised(job(cluster, "why", job_id).out).splitlines()[1] for job_id in (first, second, third)]

    assert told == [
        f"  canceled on request of user {pwd.getpwuid(os.geteuid()).pw_name}, at CLOCK",
        f"  dependency job {first} was canceled, at CLOCK",
        f"  rejected by filter rule {reject}, at CLOCK",
    ]


def test_a_job_is_told_which_locks_hold_it_back_to_the_root(cluster: Cluster, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    root = submit(cluster, "--lock", "node/web21", "cat", gate)
    cluster.wait(root, status="running")
    asker = submit(cluster, "--lock", "node/web21:shared", "true")
    wait_for_lock(cluster, asker)
    last = submit(cluster, "--after", asker, "true")
    submitted_at = time.monotonic()

    told = job(cluster, "why", last)
    reasons = json.loads(job(cluster, "why", "--output", "json", asker).out)[0]["reasons"]
    # shorter waits are not told
    wait_until(lambda: time.monotonic() > submitted_at + 0.3, what="both have waited for a while")
    gate.write_text("open\n")

    # how long each step took is the machine's business
    steps = ("waited ", "before that it waited ")
    lines = [line for line in normalised(told.out).splitlines() if not line.strip().startswith(steps)]
    assert lines[:4] == [
        f"job {last}: waiting for TIME: RUN_COMMAND(true)",
        f"  waits for job/{asker}, which is waiting for TIME, to succeed",
        f"    job {asker}: waiting for TIME: RUN_COMMAND(true)",
        f"      has waited TIME for node/web21 (shared), held by job/{root} (exclusive, for TIME)",
    ]
    assert lines[4].startswith(f"        job {root}: running for TIME: RUN_COMMAND(cat ")
    assert lines[5:] == ["          nothing holds it"]
    assert [(each["kind"], each["holders"][0]["job_id"]) for each in reasons] == [("lock", root)]
    assert job(cluster, "wait", last).code == 0
    for step in ("ended", "archived"):
        told = job(cluster, "info", asker, last)
        waited = [line for line in told.out.splitlines() if line.startswith("  Waited: ")]
        assert f"for the lock node/web21 held by job {root}" in waited[0], step
        assert f"for job {asker} to end" in waited[1], step
        assert job(cluster, "archive", asker, last).code == 0 or step == "archived"


def test_a_sound_cluster_verifies(cluster: Cluster) -> None:
    ended = run("gnt-cluster", "--root", cluster.root, "verify", "--output", "json")

    assert (ended.code, ended.err) == (0, "")
    assert set(map(tuple, json.loads(ended.out).values())) == {()}


def test_jobs_that_are_waited_for_are_in_the_table_of_locks(cluster: Cluster, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    holder = submit(cluster, "cat", gate)
    after = submit(cluster, "--after", holder, "true")

    table = run("gnt-debug", "--root", cluster.root, "locks", "-o", "name,pending", "--no-headers").out
    gate.write_text("open\n")

    assert [f"job/{holder}", f"success:job/{after}"] in [line.split() for line in table.splitlines()]
    assert job(cluster, "wait", after).code == 0


def test_a_method_of_wconfd_answers(cluster: Cluster) -> None:
    assert run("gnt-debug", "--root", cluster.root, "wconfd", "echo", "still there?").out == "still there?\n"
    assert run("gnt-debug", "--root", cluster.root, "wconfd", "verifyconfig").out == "[]\n"


def test_the_lines_of_a_long_output_all_arrive_in_order(cluster: Cluster) -> None:
    ended = job(cluster, "run", "--wait", "--", "seq", 200_000)

    assert (ended.code, ended.err) == (0, "")
    assert ended.out == "".join(f"{number}\n" for number in range(1, 200_001))


def test_what_wait_until_sees_is_what_list_prints(cluster: Cluster) -> None:
    ids = [submit(cluster, "true") for _ in range(3)]

    wait_until(lambda: job(cluster, "list", "--pending", *ids, "--no-headers").out == "", what="no job is pending")

    assert job(cluster, "wait", *ids) == Ended(0, "", "")
