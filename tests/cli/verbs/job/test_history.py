"""`gnt-job history` and `gantry prune`, against real daemons (DESIGN section 16)."""

import json
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cli.connection import login_of
from common.ids import JobId
from common.queue.terms import JobTerms, terms_entry
from protocol.luxi.jobs import AutoArchiveJobs
from tests.cli.command import Ended, normalised, run
from tests.daemon.luxid.ops import command, dummy
from tests.support.cluster import Cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with with_past(tmp_path_factory.mktemp("history")) as cluster:
        yield cluster


@pytest.fixture
def own_cluster(tmp_path: Path) -> Iterator[Cluster]:
    """One whose past may be removed."""
    with with_past(tmp_path) as cluster:
        yield cluster


@contextmanager
def with_past(root: Path) -> Iterator[Cluster]:
    """A cluster in which five jobs have ended."""
    settings = "[retention]\nkeep_jobs = 3\nkeep_per_name = 1\n"
    with Cluster(root, settings=settings) as cluster:
        cluster.start("wconfd", "forkserver", "luxid")
        trail = [terms_entry(JobTerms("nightly", {"team": "web"}), 0).to_wire()]
        flag = cluster.root / "tried"
        script = f"[ -e {flag} ] || {{ touch {flag}; exit 75; }}"
        nightly = command("sh", "-c", script, retries=1, retry_delay=0.01, reason=trail)
        for op in (dummy(), dummy(), nightly, command("sh", "-c", "exit 7"), dummy()):
            cluster.wait(cluster.submit(op))
        yield cluster


def _history(cluster: Cluster, *words: object) -> Ended:
    return run("gnt-job", "--root", cluster.root, "history", *words)


def test_the_table_shows_what_ended_the_latest_first(cluster: Cluster) -> None:
    ended = _history(cluster, "--since", "yesterday", "--limit", 2)

    assert ended.code == 0
    assert [re.sub(" {2,}", "  ", line) for line in normalised(ended.out).splitlines()] == [
        "ID  STATUS  NAME  USER  ENDED  WAIT  RUN  TRIES  WHY",
        " 5  success  TEST_DUMMY  -  CLOCK  TIME  TIME  1  -",
        " 4  error  RUN_COMMAND(sh -c 'exit 7')  -  CLOCK  TIME  TIME  1  "
        "failed, RUN_COMMAND(sh -c 'exit 7'): 'sh' ended with exit code 7 (expected 0)",
    ]
    assert ended.err == "… 3 more; --limit 5 shows all, --since or --where fewer\n"


def test_choices_and_json(cluster: Cluster) -> None:
    def ids(*words: object) -> list[int]:
        return [job["id"] for job in json.loads(_history(cluster, "--output", "json", "--limit", 0, *words).out)]

    assert ids("--status", "failed") == [4]
    assert ids("--name", "night*", "--label", "team") == [3]
    assert ids("--label", "team=db") == []
    assert ids("--filter", "end > yesterday & wait < 1h & exit=7") == [4]
    starred = _history(cluster, "--where", "name=night*")
    assert (starred.out.count("\n"), starred.err[:39]) == (1, "warning: '*' stands for itself in name=")
    assert ids("--where", "name=*night*") == [3]
    assert ids("--until", "2h ago") == ids("--until", "2h") == []
    assert len(ids("--since", "1h")) == 5
    assert ids("--sort", "id", "--reverse") == [1, 2, 3, 4, 5]
    assert ids("--sort", "id") == [5, 4, 3, 2, 1]
    (job,) = json.loads(_history(cluster, "--output", "json", "--name", "nightly", "--tries").out)
    assert (job["name"], job["labels"], job["tries"], job["is_archived"]) == ("nightly", {"team": "web"}, 2, False)
    assert job["end"].startswith("20")
    assert job["end"][-6] in "+-"
    assert [(each["number"], each["exit_code"]) for each in job["all_tries"]] == [(1, 75)]


def test_tries_stand_below_their_job(cluster: Cluster) -> None:
    lines = normalised(_history(cluster, "--name", "nightly", "--tries").out).splitlines()

    assert lines[1].startswith(" 3  success  nightly")
    assert len(lines) == 3
    assert lines[2].startswith("    try 1: CLOCK, TIME, ")
    assert "exit code 75" in lines[2]


