"""Retries and reruns as a user sees them, with real daemons (DESIGN section 16; everyday.md b, i, j)."""

import json
from collections.abc import Iterator

import pytest

from tests.cli.command import Ended, normalised, run
from tests.support.cluster import Cluster

# fails; each try prints its number
_EACH = "echo try $GANTRY_TRY; exit 7$GANTRY_TRY"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("c")) as cluster:
        cluster.start()
        yield cluster


def job(cluster: Cluster, *words: object, stdin: str = "") -> Ended:
    return run("gnt-job", "--root", cluster.root, *words, stdin=stdin)


def plan(*jobs: list[dict[str, object]]) -> str:
    return json.dumps(list(jobs))


def command(script: str, **fields: object) -> dict[str, object]:
    return {"OP_ID": "OP_RUN_COMMAND", "argv": ["sh", "-c", script], **fields}


def submit(cluster: Cluster, *jobs: list[dict[str, object]]) -> list[int]:
    ended = job(cluster, "submit", "-", stdin=plan(*jobs))
    assert (ended.code, ended.err) == (0, "")
    ids = [int(word) for word in ended.out.split()]
    cluster.wait(*ids)
    return ids


def test_a_user_sees_the_tries_and_the_output_of_each(cluster: Cluster) -> None:
    words = ("run", "--wait", "--print-jobid", "--retries", 2, "--retry-delay", 0, "--shell", "--", _EACH)

    ended = job(cluster, *words)

    job_id = ended.out.partition("\n")[0]
    assert (ended.code, ended.out) == (73, f"{job_id}\ntry 1\ntry 2\ntry 3\n")
    assert "try 1 of 3 ended with exit code 71; next at once" in ended.err
    assert "try 2 of 3 ended with exit code 72; next at once" in ended.err
    assert "ended with exit code 73 (expected 0)" in ended.err
    assert "try 2 of 3 ended with exit code 72; next at once" in job(cluster, "watch", job_id).out
    followed = job(cluster, "output", "--follow", job_id)
    assert followed.out == "try 1\ntry 2\ntry 3\n"
    assert followed.err == (
        f"job {job_id}: try 1 of 3 ended with exit code 71; next at once\n"
        f"job {job_id}: try 2 of 3 ended with exit code 72; next at once\n"
    )
    told = normalised(job(cluster, "info", job_id).out)
    assert "      Failed tries: \n        - 1: CLOCK, after TIME: ended with exit code 71\n" in told
    assert [job(cluster, "output", "--try", number, job_id).out for number in (1, 3)] == ["try 1\n", "try 3\n"]
    refused = job(cluster, "output", "--try", 4, job_id)
    assert refused == Ended(1, "", f"error: job {job_id} has had 3 tries; there is no try 4\n")


def test_a_job_runs_again_as_a_new_one(cluster: Cluster) -> None:
    (old,) = submit(cluster, [command("echo again; exit 5", retries=1, retry_delay=0)])

    ended = job(cluster, "rerun", old)

    new = old + 1
    assert ended == Ended(0, f"{new}\n", "")
    assert cluster.wait(new) == ["error"]
    (ops,) = cluster.job(new, "ops")
    assert ops[0]["argv"] == ["sh", "-c", "echo again; exit 5"]
    labels = [json.loads(entry[1])["labels"] for entry in ops[0]["reason"] if entry[0] == "gantry:terms"]
    assert labels == [{"rerun-of": str(old)}]
    assert [entry[1] for entry in ops[0]["reason"] if entry[0] == "gnt:client:gnt-job"] == ["rerun"]
    assert job(cluster, "output", "--try", 2, new).out == "again\n"


