"""The examples of the filters design, set by the command line, and a bucket, all with real jobs.

Source: filters design, "Examples"; luxid.md 6.2; DESIGN section 6, "Filters", "Restart".
"""

from collections.abc import Callable
from typing import Any

import pytest

from common.errors import RemoteError
from protocol.luxi.queue import DeleteFilter
from tests.cli.command import run
from tests.daemon.luxid.ops import dummy, gated
from tests.support.cluster import Cluster
from tests.support.stamps import Stamps
from tests.support.wait import wait_until

SetRule = Callable[..., str]
CREATE = {"OP_ID": "OP_INSTANCE_CREATE", "instance_name": "web2", "disks": [], "nics": [], "mode": "create"}
# places for jobs, by the fixture `cluster`
PLACES = 4


@pytest.fixture
def set_rule(cluster: Cluster) -> SetRule:
    """Set a rule by `gnt-filter`; return its uuid."""

    def set_one(*words: str) -> str:
        ended = run("gnt-filter", "--root", cluster.root, *words)
        assert (ended.code, ended.err) == (0, "")
        return ended.out.strip()

    return set_one


@pytest.fixture
def stamps(cluster: Cluster) -> Stamps:
    return Stamps(cluster.root / "work")


def because(*reasons: str) -> list[list[Any]]:
    """A reason trail."""
    return [["gnt:user", reason, 1] for reason in reasons]


def fill(cluster: Cluster) -> list[int]:
    """Take all places until the file `go` is there."""
    running = cluster.submit_many(*[(gated(cluster.root / "go"),)] * PLACES)
    cluster.wait(*running, status="running")
    return list(running)


def most_at_once(stamps: Stamps) -> int:
    """How many jobs have ever run at the same time."""
    running = most = 0
    for line in stamps.lines():
        running += 1 if line.endswith(" start") else -1
        most = max(most, running)
    return most


def wait_for_starts(stamps: Stamps, count: int) -> None:
    wait_until(
        lambda: sum(line.endswith(" start") for line in stamps.lines()) >= count,
        what=f"{count} jobs have started",
        state=stamps.lines,
    )


def test_a_drain_lets_all_that_is_there_end_and_refuses_what_comes(cluster: Cluster, set_rule: SetRule) -> None:
    running, queued = fill(cluster), cluster.submit(dummy())

    uuid = set_rule("drain")

    with pytest.raises(RemoteError, match=f"rejected by filter rule {uuid}"):
        cluster.submit(dummy())
    assert cluster.status(queued) == "queued"
    (cluster.root / "go").touch()
    assert cluster.wait(*running, queued) == ["success"] * (PLACES + 1)
    cluster.luxi(DeleteFilter(uuid))
    assert cluster.wait(cluster.submit(dummy())) == ["success"]


def test_a_soft_drain_lets_all_that_is_there_end_and_what_comes_waits_until_it_is_deleted(
    cluster: Cluster, set_rule: SetRule
) -> None:
    running, queued = fill(cluster), cluster.submit(dummy())

    uuid = set_rule("soft-drain")

    newer = cluster.submit_many((dummy(),), (dummy(priority=-10),))
    (cluster.root / "go").touch()
    assert cluster.wait(*running, queued) == ["success"] * (PLACES + 1)
    assert [cluster.status(job_id) for job_id in newer] == ["queued"] * 2
    cluster.luxi(DeleteFilter(uuid))
    assert cluster.wait(*newer) == ["success"] * 2


def test_of_all_jobs_only_those_of_one_maintenance_run(cluster: Cluster, set_rule: SetRule) -> None:
    wanted = '[["reason", ["=~", "reason", "maintenance pink bunny"]]]'
    set_rule("add", "--predicates", wanted, "--action", "ACCEPT", "--priority", "0")
    running, before = fill(cluster), cluster.submit(dummy())

    uuid = set_rule("pause", "--priority", "1")

    after = cluster.submit(dummy(reason=because("nightly")))
    maintenance = cluster.submit(dummy(reason=because("night shift", "maintenance pink bunny")))
    (cluster.root / "go").touch()
    assert cluster.wait(*running, maintenance) == ["success"] * (PLACES + 1)
    assert [cluster.status(job_id) for job_id in (before, after)] == ["queued"] * 2
    cluster.luxi(DeleteFilter(uuid))
    assert cluster.wait(before, after) == ["success"] * 2


def test_instance_creations_are_canceled_queued_or_new_and_nothing_else(cluster: Cluster, set_rule: SetRule) -> None:
    running = fill(cluster)
    creation, hidden, other = cluster.submit_many((CREATE,), (dummy(), CREATE), (dummy(),))

    uuid = set_rule("add", "--predicates", '[["opcode", ["==", "OP_ID", "OP_INSTANCE_CREATE"]]]', "--action", "REJECT")

    assert cluster.wait(creation, hidden) == ["canceled"] * 2
    for job in ((CREATE,), (dummy(), CREATE)):
        with pytest.raises(RemoteError, match=f"rejected by filter rule {uuid}"):
            cluster.submit(*job)
    assert cluster.status(other) == "queued"
    newer = cluster.submit(dummy())
    (cluster.root / "go").touch()
    assert cluster.wait(*running, other, newer) == ["success"] * (PLACES + 2)


def test_of_a_limited_opcode_never_more_run_than_the_rule_says(
    cluster: Cluster, set_rule: SetRule, stamps: Stamps
) -> None:
    set_rule("limit", "2", "--where", "op=OP_RUN_COMMAND")

    jobs = cluster.submit_many(*[(stamps.gated(f"gate{n}"),) for n in range(2)], *[(stamps.work(),)] * 5)

    wait_for_starts(stamps, 2)
    assert cluster.wait(cluster.submit(dummy())) == ["success"], "it waits for no limit"
    assert len(stamps.lines()) == 2
    for n in range(2):
        stamps.open_gate(f"gate{n}")
    assert cluster.wait(*jobs) == ["success"] * 7
    assert most_at_once(stamps) == 2
    stamps.assert_nothing_ran_twice()


def test_of_a_bucket_never_more_run_than_it_says_though_luxid_is_killed(cluster: Cluster, stamps: Stamps) -> None:
    limited: dict[str, Any] = {"reason": because("rate-limit:2:x")}
    jobs = cluster.submit_many(
        *[(stamps.gated(f"gate{n}", **limited),) for n in range(3)], *[(stamps.work(**limited),)] * 3
    )
    wait_for_starts(stamps, 2)

    cluster.restart("luxid")

    assert cluster.wait(cluster.submit(dummy())) == ["success"], "it waits for no limit"
    assert len(stamps.lines()) == 2, "those that live on have their places"
    cluster.kill("luxid")
    stamps.open_gate("gate0")
    wait_until(lambda: len(stamps.lines()) == 3, what="one of them ends without luxid", state=stamps.lines)
    cluster.start("luxid")
    wait_for_starts(stamps, 3)
    for n in range(1, 3):
        stamps.open_gate(f"gate{n}")
    assert cluster.wait(*jobs) == ["success"] * 6
    assert most_at_once(stamps) == 2
    stamps.assert_nothing_ran_twice()
