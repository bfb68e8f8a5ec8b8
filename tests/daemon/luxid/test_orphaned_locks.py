"""Orphaned locks are released by the words of real nodes, and claimed for a new master (DESIGN sections 13 and 14)."""

from collections.abc import Iterator

import pytest

from common.commands.spec import CommandSpec, Leave
from common.errors import RemoteError
from protocol.noded.commands import CommandPhase
from tests.support.machines.fleet import Fleet, FleetNode
from tests.support.machines.remotework import RemoteWork
from tests.support.wait import wait_until

# jobs that there never were: their opcodes are over
KEY = "900000.0.1"


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RemoteWork]:
    with Fleet(tmp_path_factory.mktemp("fleet"), 1) as fleet:
        fleet.start()
        fleet.master.start("luxid")
        yield RemoteWork(fleet)


@pytest.fixture
def node(work: RemoteWork) -> FleetNode:
    def has_looked() -> bool:
        return "nodes.swept" in work.fleet.master.log("luxid").rpartition("queue.read ")[2]

    # it would stop commands of the test, as their jobs are unknown
    wait_until(has_looked, what="the first look of a luxid that was just started is over")
    return work.fleet.nodes[0]


def until_laid(work: RemoteWork) -> None:
    wait_until(lambda: work.orphans() == {}, what="all orphaned locks are released", state=work.orphans)


def until_forgotten(work: RemoteWork, node: FleetNode, *keys: str) -> None:
    wait_until(lambda: not set(keys) & set(work.phases(node)), what="it is forgotten", state=lambda: work.phases(node))


def test_a_command_of_a_dead_job_is_stopped_before_its_locks_are_free(work: RemoteWork, node: FleetNode) -> None:
    work.start(node, KEY)

    work.orphan_locks(node, KEY, "instance/a")

    until_laid(work)
    until_forgotten(work, node, KEY)
    log = work.fleet.master.log("wconfd")
    assert 'word="node node2.test: its command has ended"' in log


def test_a_command_that_was_never_started_never_will_be(work: RemoteWork, node: FleetNode) -> None:
    key = "900001.0.1"

    work.orphan_locks(node, key, "instance/b")

    until_laid(work)
    assert work.phases(node)[key] is CommandPhase.VOID
    work.start(node, key)
    assert work.phases(node)[key] is CommandPhase.VOID


def test_locks_are_kept_while_the_node_is_away_and_freed_by_its_word(work: RemoteWork, node: FleetNode) -> None:
    key = "900002.0.1"
    work.start(node, key)
    node.kill()

    work.orphan_locks(node, key, "instance/c")

    wait_until(lambda: "orphaned_locks.node_silent" in work.fleet.master.log("luxid"), what="it is told")
    assert work.orphans() == {"job/900002": ["instance/c"]}
    node.start()
    until_laid(work)


def test_processes_left_on_purpose_keep_the_locks_until_a_user_ends_them(work: RemoteWork, node: FleetNode) -> None:
    key = "900003.0.1"
    left = CommandSpec(argv=("sleep 1000 &",), shell=True, leave=Leave.KEEP_LOCKS, grace_s=1.0)
    work.start(node, key, left)
    wait_until(lambda: work.phases(node)[key] is CommandPhase.KEPT, what="the program has ended")

    work.orphan_locks(node, key, "instance/d")

    # the locks of a later one are released, so that this one has had its round
    work.orphan_locks(node, "900004.0.1", "instance/e")
    wait_until(lambda: work.orphans() == {"job/900003": ["instance/d"]}, what="only it is left", state=work.orphans)
    assert work.phases(node)[key] is CommandPhase.KEPT
    is_done, text = work.kill(900003)
    assert is_done, text
    until_laid(work)


def test_a_job_on_a_node_that_there_is_not_is_refused_at_once(work: RemoteWork) -> None:
    op = {"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], "node": "node4"}

    with pytest.raises(RemoteError, match=r"opcode 1: there is no node 'node4'; did you mean 'node[12].test'"):
        work.fleet.master.submit(op)


def test_a_new_master_claims_locks_and_forgets_what_its_jobs_need_no_more(work: RemoteWork, node: FleetNode) -> None:
    """One job was to be killed, one goes on, and a command of an ended one still runs."""
    fleet = work.fleet
    fleet.master.kill("luxid")
    killed, left, ended = 11, 12, 13
    work.write_job(killed, node, locks={"instance/k": "exclusive"})
    fleet.master.paths.kill_message(killed).touch()
    work.write_job(left, node, locks={"instance/l": "exclusive"})
    for job_id in (killed, left, ended):
        work.start(node, f"{job_id}.0.1")

    fleet.master.start("luxid")

    assert fleet.master.wait(killed) == ["canceled"]
    wait_until(
        lambda: set(work.orphans()) == {"job/12"}, what="the locks of the killed are released", state=work.orphans
    )
    [locks] = work.orphans().values()
    uuid = fleet.nodes_by_name()[node.name]["uuid"]
    assert set(locks) == {"cluster/BGL", "instance/l", f"node/{uuid}"}
    assert fleet.master.status(left) == "running"
    until_forgotten(work, node, "11.0.1", "13.0.1")
    assert work.phases(node)["12.0.1"] is CommandPhase.RUNNING

    # tests come in any order: others wait until there is no orphan
    is_done, text = work.kill(left)
    assert is_done, text
    until_laid(work)


def test_a_command_ends_with_its_master_if_it_is_to_and_only_then(work: RemoteWork, node: FleetNode) -> None:
    master = work.fleet.master
    master.kill("luxid")
    work.write_job(21, node, on_failover="kill")
    work.start(node, "21.0.1")

    master.start("luxid")
    wait_until(lambda: "job/21" in work.orphans(), what="its locks are orphaned", state=work.orphans)
    assert master.status(21) == "running"

    for name in ("luxid", "noded"):
        master.kill(name)
    # as if this node had lost the mastership meanwhile, and got it back
    master.paths.epoch_file.write_text("2 node1.test\n")
    master.start("noded", "luxid")
    assert master.wait(21) == ["error"]
    wait_until(lambda: "job/21" not in work.orphans(), what="its locks are released", state=work.orphans)
    until_forgotten(work, node, "21.0.1")
    wait_until(lambda: master.paths.last_epoch.exists(), what="the epoch is noted")
    assert master.paths.last_epoch.read_text() == "2\n"
