"""`gantry logs`: all daemons' logs in the order of time, chosen, followed over rotations."""

import gzip
import json
import os
from pathlib import Path

import pytest

from common.paths import Paths
from tests.cli.command import Background, Ended, run
from tests.support.cluster import Cluster
from tests.support.wait import wait_until


def line(second: int, text: str, program: str = "luxid", level: str = "info") -> str:
    return f"2026-03-01T12:00:{second:02d}.000Z {program} {level} {text}\n"


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    """Logs of a luxid, with two rotated files, and of a wconfd."""
    paths = Paths.under_root(tmp_path)
    paths.make_folders()
    log = paths.log_file("luxid")
    with gzip.open(f"{log}.2.gz", "wt") as old:
        old.write(line(1, "luxid.oldest job=7"))
    os.utime(f"{log}.2.gz", (1, 2))
    Path(f"{log}.1").write_text(line(3, "luxid.old job=17") + line(8, "job.failed job=17", level="error") + "  Trace\n")
    log.write_text(line(9, "luxid.new by_job=17", level="warning"))
    paths.log_file("wconfd").write_text(line(2, "wconfd.early", "wconfd") + line(5, "locks.freed job=17", "wconfd"))
    return paths


def logs(paths: Paths, *words: str) -> Ended:
    return run("gantry", "--root", paths.data.parent, "logs", *words)


def events(ended: Ended) -> list[str]:
    assert ended.err == ""
    return [each.split()[3] for each in ended.out.splitlines() if each.startswith("2026")]


def test_all_logs_are_one_in_the_order_of_time(paths: Paths) -> None:
    ended = logs(paths, "--lines", "0")

    order = ["luxid.oldest", "wconfd.early", "luxid.old", "locks.freed", "job.failed", "luxid.new"]
    assert (ended.code, events(ended)) == (0, order)
    assert "\n  Trace\n" in ended.out


def test_records_are_chosen_by_job_level_daemon_and_number(paths: Paths) -> None:
    assert events(logs(paths, "--job", "17")) == ["luxid.old", "locks.freed", "job.failed", "luxid.new"]
    assert events(logs(paths, "--job", "17", "--level", "warning")) == ["job.failed", "luxid.new"]
    assert events(logs(paths, "--daemon", "wconfd", "-n", "1")) == ["locks.freed"]
    assert logs(paths, "--job", "18") == Ended(0, "", "no log record matches; logs are kept for a limited time\n")
    # files in use only, unless asked for more
    assert events(logs(paths)) == ["wconfd.early", "locks.freed", "luxid.new"]


def test_records_are_chosen_by_time(paths: Paths) -> None:
    chosen = logs(paths, "--since", "2026-03-01T12:00:04Z", "--until", "2026-03-01T12:00:08Z")

    assert events(chosen) == ["locks.freed", "job.failed"]


def test_json_has_one_object_a_record(paths: Paths) -> None:
    found = [json.loads(each) for each in logs(paths, "--job", "17", "--output", "json").out.splitlines()]

    assert found[2] == {
        "at": "2026-03-01T12:00:08.000Z",
        "program": "luxid",
        "level": "error",
        "event": "job.failed",
        "fields": {"job": "17"},
        "more": ["  Trace"],
    }


def test_what_cannot_be_shown_is_said(paths: Paths) -> None:
    unknown = logs(paths, "--daemon", "nobody")
    assert unknown.code == 2
    assert "there is no log of 'nobody'; known are" in unknown.err
    assert "give one of them" in logs(paths, "-f", "--until", "now").err


def test_following_waits_for_whole_lines_and_goes_on_after_a_rotation(paths: Paths) -> None:
    log = paths.log_file("luxid")
    with Background("gantry", "--root", paths.data.parent, "logs", "-f", "--job", "17") as following:
        past = [following.read_line().split()[-1] for _ in range(5)]
        assert past[-1] == "by_job=17"

        with log.open("a") as old:
            old.write(line(10, "half job=17")[:-9])
            old.flush()
            with paths.log_file("wconfd").open("a") as other:
                other.write(line(11, "other job=17", "wconfd"))
            assert following.read_line() == line(11, "other job=17", "wconfd")
            old.write(line(10, "half job=17")[-9:])
            old.flush()
            assert following.read_line() == line(10, "half job=17")

            log.rename(f"{log}.0")
            log.write_text(line(12, "fresh job=17"))
            assert following.read_line() == line(12, "fresh job=17")
            # of a process that has not opened the new one yet
            old.write(line(13, "late job=17"))
            old.flush()
            assert following.read_line() == line(13, "late job=17")

        # cut off in place
        log.write_text(line(14, "x job=17"))
        assert following.read_line() == line(14, "x job=17")
        following.interrupt()
        assert following.end().code == 130


def test_a_real_job_is_told_by_all_its_daemons(tmp_path: Path) -> None:
    with Cluster(tmp_path / "c") as cluster:
        cluster.start("wconfd", "forkserver", "luxid")
        op = {"OP_ID": "OP_RUN_COMMAND", "argv": ["/bin/true"], "locks": {"node/n1": "exclusive"}}
        job_id = cluster.submit(op)
        cluster.wait(job_id)

        def told() -> Ended:
            return run("gantry", "--root", cluster.root, "logs", "--job", job_id)

        wait_until(lambda: "job.ended" in events(told()), what="its end is in the log")
        ended = told()

        found = events(ended)
        assert found[0] == "job.queued"
        assert [each.split()[0] for each in ended.out.splitlines()] == sorted(
            each.split()[0] for each in ended.out.splitlines()
        )
