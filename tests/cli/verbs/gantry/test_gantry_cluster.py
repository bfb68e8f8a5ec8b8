"""`gantry cluster` and its verbs, against a keeperd of the test's making. Source: DESIGN section 14."""

import json
import os
import pty
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import attrs
import pytest

from common.errors import Conflict, Unavailable
from common.lease.records import Role
from common.paths import Paths
from protocol import keeperd as calls
from tests.cli.command import Background, Ended, argv, environment, run
from tests.cli.fakekeeperd import FakeKeeperd, fake_keeperd
from tests.cli.programhost import ProgramHost
from tests.cli.verbs.gantry.test_completion import PATIENT
from tests.support.fakes.clusterviews import master, replica
from tests.support.wait import wait_until

Run = Callable[..., Ended]

SETTINGS = '[cluster]\nreplication = "etcd"\nnode_name = "node2"\n[etcd]\nendpoints = ["http://127.0.0.1:2379"]\n'
ONE, TWO = master("node1", 7), replica("node2", 7)
VIEW = calls.ClusterView(
    asked="node2", state="follow", master="node1", epoch=7, ttl_s=10.0, members=(ONE, TWO), etcd_heard_s=0.5
)


def prepare(root: Path, settings: str = SETTINGS) -> Paths:
    root.mkdir(exist_ok=True)
    (root / "gantry.toml").write_text(settings)
    paths = Paths.under_root(root)
    paths.make_folders()
    return paths


@pytest.fixture
def keeperd(tmp_path: Path) -> Iterator[FakeKeeperd]:
    paths = prepare(tmp_path / "r")
    paths.ssconf_file("master_candidates").write_text("node1\nnode2\n")
    with fake_keeperd(paths.keeperd_socket, VIEW) as fake:
        yield fake


@pytest.fixture
def cluster(host: ProgramHost, tmp_path: Path) -> Run:
    """Run `gantry cluster` with these words."""
    return partial(host.run, "gantry", "--root", tmp_path / "r", "cluster")


def on_a_terminal(folder: Path, *words: str, answers: str) -> int:
    """The exit code of a command whose questions are answered at a terminal."""
    ours, theirs = pty.openpty()
    os.write(ours, answers.encode())
    process = subprocess.run(
        argv("gantry", "--root", folder / "r", "cluster", *words),
        stdin=theirs,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env=environment(),
        timeout=60,
        check=False,
    )
    os.close(theirs)
    os.close(ours)
    return process.returncode


def test_alone_it_tells_the_master_and_without_one_the_exit_code_does(keeperd: FakeKeeperd, cluster: Run) -> None:
    shown = cluster()

    assert (shown.code, shown.err) == (0, "")
    assert shown.out.startswith("master: node1, epoch 7, lease of 10s\n")
    told = json.loads(cluster("--output", "json").out)
    assert (told["master"], told["maintenance"], told["members"][0]["role"]) == ("node1", False, "master")

    keeperd.view = attrs.evolve(VIEW, master="")
    assert cluster().code == 3


def test_the_verbs_of_gnt_cluster_are_there_too(tmp_path: Path) -> None:
    told = run("gantry", "cluster", "--help").out

    assert "switchover" in told
    assert "renew-crypto" in told
    assert run("gantry", "cluster", "getmaster", "--help").code == 0


