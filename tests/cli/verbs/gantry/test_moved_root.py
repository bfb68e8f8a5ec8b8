"""An installation that is moved while its daemons run says so, and goes on when it is put back (everyday.md)."""

from pathlib import Path

from tests.cli.command import run
from tests.support.cluster import Cluster


def test_a_root_that_is_moved_while_it_is_up_says_what_happened_and_what_to_do(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    with Cluster(here) as cluster:
        cluster.start("wconfd", "forkserver", "luxid")
        here.rename(there)
        try:
            told = run("gantry", "--root", there, "status", "--check")
            refused = run("gnt-job", "--root", there, "run", "--", "true")
        finally:
            there.rename(here)

        assert told.code == 2
        assert f"the folder '{here / 'lib'}' was moved or removed while the daemons run" in told.out
        assert refused.code != 0
        assert f"nothing was submitted, '{here / 'lib'}' was moved or removed while luxid runs" in refused.err
        assert run("gnt-job", "--root", here, "run", "--wait", "--", "true").code == 0
