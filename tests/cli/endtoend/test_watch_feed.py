"""Verbs that follow jobs, against real daemons: nobody notices that luxid is away for a moment."""

from pathlib import Path

from tests.cli.command import Background
from tests.daemon.luxid.ops import command
from tests.support.cluster import Cluster

SETTINGS = "[luxid]\nsweep_s = 3600.0\n"
TALKER = "echo begun; until [ -e {go} ]; do sleep 0.02; done; echo ended"


def test_a_kill_of_luxid_loses_and_repeats_nothing(tmp_path: Path) -> None:
    go = tmp_path / "go"
    with Cluster(tmp_path / "c", settings=SETTINGS) as cluster:
        cluster.start()
        jobs = [cluster.submit(command("sh", "-c", TALKER.format(go=go))) for _ in range(3)]
        with (
            Background("gnt-job", "--root", cluster.root, "watch", *jobs) as watch,
            Background("gnt-job", "--root", cluster.root, "output", "--follow", *jobs) as output,
        ):
            begun = sorted(output.read_line() for _ in jobs)
            running: set[str] = set()
            while len(running) < 3:
                line = watch.read_line()
                running |= {line} if " running " in line else set()
            cluster.restart("luxid")
            go.touch()
            watched, printed = watch.end(), output.end()

    assert begun == sorted(f"{job_id}  begun\n" for job_id in jobs)
    assert sorted(printed.out.splitlines(True)) == sorted(f"{job_id}  ended\n" for job_id in jobs)
    assert sum(" success " in line for line in watched.out.splitlines()) == 3
    assert " running " not in watched.out
    assert [each.code for each in (watched, printed)] == [0, 0]
    assert watched.err == printed.err == ""