def test_a_switchover_shows_how_it_goes_and_ends_with_the_new_master(keeperd: FakeKeeperd, tmp_path: Path) -> None:
    keeperd.is_slow = True
    with Background("gantry", "--root", tmp_path / "r", "cluster", "switchover", "node2", "--limit", "5m") as moving:
        first = moving.read_line()
        leaving = attrs.evolve(ONE, role=Role.CHANGING, state="leaving", reasons=("makes way for 'node2'",))
        barred = attrs.evolve(TWO, reasons=("not told as progress",))
        keeperd.view = attrs.evolve(VIEW, members=(leaving, barred), dirty=1)
        second, third = moving.read_line(), moving.read_line()
        wait_until(lambda: keeperd.asked, what="the switchover to be asked for")
        keeperd.let_go()
        ended = moving.end()

    assert first.partition("  ")[2] == "epoch 7: node1 master\n"
    assert second.partition("  ")[2] == "epoch 7: node1 leaving; 1 change in etcd\n"
    assert third == "  node1 makes way for 'node2'\n"
    assert (ended.code, ended.err) == (0, "")
    # a look at the cluster just before the reply tells of the new epoch, too
    assert ended.out.endswith("'node2' is the master now, epoch 8\n")
    assert "epoch 7" not in ended.out
    assert keeperd.asked == [calls.Switchover("node2", kill=False, limit_s=300.0)]


def test_a_switchover_tells_what_it_waits_for_before_it_begins(keeperd: FakeKeeperd, tmp_path: Path) -> None:
    keeperd.is_slow = True
    barred = attrs.evolve(TWO, role=Role.BARRED, state="barred", reasons=("its files are not compared",))
    keeperd.view = attrs.evolve(VIEW, members=(ONE, barred))
    for words in (("node2",), ()):
        with Background("gantry", "--root", tmp_path / "r", "cluster", "switchover", *words) as moving:
            shown = [moving.read_line(), moving.read_line()]
            moving.interrupt()
            moving.end()

        assert shown[0].partition("  ")[2] == "epoch 7: node1 master\n"
        assert shown[1] == "  node2 waits: its files are not compared\n"


def test_ctrl_c_leaves_a_switchover_going(keeperd: FakeKeeperd, tmp_path: Path) -> None:
    keeperd.is_slow = True
    with Background("gantry", "--root", tmp_path / "r", "cluster", "switchover", "--kill") as moving:
        moving.read_line()
        wait_until(lambda: keeperd.asked, what="the switchover to be asked for")
        moving.interrupt()
        ended = moving.end()

    assert ended == Ended(
        130, "", "no longer waiting; what was asked goes on without this command; see: gantry cluster\n"
    )
    assert keeperd.asked == [calls.Switchover("", kill=True)]


def test_a_refused_switchover_and_a_refused_takeover_have_codes_of_their_own(
    keeperd: FakeKeeperd, cluster: Run
) -> None:
    keeperd.refusal = Conflict("node 'node2' lacks 3 files of the queue")
    words = "was refused, nothing was changed: node 'node2' lacks 3 files of the queue\n"

    assert cluster("switchover", "node2") == Ended(4, "", f"error: the switchover {words}")
    assert cluster("takeover", "--i-accept-loss", "node2") == Ended(5, "", f"error: the takeover {words}")

    keeperd.refusal = Unavailable("'node2' is not the master after 5 s")
    late = cluster("switchover", "node2", "--limit", "5s")
    assert (late.code, late.err) == (124, "error: 'node2' is not the master after 5 s; see: gantry cluster\n")


def test_a_takeover_needs_the_word_that_loss_is_accepted(keeperd: FakeKeeperd, cluster: Run) -> None:
    refused = cluster("takeover", "node2")

    assert refused.code == 2
    assert "gantry cluster takeover --i-accept-loss node2" in refused.err
    assert keeperd.asked == []

    assert cluster("takeover", "--i-accept-loss", "node2").code == 0
    told = cluster("takeover", "--i-accept-loss", "node1", "--output", "json")
    assert json.loads(told.out) == {"master": "node1", "before": "node2", "epoch": 9}
    assert keeperd.asked == [calls.Takeover("node2"), calls.Takeover("node1")]


def test_maintenance_is_switched_and_told(keeperd: FakeKeeperd, cluster: Run) -> None:
    assert cluster("maintenance", "on").out.startswith("maintenance is on: ")
    assert keeperd.asked == [calls.SetMaintenance(True)]

    keeperd.view = attrs.evolve(VIEW, maintenance=True)
    assert json.loads(cluster("maintenance", "--output", "json").out) == {"maintenance": True}
    assert len(keeperd.asked) == 1