def test_of_a_chain_the_failed_part_runs_again_also_from_the_archive(cluster: Cluster) -> None:
    marker = cluster.root / "mended"
    chain = submit(
        cluster,
        [command("true")],
        [command(f"[ -e {marker} ]", depends=[[-1, ["success"]]])],
        [command("true", depends=[[-1, ["success"]]])],
    )
    assert cluster.wait(*chain) == ["success", "error", "error"]
    job(cluster, "archive", *chain)
    marker.touch()

    dry = job(cluster, "--output", "json", "rerun", "--failed-only", "--dry-run", *chain)
    assert [each["id"] for each in json.loads(dry.out)] == chain[1:]
    assert [each["ops"][0].get("depends") for each in json.loads(dry.out)] == [None, [[-1, ["success"]]]]
    ended = job(cluster, "--output", "json", "rerun", "--failed-only", *chain)

    pairs = json.loads(ended.out)
    assert [pair["rerun-of"] for pair in pairs] == [str(job_id) for job_id in chain[1:]]
    assert cluster.wait(*(pair["id"] for pair in pairs)) == ["success", "success"]


def test_a_batch_runs_again_by_its_id(cluster: Cluster) -> None:
    def member(place: int) -> list[dict[str, object]]:
        entry = ["gantry:batch", f"id=nightly-7;place={place};jobs=3;at-most=1", 1]
        return [command(f"exit {place - 1}", reason=[entry])]

    submit(cluster, member(1), member(2), member(3))

    ended = job(cluster, "--output", "json", "rerun", "--batch", "nightly-7", "--failed-only")

    new = [pair["id"] for pair in json.loads(ended.out)]
    cluster.wait(*new)
    batches = {cluster.job(job_id, "batch")[0] for job_id in new}
    assert len(new) == 2
    assert len(batches) == 1
    assert "nightly-7" not in batches


def test_what_cannot_run_again_is_refused_with_the_reason(cluster: Cluster) -> None:
    (good,) = submit(cluster, [command("true")])

    assert "name jobs by their ids, by --batch ID, or by --where FILTER" in job(cluster, "rerun").err
    assert "there is no job 99999" in job(cluster, "rerun", 99999).err
    assert job(cluster, "rerun", "--dry-run", good).out == f"job {good} would run again: RUN_COMMAND(sh -c true)\n"
    none = job(cluster, "rerun", "--failed-only", good)
    assert none == Ended(0, "", "none of these jobs has failed; nothing to do\n")


def test_a_job_runs_again_with_its_dependents(cluster: Cluster) -> None:
    chain = submit(
        cluster,
        [command("false")],
        [command("true", depends=[[-1, ["success"]]])],
        [command("true", depends=[[-1, ["error"]]])],
        [command("true")],
    )

    dry = job(cluster, "rerun", "--with-dependents", "--dry-run", chain[0])
    assert [line.partition(" would run again: ")[0] for line in dry.out.splitlines()] == [
        f"job {job_id}" for job_id in chain[:3]
    ]
    ended = job(cluster, "rerun", "--with-dependents", chain[0])

    new = [int(word) for word in ended.out.split()]
    assert cluster.wait(*new) == ["error", "error", "success"]
    assert [cluster.job(job_id, "dependencies")[0] for job_id in new] == [[], new[:1], new[1:2]]
    listed = job(cluster, "list", "--no-headers", "-o", "id", "--where", f"dependencies > 0 & id >= {new[0]}")
    assert [int(word) for word in listed.out.split()] == new[1:]


def test_a_job_runs_again_from_its_failed_opcode_on(cluster: Cluster) -> None:
    (old,) = submit(cluster, [command("true"), command("exit 3"), command("true")])

    dry = job(cluster, "rerun", "--from-failed", "--dry-run", old)
    assert dry.out.startswith(f"job {old} would run again from opcode 2 on: ")
    ended = job(cluster, "rerun", "--from-failed", old)

    new = int(ended.out)
    assert cluster.wait(new) == ["error"]
    assert len(cluster.job(new, "ops")[0]) == 2
    (well,) = submit(cluster, [command("true")])
    refused = job(cluster, "rerun", "--from-failed", well)
    assert refused == Ended(
        1, "", f"error: no opcode of job {well} failed, it ended as success; run it again from its beginning\n"
    )
