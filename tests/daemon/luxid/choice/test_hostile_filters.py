"""Filter rules with regular expressions that would hold a backtracking engine for years (luxid.md 6.3)."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from common.errors import RemoteError
from protocol.blocking import BlockingClient
from protocol.luxi.jobs import Accepted, SubmitManyJobs
from protocol.luxi.queries import QueryFilters, QueryJobs
from protocol.luxi.queue import ReplaceFilter
from tests.daemon.luxid.ops import dummy
from tests.support.cluster import Cluster

EVIL = "(a+)+$"
# the longest that a backtracking engine cannot match
BAIT = "a" * 50_000 + "b"
COUNT = 20


@pytest.fixture
def other(cluster: Cluster) -> Iterator[BlockingClient]:
    """A second client, on a connection of its own."""
    with BlockingClient(cluster.paths.query_socket) as client:
        yield client


def replace(cluster: Cluster, action: str, pattern: str, *, field: str = "reason", priority: int = 0) -> str:
    predicates = (("reason", ("=~", field, pattern)),)
    return cluster.luxi(ReplaceFilter(None, priority, predicates, action, ()))


def because(text: str) -> dict[str, Any]:
    return dummy(reason=[["gnt:user", text, 1]])


def chain(cluster: Cluster) -> list[Any]:
    rows = cluster.luxi(QueryFilters(None, ("uuid", "predicates", "action")))
    return sorted(rows)


def test_another_call_is_answered_while_baits_are_held_against_the_rule(
    cluster: Cluster, other: BlockingClient
) -> None:
    replace(cluster, "REJECT", EVIL)
    submission = SubmitManyJobs(((because(BAIT),),) * COUNT)

    with BlockingClient(cluster.paths.query_socket) as submitter:
        submitter.start(submission)
        answered = [other.call(QueryFilters(None, ("uuid",))) for _ in range(COUNT)]
        job_ids = [each.job_id for each in submitter.finish(submission) if isinstance(each, Accepted)]

    assert len(answered) == COUNT
    assert cluster.wait(*job_ids) == ["success"] * COUNT, "what ends with a 'b' does not match"


def test_what_matches_is_found_at_that_length_too(cluster: Cluster) -> None:
    uuid = replace(cluster, "REJECT", EVIL)

    with pytest.raises(RemoteError, match=f"rejected by filter rule {uuid}"):
        cluster.submit(because(BAIT[:-1]))


def test_a_rule_that_comes_later_is_held_against_all_that_wait(cluster: Cluster, other: BlockingClient) -> None:
    pause = replace(cluster, "PAUSE", "gnt:user", field="source", priority=1)
    job_ids = cluster.submit_many(*[(because(BAIT),)] * COUNT)
    caught = cluster.submit(because(BAIT[:-1]))

    evil = replace(cluster, "REJECT", EVIL)

    assert cluster.wait(caught) == ["canceled"]
    rows = other.call(QueryJobs(tuple(job_ids), ("status",)))
    assert rows == (("queued",),) * COUNT
    assert {row[0] for row in chain(cluster)} == {pause, evil}


@pytest.mark.parametrize(
    ("pattern", "at"),
    [("(?=a)b", "at character 1, '(?='"), (r"(a)\1", r"at character 4, '\\1'"), ("(", "at character 1, '('")],
)
def test_a_pattern_that_is_refused_is_told_with_its_place_and_leaves_the_chain_in_force(
    cluster: Cluster, pattern: str, at: str
) -> None:
    kept = replace(cluster, "REJECT", "^no$")
    before = chain(cluster)

    with pytest.raises(RemoteError, match=re.escape(at)) as refusal:
        replace(cluster, "ACCEPT", pattern)

    assert "predicates[0] (reason): filter $[2]" in str(refusal.value)
    assert chain(cluster) == before
    with pytest.raises(RemoteError, match=kept):
        cluster.submit(because("no"))
    assert cluster.wait(cluster.submit(because("yes"))) == ["success"]


def test_a_replacement_that_is_refused_leaves_the_rule_as_it_was(cluster: Cluster) -> None:
    uuid = replace(cluster, "REJECT", "^no$")
    before = chain(cluster)

    with pytest.raises(RemoteError, match="look-around and back references are not supported"):
        cluster.luxi(ReplaceFilter(uuid, 0, (("reason", ("=~", "reason", "(?=a)b")),), "ACCEPT", ()))

    assert chain(cluster) == before
