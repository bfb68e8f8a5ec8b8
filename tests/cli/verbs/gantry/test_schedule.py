"""`gantry schedule`: each verb, as table, words and JSON; and refusals that say what to write."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Ended, run
from tests.support.cluster import Cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("schedule") / "root") as cluster:
        cluster.start("wconfd", "luxid", "forkserver")
        yield cluster


def schedule(cluster: Cluster, *words: object) -> Ended:
    return run("gantry", "--root", cluster.root, "schedule", *words)


def as_json(cluster: Cluster, *words: object) -> Any:
    return json.loads(schedule(cluster, *words, "--output", "json").out)


def test_the_story_of_a_schedule(cluster: Cluster) -> None:
    added = schedule(
        cluster,
        *("add", "nightly", "--cron", "30 2 * * MON-FRI", "--zone", "Europe/Athens", "--spread", "10m"),
        *("--", "backup", "--all"),
    )
    assert (added.code, added.out) == (0, "nightly\n")
    assert "At 02:30 on Monday through Friday, Europe/Athens\n" in added.err
    assert len(re.findall(r"next run: \S+ \S+ \S+, (\S+ )?02:30 in Europe/Athens \(in ", added.err)) == 3

    table = schedule(cluster, "list").out.splitlines()
    assert table[0].split() == ["NAME", "STATE", "WHEN", "NEXT", "LAST", "USER"]
    assert table[1].split()[:8] == ["nightly", "on", "30", "2", "*", "*", "MON-FRI", "Europe/Athens"]
    (row,) = as_json(cluster, "list")
    assert (row["name"], row["state"], row["overlap"], row["missed"]) == ("nightly", "on", "skip", "once")
    assert "job" not in row
    (told,) = as_json(cluster, "info", "nightly")
    assert told["job"][0]["argv"] == ["backup", "--all"]
    assert len(row["next_at"]) == len(row["next"]) == 3

    changed = schedule(cluster, "modify", "--overlap", "queue", "--every", "90m", "nightly").out
    assert "  When: every 1h30m\n" in changed
    assert "  Overlap: queue\n" in changed
    assert "  Job: backup --all\n" in changed
    assert "  Spread: 10m00s, its own is " in changed

    assert schedule(cluster, "pause", "nightly") == Ended(0, "", "schedule 'nightly' is paused\n")
    assert as_json(cluster, "info", "nightly")[0]["state"] == "paused"
    job_id = schedule(cluster, "run", "nightly").out.strip()
    assert f"job {job_id}, by hand" in schedule(cluster, "info", "nightly").out
    assert schedule(cluster, "resume", "nightly") == Ended(0, "", "schedule 'nightly' is resumed\n")
    status = run("gantry", "--root", cluster.root, "status").out
    assert "schedules: 1, nightly next in 1h" in status
    completed = run(
        "gantry",
        prelude="import cli.completion; cli.completion._PATIENCE_S = 60.0",
        env={
            "_GANTRY_COMPLETE": "bash_complete",
            "COMP_LINE": f"gantry --root {cluster.root} schedule pause ni",
            "COMP_WORD": "ni",
        },
    )
    assert completed.out == "plain,nightly\n"
    for verb, says in (("pause", "is paused"), ("resume", "is resumed")):
        halfway = schedule(cluster, verb, "nightly", "none")
        assert halfway.code == 1
        # what was done before the refusal
        assert halfway.err.startswith(f"schedule 'nightly' {says}\nerror: ")
    assert schedule(cluster, "remove", "nightly", "nightly") == Ended(0, "", "schedule 'nightly' is removed\n")
    assert schedule(cluster, "remove", "nightly").code == 1


def test_a_plan_file_is_the_job_and_rare_times_are_told_in_years(cluster: Cluster, tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text("- {OP_ID: OP_TEST_DELAY, duration: 0}\n- {OP_ID: OP_TEST_DELAY, duration: 0}\n")

    added = schedule(cluster, "add", "--cron", "0 0 29 2 *", "--plan", plan, "leap")

    assert added.code == 0
    assert re.search(r"next run: 20\d\d-02-29 00:00:00 UTC \(in \d+ years\)", added.err)
    assert "  Job: OP_TEST_DELAY; OP_TEST_DELAY\n" in schedule(cluster, "info", "leap").out
    assert len(as_json(cluster, "info", "--next", "2", "leap")[0]["next_at"]) == 2
    schedule(cluster, "remove", "leap")


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("add", "x", "--", "true"), 2, "a schedule needs --cron 'WORDS' or --every TIME"),
        (("add", "--every", "5m", "--cron", "@daily", "x", "--", "true"), 2, "--cron and --every exclude each other"),
        (("add", "--cron", "0 22-2 * * *", "x", "--", "true"), 2, "write 22-23,0-2"),
        (
            ("add", "--cron", "@daily", "--zone", "Mars/Olympus", "x", "--", "true"),
            2,
            "unknown time zone 'Mars/Olympus'",
        ),
        (("modify", "--zone", "Mars/Olympus", "nobody"), 2, "unknown time zone 'Mars/Olympus'"),
        (("modify", "--user", "web", "nobody"), 2, "give the command again, after --"),
        (("modify", "--retries", "2", "nobody"), 2, "give the command again, after --"),
        (
            ("add", "--cron", "@daily", "--plan", "/dev/null", "--retries", "2", "x"),
            2,
            "--retries is for a command, and would be lost with --plan; write it into the plan",
        ),
        (
            ("add", "--cron", "@daily", "--plan", "/dev/null", "--lock", "node/web1", "x"),
            2,
            "--lock is for a command, and would be lost with --plan; write it into the plan",
        ),
        (
            ("add", "--every", "5m", "--node", "web1", "--cwd", "data", "x", "--", "true"),
            2,
            "--cwd 'data' is on the node; write a path that begins with /",
        ),
        (("add", "--every", "5m", "x", "--", "rm", "\udcff"), 2, "is not UTF-8, and a job is text"),
        (("modify", "nobody"), 2, "nothing to change; name a value, as in: gantry schedule modify --cron"),
        (("info", "nobody"), 1, "there is no schedule 'nobody'; 'gantry schedule list' shows them"),
        (("add", "--cron", "@daily", "x"), 2, "a schedule needs a command after --, or --plan FILE"),
        (
            ("modify", "--cron", "@daily", "nobody"),
            1,
            "there is no schedule 'nobody'; 'gantry schedule list' shows them",
        ),
    ],
)
def test_a_refusal_says_what_to_write(cluster: Cluster, words: tuple[str, ...], code: int, says: str) -> None:
    ended = schedule(cluster, *words)

    assert ended.code == code
    assert says in ended.err
    assert schedule(cluster, "list", "--no-headers").out == ""


def test_the_command_of_a_schedule_has_tries_processors_and_input(cluster: Cluster) -> None:
    added = schedule(
        cluster,
        *("add", "pull", "--every", "5m", "--retries", "3", "--retry-delay", "1m", "--retry-on", "exit=75,timeout"),
        *("--cpus", "0.5", "--stdin", "/srv/list", "--", "pull-mirror"),
    )
    with_text = schedule(cluster, "add", "text", "--every", "5m", "--stdin-text", "abc", "--", "cat")

    assert (added.code, with_text.code) == (0, 0)
    (pull,), (text,) = (as_json(cluster, "info", name) for name in ("pull", "text"))
    (op,) = pull["job"]
    assert (op["retries"], op["retry_delay"], op["retry_on"]) == (3, 60.0, ["exit=75", "timeout"])
    assert (op["cpus"], op["stdin_path"]) == (0.5, "/srv/list")
    assert text["job"][0]["stdin_text"] == "abc"
    schedule(cluster, "remove", "pull", "text")


def test_each_value_has_a_schedule_of_its_own(cluster: Cluster) -> None:
    added = schedule(
        cluster,
        *("add", "backup-{host}", "--every", "5m", "--each", "host=web1,web2", "--lock", "node/{host}"),
        *("--label", "of={host}", "--", "backup", "{host}"),
    )
    numbered = schedule(cluster, "add", "probe", "--every", "5m", "--each", "n=08..09", "--", "probe", "{n}")

    assert (added.code, added.out) == (0, "backup-web1\nbackup-web2\n")
    assert (numbered.code, numbered.out) == (0, "probe-08\nprobe-09\n")
    (second,) = as_json(cluster, "info", "backup-web2")
    (op,) = second["job"]
    assert (op["argv"], op["locks"]) == (["backup", "web2"], {"node/web2": "exclusive"})
    assert op["env"] == {"GANTRY_EACH_host": "web2", "GANTRY_EACH_INDEX": "2", "GANTRY_EACH_COUNT": "2"}
    job_id = schedule(cluster, "run", "backup-web2").out.strip()
    (labels,) = run("gnt-job", "--root", cluster.root, "list", "-o", "labels", "--no-headers", job_id).out.splitlines()
    assert sorted(labels.split(",")) == ["host=web2", "of=web2", "schedule=backup-web2"]
    # what was added before the refusal stays, and is told
    again = schedule(cluster, "add", "probe", "--every", "5m", "--each", "n=07..08", "--", "probe", "{n}")
    assert (again.code, again.out) == (1, "probe-07\n")
    assert "probe-08" in again.err
    schedule(cluster, "remove", "backup-web1", "backup-web2", "probe-07", "probe-08", "probe-09")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--plan", "/dev/null"), "--each is for a command, and would be lost with --plan"),
        (("--stdin", "-", "--", "cat"), "--stdin - is read once, and --each makes several"),
        (("--shell", "--", "echo {n}"), "with --shell no value is put into the command"),
        (("--lock", "node/{m}", "--", "true"), "'{m}' in --lock node/{m} stands for nothing"),
    ],
)
def test_what_does_not_fit_to_several_schedules_is_refused(cluster: Cluster, words: tuple[str, ...], says: str) -> None:
    ended = schedule(cluster, "add", "x", "--every", "5m", "--each", "n=1,2", *words)

    assert ended.code == 2
    assert says in ended.err
