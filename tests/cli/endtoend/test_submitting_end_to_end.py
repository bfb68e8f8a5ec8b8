"""Names, keys, values, batches and plans against real daemons. Source: DESIGN section 16; everyday.md d, f, j."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.cli.command import Ended, run
from tests.support.cluster import Cluster

Job = Callable[..., Ended]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("c")) as cluster:
        cluster.start()
        yield cluster


@pytest.fixture(scope="module")
def job(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Job:
    env = {"XDG_STATE_HOME": str(tmp_path_factory.mktemp("state")), "GANTRY_SESSION": "test"}
    return partial(run, "gnt-job", "--root", cluster.root, env=env)


def test_values_reach_the_commands_as_one_word_each(job: Job, tmp_path: Path) -> None:
    marker = "$(reboot); a  'b"
    ended = job(
        *("run", "--each", f"host=web1,{marker}", "--each", "n=1..2", "--at-most", "1", "--wait", "--shell", "--"),
        f'printf "%s|%s|%s/%s\\n" "$GANTRY_EACH_host" "$GANTRY_EACH_n" "$GANTRY_EACH_INDEX" "$GANTRY_EACH_COUNT" '
        f">> {tmp_path}/seen",
    )

    assert (ended.code, ended.err) == (0, "")
    assert ended.out.endswith("4 of 4 jobs succeeded in ") or "4 of 4 jobs succeeded" in ended.out
    assert sorted((tmp_path / "seen").read_text().splitlines()) == sorted(
        ["web1|1|1/4", "web1|2|2/4", f"{marker}|1|3/4", f"{marker}|2|4/4"]
    )


def test_a_batch_is_told_by_its_counts_and_its_output_by_its_values(job: Job) -> None:
    ids = job(
        "run", "--each", "n=0..2", "--name", "try {n}", "--", "sh", "-c", "echo code $1; exit $1", "x", "{n}"
    ).out.split()
    job("wait", "--batch", "PREV")

    (batch_id,) = {row["batch"] for row in json.loads(job("list", "-o", "batch", "--output", "json", *ids).out)}
    (told,) = json.loads(job("batch", "info", "--output", "json", batch_id).out)
    assert (told["state"], told["counts"], told["name"]) == ("error", {"success": 1, "error": 2}, "try {n}")
    assert [each["id"] for each in told["jobs"]] == [int(job_id) for job_id in ids]
    assert job("output", "--batch", batch_id).out == "0  code 0\n1  code 1\n2  code 2\n"
    assert f"{batch_id}  error" in job("batch", "list").out


def test_a_job_follows_the_failure_of_the_last_one_and_the_end_of_a_batch(job: Job) -> None:
    failed = job("run", "--", "false").out.strip()
    after = job("run", "--after-failure", "PREV", "--wait", "--", "echo", "cleaned up")
    # why a job waits for long is told, too
    assert (after.code, after.out) == (0, "cleaned up\n")
    never = job("run", "--wait", "--after-success", failed, "--", "true")
    assert never.code == 126
    assert f"job {failed}" in never.err

    job("run", "--each", "code=0,1", "--", "sh", "-c", "exit {code}")
    over = job("run", "--after-all", "PREV", "--wait", "--", "echo", "all over")
    assert (over.code, over.out) == (0, "all over\n")


def test_a_key_runs_once_and_waits_for_the_first(job: Job, tmp_path: Path) -> None:
    words = ("--key", "once", "--shell", "--", f"echo ran >> {tmp_path}/ran; exit 5")
    first = job("run", *words).out.strip()

    again = job("run", "--wait", *words)

    assert again.code == 5
    assert again.err.startswith(f"already submitted as job {first}\n")
    assert (tmp_path / "ran").read_text() == "ran\n"
    many = ("run", "--key", "many", "--each", "n=1,2", "--begin", "in 1h", "--label", "of={n}", "--", "true")
    ids = job(*many).out.split()
    # at another time, with another id of the batch
    assert job(*many) == Ended(0, "\n".join([*ids, ""]), f"already submitted as jobs {ids[0]}-{ids[1]}\n")
    assert job("cancel", "--batch", "PREV", "--force").code == 0

    other = job("run", "--key", "once", "--", "true")
    assert (other.code, other.out) == (1, "")
    assert (
        other.err
        == f"error: submission key 'once' was used for other jobs ({first}); take a new one for each submission\n"
    )


def test_a_plan_runs_and_luxids_refusal_has_its_place(job: Job, tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "x-say: &say {shell: 'echo $WHO', env: {WHO: nobody}}\n"
        "jobs:\n- {name: first, <<: *say}\n- {name: second, <<: *say, env: {WHO: 'no'}, after: first}\n"
    )
    ids = job("submit", plan).out.split()
    assert job("wait", *ids).code == 0
    assert job("output", ids[1]).out == "no\n"

    plan.write_text("jobs:\n- {run: [a]}\n- run: [b]\n  cwd: here\n")
    ended = job("submit", plan)
    assert ended.code != 0
    assert ended.err.startswith(f"error: {plan}:3:3: job 2, opcode 1: ")
    assert "cwd must be an absolute path" in ended.err


def test_retries_holds_and_the_highest_exit_code(job: Job) -> None:
    words = ("--retries", "2", "--retry-delay", "0", "--retry-on", "exit=7,timeout", "--fail-on", "exit=9")
    again = job("run", *words, "--wait", "--", "sh", "-c", "echo x; exit 7")
    assert (again.code, again.out) == (7, "x\nx\nx\n")
    assert job("run", *words, "--wait", "--", "sh", "-c", "echo x; exit 9").out == "x\n"

    several = job("run", "--each", "code=3,0,5", "--exit", "max", "--wait", "--", "sh", "-c", "exit {code}")
    assert several.code == 5

    held = job("run", "--hold", "--begin", "now", "--name", "later", "--label", "team=web", "--", "true").out.strip()
    assert "held" in job("why", held).out
    assert job("release", held).code == 0
    assert job("wait", held).code == 0
