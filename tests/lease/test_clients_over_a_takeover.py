"""What clients see when the master dies under them (DESIGN section 14)."""

from cli.exitcodes import DONE
from protocol.luxi.queue import DeleteFilter, ReplaceFilter
from tests.cli.command import Background, run
from tests.lease.work import Work
from tests.support.wait import wait_until

_PATIENCE_S = 90.0
_COMMANDS = (["opcode", ["=", "OP_ID", "OP_RUN_COMMAND"]],)


def test_a_pause_holds_on_the_next_master_and_a_waiting_client_is_told_of_the_move(work: Work) -> None:
    old = work.fleet.until_master()
    rule = work.follower.luxi(ReplaceFilter(None, 0, _COMMANDS, "PAUSE", ()), _PATIENCE_S).value
    held = work.submit()
    with Background("gnt-job", "--root", old.cluster.root, "wait", held) as waiting:
        old.cut_from_etcd()
        new = work.fleet.until_master(besides=old)
        ended = waiting.end()

    assert ended.code != DONE
    assert "this node is not the master" in ended.err
    assert "'gantry cluster' tells who is" in ended.err
    old.heal()
    work.fleet.until_fit()
    new.crash()
    work.fleet.until_master(besides=new)
    # a job that came later than the rule is held, too
    later = work.submit()
    assert (work.states()[held], work.states()[later]) == ("queued", "queued")
    assert not work.has_run(held)
    work.follower.luxi(DeleteFilter(rule), _PATIENCE_S)

    assert work.until_ended(held, later) == ["success", "success"]
    new.up()
    work.fleet.until_same()


def test_a_kill_that_was_acknowledged_is_carried_out_although_the_master_dies(work: Work) -> None:
    old = work.fleet.until_master()
    node = next(each for each in work.fleet if each is not old)
    job_id = work.submit(30.0, node.name)
    wait_until(lambda: work.has_run(job_id), what="the command runs")

    asked = run("gnt-job", "--root", old.cluster.root, "cancel", "--kill", job_id)
    old.crash()
    work.fleet.until_master(besides=old)

    (state,) = work.until_ended(job_id)
    # a client that was not told so may find the whole command done
    assert asked.code != DONE or state in ("canceled", "error")
    old.up()