def test_a_restored_etcd_is_accepted_only_in_doubt_and_by_yes(
    keeperd: FakeKeeperd, tmp_path: Path, cluster: Run
) -> None:
    refused = cluster("accept-restore", "--yes")
    assert (refused.code, keeperd.asked) == (1, [])
    assert "no node is in doubt" in refused.err

    doubting = attrs.evolve(ONE, role=Role.DOUBT, state="doubt", epoch=9)
    keeperd.view = attrs.evolve(VIEW, master="", epoch=3, members=(doubting, TWO))
    assert "this node is not in doubt of etcd; run this on node1" in cluster("accept-restore", "--yes").err
    keeperd.view = attrs.evolve(keeperd.view, asked="node1", state="doubt")
    asked = cluster("accept-restore")
    assert (asked.code, keeperd.asked) == (13, [])
    assert "it tells of epoch 3, and the nodes remember up to 9\nin doubt: 'node1'\nlost: " in asked.err
    assert on_a_terminal(tmp_path, "accept-restore", answers="y\n") == 0
    assert cluster("accept-restore", "--yes").code == 0
    assert keeperd.asked == [calls.AcceptRestoredEtcd(), calls.AcceptRestoredEtcd()]


def test_a_watchdog_is_tested_only_after_two_questions(keeperd: FakeKeeperd, tmp_path: Path, cluster: Run) -> None:
    assert "this node has no watchdog" in cluster("test-watchdog").err

    prepare(tmp_path / "r", f'{SETTINGS}[keeperd]\nwatchdog = "/dev/watchdog7"\n')
    assert cluster("test-watchdog").code == 13
    assert on_a_terminal(tmp_path, "test-watchdog", answers="y\nn\n") == 13
    assert keeperd.asked == []
    assert on_a_terminal(tmp_path, "test-watchdog", answers="y\ny\n") == 0
    assert keeperd.asked == [calls.TestWatchdog()]


def test_an_etcd_that_is_silent_is_told_as_the_cause(keeperd: FakeKeeperd, cluster: Run) -> None:
    keeperd.view = attrs.evolve(VIEW, etcd_heard_s=42.0)
    keeperd.refusal = Unavailable("the wish was not noted")

    told = cluster("switchover").err

    assert "the wish was not noted; etcd has been silent for 42 s to 'node2': nobody can become the master" in told
    assert "etcd has been silent for 42 s" in cluster().out.replace("\n  ", " ")


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("switchover",),
        ("takeover", "--i-accept-loss", "node2"),
        ("maintenance", "on"),
        ("accept-restore", "--yes"),
        ("test-watchdog",),
    ],
)
def test_without_a_lease_each_says_what_to_do_instead(words: tuple[str, ...], tmp_path: Path, cluster: Run) -> None:
    prepare(tmp_path / "r", '[cluster]\nreplication = "nodes"\n')
    by_hand = cluster(*words)
    assert (by_hand.code, by_hand.out) == (1, "")
    assert "'gnt-cluster master-failover' on the node that is to be it" in by_hand.err

    prepare(tmp_path / "r", "")
    assert "this cluster has one machine" in cluster(*words).err


def test_where_keeperd_does_not_run_it_is_said_what_to_do(tmp_path: Path, cluster: Run) -> None:
    paths = prepare(tmp_path / "r")
    down = cluster("switchover")
    assert (down.code, down.out) == (3, "")
    assert down.err.startswith("error: keeperd is not running on this node; start it with: gantry --root ")

    paths.ssconf_file("master_candidates").write_text("node1\nnode3\n")
    assert "this node is no master candidate, and has no keeperd; run the command on node1, node3" in cluster().err