def test_sums(cluster: Cluster) -> None:
    ended = _history(cluster, "--summary")

    assert (ended.code, ended.err) == (0, "")
    assert normalised(ended.out).splitlines() == [
        "NAME  COUNT  FAILED  CANCELED  RETRIED  MEAN WAIT  P95 WAIT  MEAN RUN  P95 RUN  MOST RUN",
        "TEST_DUMMY  3  0  0  0  TIME  TIME  TIME  TIME  TIME",
        "RUN_COMMAND(sh -c 'exit 7')  1  1  0  0  TIME  TIME  TIME  TIME  TIME",
        "nightly  1  0  0  1  TIME  TIME  TIME  TIME  TIME",
    ]
    by_team = json.loads(_history(cluster, "--summary", "--by", "label:team", "--output", "json").out)
    assert [(each["group"], each["count"]) for each in by_team] == [("", 4), ("web", 1)]
    days = json.loads(_history(cluster, "--summary", "--by", "day", "--zone", "Asia/Tokyo", "--output", "json").out)
    # midnight may pass meanwhile
    assert {len(day["group"]) for day in days} == {len("2026-11-21")}
    assert sum(day["count"] for day in days) == 5


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--since", "soonish"), "'soonish' is not a time"),
        (("--filter", "wait > long"), "'wait' is a duration such as 90s, 10m or 2h, got 'long'"),
        (("--filter", "status=done"), "no job has ended as 'done'"),
        (("--filter", "colour=red"), "no field 'colour' in the history; there are id, status"),
        (("--summary", "--by", "colour"), "jobs are not summed up by 'colour'"),
        (("--summary", "--by", "day", "--zone", "Mars"), "unknown time zone 'Mars'"),
        (("--label", "=x"), "'=x' is not a label"),
    ],
)
def test_what_is_not_understood_is_told(cluster: Cluster, words: tuple[str, ...], message: str) -> None:
    ended = _history(cluster, *words)

    assert ended.code in (1, 2)
    assert message in ended.err
    assert ended.out == ""


def test_prune_tells_first_and_removes_then(own_cluster: Cluster) -> None:
    cluster = own_cluster
    for _ in range(4):
        cluster.wait(cluster.submit(command("echo", "out")))
    cluster.luxi(AutoArchiveJobs(-1, 60))
    told = run("gantry", "--root", cluster.root, "prune", "--dry-run")
    done = run("gantry", "--root", cluster.root, "prune", "--output", "json")
    again = run("gantry", "--root", cluster.root, "prune")

    # of nine jobs the three latest, and the last of each of the other names
    assert normalised(told.out).splitlines() == [
        "3 archived jobs would be removed, which ended from CLOCK to CLOCK",
        # with the record of its times
        "1 outputs would be removed, 20 B",
    ]
    counts = json.loads(done.out)
    assert (counts["jobs"], counts["outputs"], counts["output_bytes"]) == (3, 1, 20)
    assert counts["oldest_iso"] < counts["newest_iso"]
    assert again.out == "nothing is due: '[retention]' of the settings says what is kept\n"
    assert cluster.job(JobId(1), "status") == (None,)
    with sqlite3.connect(cluster.paths.history) as index:
        assert index.execute("SELECT COUNT(*) FROM jobs").fetchone() == (9,)
    index.close()


def test_who_canceled_a_job_is_named_alike_in_text_and_json(own_cluster: Cluster) -> None:
    job_id = own_cluster.submit(command("sleep", "600"))
    own_cluster.wait(job_id, status="running")
    assert run("gnt-job", "--root", own_cluster.root, "cancel", "--kill", job_id).code == 0
    own_cluster.wait(job_id)

    text = _history(own_cluster, "--status", "canceled")
    (row,) = json.loads(_history(own_cluster, "--status", "canceled", "--output", "json").out)

    why = f"job was killed on request of user {login_of(os.getuid())}"
    assert row["why"] == why
    assert why in text.out
