"""Filters, lists and their times, against real daemons (issue 15, items 1 and 9)."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime

import pytest

from common.queue.terms import Hold, JobTerms, terms_entry
from common.words.cells import columns_of
from common.words.times import tenths_clock
from tests.cli.command import Ended, argv, environment, normalised, run
from tests.daemon.luxid.ops import command, dummy
from tests.support.cluster import Cluster
from tests.support.wait import wait_until


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("list")) as cluster:
        cluster.start("wconfd", "forkserver", "luxid")
        terms = [
            JobTerms("backup-web1", {"team": "web", "rerun-of": "17"}),
            JobTerms("備份" * 60, {"team": "db"}),
            JobTerms(hold=Hold(why="later"), begin_at=time.time() + 9e5),
        ]
        trails = [[terms_entry(each, 0).to_wire()] for each in terms]
        trails[0].append(["user", "upgrade", 1])
        for trail in trails:
            cluster.submit(dummy(reason=trail))
        cluster.submit(command("false", retries=1, retry_delay=0))
        for job_id in (1, 2, 4):
            cluster.wait(job_id)
        yield cluster


def gnt_job(cluster: Cluster, *words: object) -> Ended:
    return run("gnt-job", "--root", cluster.root, *words)


def test_filters_hold_for_the_jobs_that_they_mean(cluster: Cluster) -> None:
    def ids(text: str) -> list[int]:
        ended = gnt_job(cluster, "list", "--output", "json", "-o", "id", "--where", f"({text}) & id<5")
        # luxid notes that some jobs have not ended, or have no time to begin
        assert ended.code == 0
        return [row["id"] for row in json.loads(ended.out)]

    found = {
        text: ids(text)
        for text in (
            "label.team=web",
            "label.rerun-of=17",
            "label.team",
            "name=~^backup | hold",
            "reason=upgrade",
            "tries > 1",
            "exit_code != 0",
            "exit=1 | exit_code=0",
            "end > yesterday & received < in 1h",
            "end < 2h ago",
            "begin > tomorrow 02:00",
            "age < 1h & !hold",
            "batch=nonesuch",
        )
    }

    assert list(found.values()) == [[1], [1], [1, 2], [1, 3], [1], [4], [4], [4], [1, 2, 4], [], [3], [1, 2, 4], []]


def test_a_bulk_verb_takes_the_same_filter(cluster: Cluster) -> None:
    ended = gnt_job(cluster, "cancel", "--dry-run", "--where", "hold & received > 1h ago")

    assert (ended.code, ended.err) == (0, "would cancel 1 job; nothing was changed\n")
    assert gnt_job(cluster, "rerun", "--dry-run", "--where", "label.team=web & end > 1h ago").code == 0


def test_a_list_on_a_terminal_is_cut_to_its_width_and_not_elsewhere(cluster: Cluster) -> None:
    words = ("--root", cluster.root, "list", "2")
    piped = run("gnt-job", *words)

    shown = on_terminal(60, *words).splitlines()

    assert "備份" * 60 in piped.out
    assert all(columns_of(line) <= 60 for line in shown)
    assert shown[1].endswith("…")
    assert "備份" in shown[1]


def test_why_tells_the_life_of_an_ended_job(cluster: Cluster) -> None:
    assert run("gantry", "--root", cluster.root, "resource", "set", "licences", 5).code == 0
    words = ("--hold", "--use", "licences=2", "--name", "measured", "--print-jobid", "--", "true")
    submitted = gnt_job(cluster, "run", *words)
    job_id = int(submitted.out)
    # shorter ones are not told
    held_at = time.monotonic()
    wait_until(lambda: time.monotonic() > held_at + 0.3, what="the job was held for a while")
    assert gnt_job(cluster, "release", job_id).code == 0
    cluster.wait(job_id)

    held, tried = gnt_job(cluster, "why", job_id), gnt_job(cluster, "why", 4)
    [told] = json.loads(gnt_job(cluster, "why", "--output", "json", job_id).out)

    lines = normalised(held.out).splitlines()
    assert lines[0] == f"job {job_id}: success after TIME: measured"
    assert any(re.match(r"  waited .*TIME held", line) for line in lines)
    assert "  submitted at CLOCK, begun at CLOCK, ran TIME" in lines
    assert "  used 2 of 'licences'" in lines
    assert any(line.startswith("  try 1 took TIME: ") for line in normalised(tried.out).splitlines())
    assert (told["uses"], told["begin"]) == ({"licences": 2}, None)
    assert told["received"] < told["ended"]
    [whole] = json.loads(gnt_job(cluster, "info", "--output", "json", job_id).out)
    assert (whole["received"], whole["end"]) == (told["received"], told["ended"])


def test_a_rule_goes_by_its_number_or_the_beginning_of_its_uuid(cluster: Cluster) -> None:
    def gnt_filter(*words: object) -> Ended:
        return run("gnt-filter", "--root", cluster.root, *words)

    first, second = (gnt_filter("pause", "--where", f"id={number}").out.strip() for number in (901, 902))
    rules = {line.split()[0]: line.split()[1] for line in gnt_filter("list").out.splitlines()[1:]}

    by_number, by_beginning = gnt_filter("delete", 1), gnt_filter("delete", rules["2"][:8])

    assert set(rules.values()) == {first, second}
    assert by_number == Ended(0, f"deleted rule {rules['1']}: PAUSE\n", "")
    assert by_beginning == Ended(0, f"deleted rule {rules['2']}: PAUSE\n", "")
    assert gnt_filter("list", "--no-headers").out == ""


def test_gantry_shows_the_locks_too(cluster: Cluster) -> None:
    shown, same = (run(*program, "--root", cluster.root, "locks") for program in (("gantry",), ("gnt-debug",)))

    assert shown == same
    assert shown.code == 0
    assert shown.out.startswith("NAME")


def test_the_exit_code_is_a_column_for_all_that_have_one(cluster: Cluster) -> None:
    by_ids = gnt_job(cluster, "list", "-o", "id,exit_code", "--separator", ",", "1,4")
    sorted_by_it = gnt_job(cluster, "list", "--no-headers", "-o", "id", "--sort", "exit_code", "--where", "exit_code>0")

    assert by_ids == Ended(0, "ID,EXIT\n1,-\n4,1\n", "")
    assert sorted_by_it.out == "4\n"


def on_terminal(columns: int, *words: object) -> str:
    """What `gnt-job` prints on a terminal of this width."""
    leader, follower = os.openpty()
    env = {**environment(), "COLUMNS": str(columns), "NO_COLOR": "1"}
    with subprocess.Popen(argv("gnt-job", *words), stdout=follower, stdin=subprocess.DEVNULL, env=env) as process:
        os.close(follower)
        printed = b"".join(iter(lambda: _read(leader), b""))
    os.close(leader)
    assert process.returncode == 0, sys.stderr
    return printed.decode()


def _read(leader: int) -> bytes:
    try:
        return os.read(leader, 65536)
    except OSError:
        # EIO: the last writer has closed it
        return b""


LINE = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d|- {20})  (.*)")


def test_output_has_the_times_of_its_lines_on_request(cluster: Cluster) -> None:
    one, two = cluster.submit_many((command("printf", "one\\nzwö\\nend"),), (command("echo", "other"),))
    followed = gnt_job(cluster, "output", "--times", "--follow", one)
    told = json.loads(gnt_job(cluster, "output", "--times", "--output", "json", one).out)
    cluster.wait(one, two)

    both = gnt_job(cluster, "output", "--times", one, two)
    refused = gnt_job(cluster, "output", "--times", "--follow", one, two)
    (cluster.paths.output / f"job-{one}.times.{0:020d}").unlink()
    lost = gnt_job(cluster, "output", "--times", one)

    found = [LINE.fullmatch(line) for line in followed.out.splitlines()]
    assert [match and match[2] for match in found] == ["one", "zwö", "end"]
    assert [row["line"] for row in told] == ["one", "zwö", "end"]
    at = datetime.fromisoformat(told[0]["at"]).timestamp()
    assert time.time() - 60 < at <= time.time()
    assert found[0] is not None
    assert found[0][1] == tenths_clock(at)
    assert [line.split()[0] for line in both.out.splitlines()] == [str(one)] * 3 + [str(two)]
    assert (refused.code, "--follow with --times takes one job" in refused.err) == (2, True)
    assert [line.split() for line in lost.out.splitlines()] == [["-", "one"], ["-", "zwö"], ["-", "end"]]
