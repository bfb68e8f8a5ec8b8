"""`gantry orphaned-locks`, `gantry fenced`, and where else orphans are told. Source: DESIGN section 14."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from common.locks import LockMode, Owner, parse_lock
from common.words.times import clock
from protocol.wconfd.locks import Claim, ClaimLocks, CommandOnNode, ListOrphanedLocks, TryUpdateLocks
from tests.cli.command import Ended, run
from tests.support.cluster import Cluster

ONE, TWO = Owner(17, "/gone/17"), Owner(18, "/gone/18")
X, Y = parse_lock("node/x"), parse_lock("node/y")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = "[wconfd]\nghost_s = 86400.0\n"
    with Cluster(tmp_path_factory.mktemp("orphans") / "root", settings=settings) as cluster:
        cluster.start()
        yield cluster


def gantry(cluster: Cluster, *words: str, answer: str = "") -> Ended:
    return run("gantry", "--root", cluster.root, *words, stdin=answer)


def shown(cluster: Cluster) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(gantry(cluster, "orphaned-locks", "--output", "json").out)
    return found


def test_the_story_of_two_ghosts(cluster: Cluster) -> None:
    assert gantry(cluster, "orphaned-locks") == Ended(
        0, "", "there are no orphaned locks: every lock is held by a process that lives\n"
    )
    assert "orphaned" not in gantry(cluster, "status").out
    claims = (
        Claim(ONE, ((X, LockMode.EXCLUSIVE),), (CommandOnNode("web2", "17.0.1"),)),
        Claim(TWO, ((Y, LockMode.SHARED),), (CommandOnNode("web2", "18.0.1"), CommandOnNode("web3", "18.1.1"))),
    )
    cluster.wconf(ClaimLocks(claims))
    since = cluster.wconf(ListOrphanedLocks())[0].since
    began, ends = clock(since), clock(since + 86400)

    table = [line.split() for line in gantry(cluster, "orphaned-locks").out.splitlines()]

    def row(*words: str) -> list[str]:
        return [*words[:3], *began.split(), *ends.split(), *words[3:]]

    assert table == [
        ["JOB", "NODE", "COMMAND", "SINCE", "ENDS", "LOCKS"],
        row("17", "web2", "17.0.1", "node/x=exclusive"),
        row("18", "web2", "18.0.1", "node/y"),
        row("18", "web3", "18.1.1", "node/y"),
    ]
    assert shown(cluster)[1] == {
        "job": 18,
        "livelock": "/gone/18",
        "since": since,
        "ends_at": since + 86400,
        "guards": [{"node": "web2", "key": "18.0.1"}, {"node": "web3", "key": "18.1.1"}],
        "locks": {"node/y": "shared"},
    }
    assert (
        f"orphaned locks: of 2 dead owners since {began}, for commands on web2, web3; see 'gantry orphaned-locks'\n"
        in gantry(cluster, "status").out
    )
    assert len(json.loads(gantry(cluster, "--output", "json", "status").out)["ghosts"]) == 2
    told = run("gnt-debug", "--root", cluster.root, "locks").err.splitlines()
    assert told == [
        "job/17 has orphaned locks: its process is gone, and its command may still run on node 'web2'; "
        f"its locks are kept until the node answers, it is {ends}, or an operator says: gantry fenced NODE",
        "job/18 has orphaned locks: its process is gone, and its command may still run on node 'web2', 'web3'; "
        f"its locks are kept until the node answers, it is {ends}, or an operator says: gantry fenced NODE",
    ]

    # a question that is not answered by yes
    asked = gantry(cluster, "fenced", "web2", answer="n\n")
    assert asked.code == 13
    assert asked.out.startswith(
        "job 17: command 17.0.1; its locks become free: node/x=exclusive\n"
        "job 18: command 18.0.1; its locks are kept until node 'web3' answers: node/y\n"
    )
    assert asked.err.endswith("nothing was released; to answer yes in a script, add --yes\n")
    assert len(shown(cluster)) == 2

    assert gantry(cluster, "fenced", "nowhere", "--yes") == Ended(
        0, "", "no locks are kept for a command on node 'nowhere'\n"
    )
    assert gantry(cluster, "fenced", "web2", "--yes").code == 0
    assert [orphan["guards"] for orphan in shown(cluster)] == [[{"node": "web3", "key": "18.1.1"}]]
    me = Owner("test", str(cluster.root / "nothing"))
    assert cluster.wconf(TryUpdateLocks(me, ())) == ()
    freed = json.loads(gantry(cluster, "fenced", "web3", "--yes", "--output", "json").out)
    assert [(each["job"], each["keys"], each["freed"]) for each in freed] == [(18, ["18.1.1"], True)]
    assert shown(cluster) == []
    assert 'kept_locks.released owner=job/18 word="node web3: fenced, says ' in cluster.log("wconfd")


def test_without_wconfd_it_is_not_known(tmp_path: Path) -> None:
    assert run("gantry", "--root", tmp_path, "orphaned-locks").code == 3
    assert run("gantry", "--root", tmp_path, "fenced", "web2", "--yes").code == 3