def test_a_keeperd_that_ends_under_a_switchover_is_told(tmp_path: Path) -> None:
    paths = prepare(tmp_path / "r")
    with fake_keeperd(paths.keeperd_socket, VIEW) as keeperd:
        keeperd.is_slow = True
        moving = Background("gantry", "--root", tmp_path / "r", "cluster", "switchover")
        wait_until(lambda: keeperd.asked, what="the switchover to be asked for")
    with moving:
        ended = moving.end()

    assert ended.code == 124
    assert ended.err.endswith("what was asked goes on without this command; see: gantry cluster\n")


def test_candidates_complete_without_a_master(keeperd: FakeKeeperd, tmp_path: Path) -> None:
    line = f"gantry --root {tmp_path / 'r'} cluster switchover no"
    env = {"_GANTRY_COMPLETE": "bash_complete", "COMP_LINE": line, "COMP_WORD": "no"}

    assert run("gantry", env=env, prelude=PATIENT).out.split() == ["plain,node1", "plain,node2"]


def test_a_failover_by_hand_is_refused_where_there_is_a_lease(host: ProgramHost, tmp_path: Path) -> None:
    prepare(tmp_path / "r")

    refused = host.run("gnt-cluster", "--root", tmp_path / "r", "master-failover", "--no-voting", "--yes-do-it")

    assert (refused.code, refused.out) == (1, "")
    assert "gantry cluster switchover node2; if it is not" in refused.err
    assert refused.err.endswith("gantry cluster takeover --i-accept-loss node2\n")


def test_getmaster_asks_keeperd_and_without_it_the_files(
    keeperd: FakeKeeperd, host: ProgramHost, tmp_path: Path
) -> None:
    paths = Paths.under_root(tmp_path / "r")
    paths.ssconf_file("master_node").write_text("node3\n")
    getmaster = partial(host.run, "gnt-cluster", "--root", tmp_path / "r", "getmaster")
    assert getmaster() == Ended(0, "node1\n", "")

    keeperd.view = attrs.evolve(VIEW, master="")
    nobody = getmaster()
    assert (nobody.code, nobody.out) == (3, "")
    assert "no node is the master now" in nobody.err

    paths.keeperd_socket.unlink()
    assert getmaster() == Ended(0, "node3\n", "")


@pytest.mark.parametrize("words", [("gnt-cluster", "init", "lab"), ("gantry", "up")])
def test_a_cluster_with_a_lease_is_not_made_without_an_etcd(
    host: ProgramHost, tmp_path: Path, words: tuple[str, ...]
) -> None:
    paths = prepare(tmp_path / "r", '[cluster]\nreplication = "etcd"\n')

    refused = host.run(words[0], "--root", tmp_path / "r", *words[1:])

    assert (refused.code, refused.out) == (2, "")
    assert "name its members in [etcd] of gantry.toml" in refused.err
    assert not paths.config_data.exists()


def test_a_vote_cannot_be_skipped_under_a_lease(host: ProgramHost, tmp_path: Path) -> None:
    prepare(tmp_path / "r")

    refused = host.run("gantry", "--root", tmp_path / "r", "up", "--no-voting", "--yes-do-it")

    assert refused.code == 1
    assert "gantry cluster takeover --i-accept-loss node2" in refused.err


def test_verify_tells_what_is_wrong_with_etcd_and_the_lease(
    keeperd: FakeKeeperd, host: ProgramHost, tmp_path: Path
) -> None:
    silent = calls.EtcdMemberView(name="etcd3", endpoint="http://10.0.0.3:2379", failure="no reply within 1 s")
    keeperd.view = attrs.evolve(VIEW, etcd=(silent,), alarms=("NOSPACE",))

    found = host.run("gnt-cluster", "--root", tmp_path / "r", "verify", "--output", "json")

    told = json.loads(found.out)
    assert found.code == 1
    assert [each.partition(";")[0] for each in told["mastership"]] == [
        "etcd has raised the alarm NOSPACE",
        "etcd's member 'etcd3' at http://10.0.0.3:2379 does not reply: no reply within 1 s",
    ]
    assert "etcd has one member" in told["notes"]["mastership"][-1]
