"""`gnt-filter ... --dry-run` through a luxid that runs: luxid decides for which jobs a rule would be. luxid.md 6."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from common.errors import RemoteError
from protocol.luxi.queries import QueryFilters
from protocol.luxi.queue import TryFilterRule
from tests.cli.command import run
from tests.daemon.luxid.ops import delay, dummy
from tests.support.cluster import Cluster

DUMMY = dummy()
DELAY = delay(0.0)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path) as cluster:
        cluster.start("wconfd", "forkserver", "luxid")
        yield cluster


def pause_delays(cluster: Cluster, priority: int) -> None:
    ended = run("gnt-filter", "--root", cluster.root, "pause", "--where", "op=test_delay", "--priority", priority)
    assert ended.code == 0, ended


def test_the_jobs_are_told_and_nothing_is_changed(cluster: Cluster) -> None:
    pause_delays(cluster, 9)
    first, done, second = cluster.submit(DELAY), cluster.submit(DUMMY), cluster.submit(DELAY)
    cluster.wait(done)
    rules = cluster.luxi(QueryFilters(None, ("uuid",)))

    table = run("gnt-filter", "--root", cluster.root, "drain", "--dry-run")
    words = ("add", "--action", "REJECT", "--where", "op=test_delay", "--dry-run")
    rejected = run("gnt-filter", "--root", cluster.root, *words)
    as_json = run("gnt-filter", "--root", cluster.root, *words, "--output", "json")

    assert table.out.split() == ["ID", "STATUS", "SUMMARY"]
    rows = [line.split()[:2] for line in rejected.out.splitlines()[1:]]
    assert rows == [[str(first), "queued"], [str(second), "queued"]]
    assert rejected.err == "2 of the jobs that wait now would be canceled; nothing was changed\n"
    assert (as_json.code, as_json.out, as_json.err) == (0, f"[{first},{second}]\n", "")
    assert cluster.luxi(QueryFilters(None, ("uuid",))) == rules
    assert [cluster.status(job_id) for job_id in (first, second)] == ["queued", "queued"]


def test_the_place_of_the_rule_is_that_which_it_would_get(cluster: Cluster) -> None:
    """Rules of one priority go by the last id that was used, not by the last one that waits."""
    pause_delays(cluster, 9)
    waiting, done = cluster.submit(DELAY), cluster.submit(DUMMY)
    cluster.wait(done)
    pause_delays(cluster, 3)
    cluster.wait(cluster.submit(DUMMY))
    words = ("add", "--action", "REJECT", "--dry-run", "--output", "json", "--priority")

    behind, before = (run("gnt-filter", "--root", cluster.root, *words, priority) for priority in (3, 2))

    assert (behind.out, before.out) == ("[]\n", f"[{waiting}]\n")


def test_a_rule_that_can_never_match_is_refused_as_if_it_were_set(cluster: Cluster) -> None:
    with pytest.raises(RemoteError, match=r"unknown predicate 'weather'"):
        cluster.luxi(TryFilterRule(None, 0, (("weather", ["==", "id", 1]),), "PAUSE"))
    with pytest.raises(RemoteError, match="is not a UUID"):
        cluster.luxi(TryFilterRule("mine", 0, (), "PAUSE"))
