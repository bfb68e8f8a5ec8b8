"""What was seen of etcd and of masters, as tests with real keepers.

The table "What can be lost" is in `tests/daemon/lease/test_what_can_be_lost.py`, where the masters are played.
"""

import signal

from common.daemons import MASTER_DAEMONS
from common.lease.records import EtcdKeys
from tests.lease.work import Work
from tests.support.machines.etcdentries import entries
from tests.support.machines.leasefleet import Candidate
from tests.support.wait import wait_until


def until_no_master_here(candidate: Candidate) -> None:
    wait_until(
        lambda: not candidate.pids(*MASTER_DAEMONS),
        what=f"the daemons of the master have ended on {candidate.name}",
        state=lambda: candidate.pids(*MASTER_DAEMONS),
    )


def epoch_of_master(work: Work, above: int = 0) -> int:
    """Wait for a master, whose epoch exceeds this one; return its epoch."""
    # its time may pass meanwhile
    while (grant := work.fleet.until_master(above=above).grant()) is None:
        pass
    return grant.fence.epoch


def key_of_master(work: Work) -> str:
    """The record of whoever has won the last campaign, whether it serves or not; empty: nobody."""
    return entries(work.fleet.etcd, work.fleet.prefix).get(EtcdKeys(work.fleet.prefix).master, b"").decode()


def until_success(work: Work, epoch: int) -> None:
    """Submit a job until one succeeds.

    A mastership may be lost meanwhile, as an election of etcd may outlast the short lease of tests: only one after this
    epoch excuses a job that has failed.
    """
    while work.until_ended(work.submit()) != ["success"]:
        epoch = epoch_of_master(work, above=epoch)


def is_still(work: Work, master: Candidate, epoch: int) -> bool:
    """Whether this node, which had this epoch, is the master, or has lost that to a later one by now."""
    return work.fleet.until_master() is master or epoch_of_master(work) > epoch


def test_one_member_of_etcd_after_the_other_dies_and_work_goes_on(work: Work) -> None:
    for member in work.fleet.etcd.members:
        epoch = epoch_of_master(work)
        member.kill()
        until_success(work, epoch)
        member.restart()


def test_the_node_of_the_master_dies_and_another_one_goes_on(work: Work) -> None:
    old = work.fleet.until_master()
    running = work.submit(60.0)
    wait_until(lambda: work.has_run(running), what="the job runs")
    kept = work.submit()

    old.crash()
    new = work.fleet.until_master(besides=old)
    epoch = epoch_of_master(work)

    until_success(work, epoch)
    assert work.until_ended(running, kept)[0] == "error"
    old.up()
    work.fleet.until_same()
    assert is_still(work, new, epoch)


def test_a_take_over_whose_own_node_daemon_is_silent_is_left_to_another_node(work: Work) -> None:
    old = work.fleet.until_master()
    stuck, other = (each for each in work.fleet if each is not old)
    stuck.cut_from_nodes()
    other.signal(signal.SIGSTOP, "keeperd")

    old.crash()
    wait_until(lambda: stuck.name in key_of_master(work), what=f"{stuck.name} has the lease", timeout_s=90.0)
    other.signal(signal.SIGCONT, "keeperd")

    assert work.fleet.until_master(besides=old) is other
    assert not stuck.pids(*MASTER_DAEMONS)
    stuck.heal()
    old.up()


def test_a_command_on_a_node_outlives_the_master_and_its_job_succeeds(work: Work) -> None:
    old = work.fleet.until_master()
    node = next(each for each in work.fleet if each is not old)
    job_id = work.submit(8.0, node.name)
    wait_until(lambda: work.has_run(job_id), what="the command runs")

    old.crash()
    work.fleet.until_master(besides=old)

    assert work.until_ended(job_id) == ["success"]
    old.up()


def test_a_node_that_was_stopped_finds_another_master_when_it_goes_on(work: Work) -> None:
    old = work.fleet.until_master()
    running = work.submit(60.0)
    wait_until(lambda: work.has_run(running), what="the job runs")

    frozen = old.freeze()
    new = work.fleet.until_master(besides=old)
    epoch = epoch_of_master(work)
    until_success(work, epoch)
    old.thaw(frozen)

    until_no_master_here(old)
    assert work.until_ended(running) == ["error"]
    assert is_still(work, new, epoch)


def test_a_master_without_most_members_steps_down_and_acknowledges_nothing(work: Work) -> None:
    master = work.fleet.until_master()
    stopped = work.fleet.etcd.members[:2]
    for member in stopped:
        member.pause()
    try:
        until_no_master_here(master)
        assert work.fleet.master() is None
        # the node itself stays up: its daemon does, and its keeper
        assert master.pids("noded", "keeperd")
    finally:
        for member in stopped:
            member.resume()

    until_success(work, epoch_of_master(work))


def test_a_master_that_is_cut_off_from_etcd_steps_down_and_follows(work: Work) -> None:
    old = work.fleet.until_master()

    old.cut_from_etcd()
    new = work.fleet.until_master(besides=old)
    epoch = epoch_of_master(work)
    until_no_master_here(old)
    until_success(work, epoch)
    old.heal()

    work.fleet.until_same()
    assert is_still(work, new, epoch)


def test_a_keeper_that_is_killed_costs_no_acknowledged_job(work: Work) -> None:
    job_id = work.submit()
    epoch = epoch_of_master(work)

    work.fleet.until_master().signal(signal.SIGKILL, "keeperd")
    epoch = epoch_of_master(work, above=epoch)

    until_success(work, epoch)
    work.until_ended(job_id)


def test_a_keeper_that_is_stopped_does_not_prolong_its_mastership(work: Work) -> None:
    old = work.fleet.until_master()

    pids = old.signal(signal.SIGSTOP, "keeperd")
    new = work.fleet.until_master(besides=old)
    epoch = epoch_of_master(work)
    # by their own clock, nobody stops them
    until_no_master_here(old)
    for pid in pids:
        old.machine.thaw([pid])

    until_success(work, epoch)
    assert is_still(work, new, epoch)


def test_a_planned_move_fails_no_job(work: Work) -> None:
    old = work.fleet.until_master()
    node = next(each for each in work.fleet if each is not old)
    epoch = epoch_of_master(work)
    jobs = [work.submit(1.0), work.submit(1.0, node.name), work.submit()]

    done = old.gantry("cluster", "switchover", node.name)
    assert done.code == 0, done

    is_moved = work.fleet.until_master() is node
    states = work.until_ended(*jobs, work.submit())
    # an election of etcd may have cost a mastership besides
    assert (is_moved, states) == (True, ["success"] * 4) or epoch_of_master(work) > epoch + 1


def test_the_power_of_everything_fails_and_nothing_acknowledged_is_lost(work: Work) -> None:
    work.until_ended(work.submit(), work.submit())
    before = work.states()

    for member in work.fleet.etcd.members:
        member.kill()
    for each in work.fleet:
        each.crash()
    for member in work.fleet.etcd.members:
        member.spawn()
    for each in work.fleet:
        each.up()
    work.fleet.until_master()

    assert work.states() == before
    until_success(work, epoch_of_master(work))
