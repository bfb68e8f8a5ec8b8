"""The table of `gantry cluster`: complete, and at most 80 columns wide. Source: DESIGN section 14."""

import attrs

from cli.gantry.cluster.mastership import cluster_lines, size_text
from common.lease.records import Change, Role
from common.words.times import clock
from protocol.keeperd import ClusterView, EtcdMemberView
from tests.support.fakes.clusterviews import barred, master, replica, silent

ONE = master("node1", 12, release="1.4", priority=2)
TWO = replica("node2", 12, release="1.4", copies="catching up", lag_files=12345, config_behind=True, since_s=1.2)
THREE = barred(
    "node3",
    11,
    release="1.3",
    priority=0,
    reasons=("it was away for 20 minutes, and has not been compared with the master since", "its disk is full"),
    since_s=1200.0,
)
ETCD = (
    EtcdMemberView(
        name="etcd1", endpoint="http://10.0.0.1:2379", version="3.4.23", is_leader=True, db_bytes=40_000_000
    ),
    EtcdMemberView(name="etcd2", endpoint="http://10.0.0.2:2379", version="3.5.33", db_bytes=512, quota_bytes=2**31),
    EtcdMemberView(name="etcd3", endpoint="http://10.0.0.3:2379", failure="connection refused"),
)
VIEW = ClusterView(
    asked="node1",
    state="master",
    master="node1",
    epoch=12,
    ttl_s=10.0,
    valid_s=8.25,
    members=(ONE, TWO, THREE),
    etcd=ETCD,
    dirty=7,
    alarms=("NOSPACE",),
    etcd_heard_s=0.1,
    maintenance=True,
    history=tuple(Change(at=1000.0 + n, epoch=n, node="node1", cause="first campaign") for n in range(1, 13)),
    problems=("etcd is full: nothing is acknowledged, and nobody can take over; see deploy/etcd/README.md \x1b[2J",),
)


def lines(view: ClusterView) -> list[str]:
    return list(cluster_lines(view, has_color=False))


def test_everything_is_told_within_80_columns() -> None:
    shown = lines(VIEW)

    assert max(map(len, shown)) <= 80
    assert shown[0] == "master: node1, epoch 12, lease of 10s, valid for 8.2s without a renewal"
    assert [line.split() for line in shown if line.startswith(("node1  ", "node2  ", "node3  "))] == [
        ["node1", "master", "master", "12", "-", "-", "0.4s"],
        ["node2", "replica", "follow", "12", "catching", "up", "12345", "files,", "config", "1.2s"],
        ["node3", "barred", "barred", "11", "stale", "unknown", "20m00s"],
    ]
    text = "\n".join(shown).replace("\n  ", " ")
    for words in (
        "maintenance: the mastership stays where it is",
        "node3: its disk is full",
        "node3: never becomes the master by itself",
        "releases differ: node1 1.4, node2 1.4, node3 1.3",
        "priorities, the highest goes first: node1 2, node2 1",
        "etcd3: connection refused",
        "alarms of etcd: NOSPACE",
        "changes kept in etcd, as some candidate may lack them: 7",
        "problem: etcd is full: nothing is acknowledged",
    ):
        assert words in text


def test_the_members_of_etcd_stand_with_leader_version_and_size() -> None:
    assert [line.split() for line in lines(VIEW) if line.startswith("etcd") and "http" in line] == [
        ["etcd1", "leader", "3.4.23", "38.1M", "http://10.0.0.1:2379"],
        ["etcd2", "follower", "3.5.33", "512B", "of", "2.0G", "http://10.0.0.2:2379"],
        ["etcd3", "silent", "-", "-", "http://10.0.0.3:2379"],
    ]
    assert size_text(2**60) == "1048576.0T"


def test_the_last_changes_are_shown_the_newest_last() -> None:
    at = [line for line in lines(VIEW) if line.endswith("first campaign")]

    assert at == [f"{clock(1000.0 + n)}  {n:5}  node1   first campaign" for n in range(8, 13)]


def test_foreign_control_characters_do_not_reach_the_terminal() -> None:
    assert "\x1b" not in "".join(lines(VIEW))


def test_a_cluster_without_a_master_or_without_etcd_says_so() -> None:
    lost = attrs.evolve(VIEW, master="", valid_s=None, etcd_heard_s=None, etcd=(), members=(TWO,))

    assert lines(lost)[0] == "master: nobody, as 'node1' knows it; last epoch 12, lease of 10s"
    text = " ".join(lines(lost)).replace("   ", " ")
    assert "etcd has never replied to 'node1': nobody can become the master, and no change is acknowledged" in text
    assert "etcd has" not in "".join(lines(VIEW))


def test_a_silent_candidate_is_told_with_what_to_look_at() -> None:
    text = " ".join(lines(attrs.evolve(VIEW, members=(ONE, silent("node4"))))).replace("   ", " ")

    assert "node4: its keeperd does not run, or does not reach etcd; see 'gantry status' there" in text


def test_a_master_that_has_lost_its_key_is_told_by_its_last_word() -> None:
    dead = attrs.evolve(master("node5", 12, since_s=21.0), role=Role.WAS_MASTER)

    shown = lines(attrs.evolve(VIEW, members=(ONE, dead)))

    assert [line.split()[:4] for line in shown if line.startswith("node5  ")] == [["node5", "was", "master", "master"]]
    assert "node5: its last word was 'master', 21s ago; the mastership is not its own" in shown
