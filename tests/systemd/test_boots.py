"""The machine is started again, or loses its power, with jobs queued and running."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

import pytest

from tests.support.wait import wait_until
from tests.systemd.batch import Batch
from tests.systemd.conftest import MakeContainer
from tests.systemd.containers.container import Container
from tests.systemd.engine import LEDGER, PATIENCE_S, Engine

_RUNNING: Final = 3


@pytest.fixture(scope="module")
def machine(make_container: MakeContainer) -> Iterator[Engine]:
    """An installation on which few jobs run at once; each test leaves it started and without jobs."""
    with make_container() as container:
        engine = Engine(container)
        engine.start()
        container.check(f"gnt-cluster modify --max-running-jobs {_RUNNING}")
        yield engine


def _cut(container: Container) -> None:
    container.cut_power()
    container.boot()


@pytest.mark.parametrize(
    ("start_again", "why"),
    [
        (Container.reboot, "the machine was shut down while the job ran"),
        (_cut, "died before the job ended"),
    ],
    ids=["a_reboot", "a_power_cut"],
)
def test_queued_jobs_run_and_running_ones_are_told_as_ended_by(
    machine: Engine, start_again: Callable[[Container], None], why: str
) -> None:
    batch = Batch(machine, 8)
    batch.until_begun(_RUNNING)
    running = set(batch.begun())

    start_again(machine.container)

    batch.let_end()
    states = machine.until_ended(batch.ids)
    assert {job for job, state in states.items() if state == "error"} == running
    for job in running:
        assert why in machine.info(job)
    assert {states[job] for job in set(batch.ids) - running} == {"success"}
    assert set(batch.begun().values()) == {1}


def test_a_command_that_may_be_run_again_is_after_a_reboot_and_one_that_waited_for_a_lock_loses_nothing(
    machine: Engine,
) -> None:
    container = machine.container
    place = container.check(f"mktemp -d {LEDGER}/XXXXXX; chmod 1777 {LEDGER}/*").split()[0]
    script = f"echo $GANTRY_JOB_ID >> {place}/begun; [ $GANTRY_TRY = 2 ] || exec sleep 900"
    again = machine.job("--cwd / --rerunnable --lock node-res/x --shell", f"'{script}'")
    wait_until(lambda: container.run(f"test -s {place}/begun").code == 0, what="the command runs", timeout_s=PATIENCE_S)
    waiting = machine.job("--cwd / --lock node-res/x --shell", f"'echo $GANTRY_JOB_ID >> {place}/begun'")

    container.reboot()

    assert machine.until_ended([again, waiting]) == {again: "success", waiting: "success"}
    # the lost try is followed by a pause, in which the other one may have the lock
    assert Counter(map(int, container.check(f"cat {place}/begun").split())) == {again: 2, waiting: 1}


def test_a_job_whose_command_runs_on_a_node_does_not_hold_up_a_shutdown(make_container: MakeContainer) -> None:
    """The node is the machine itself: its node daemon ends the command, and the job hears nothing more of it."""
    with make_container() as container:
        container.write("/etc/gantry/gantry.toml", '[cluster]\nreplication = "nodes"\n')
        # at the end systemd waits so long for processes that are left: longer than the test does
        container.write("/etc/systemd/system.conf.d/patience.conf", "[Manager]\nDefaultTimeoutStopSec=900s\n")
        container.check("systemctl daemon-reexec")
        engine = Engine(container)
        engine.start()
        engine.until_active("luxid", "noded")
        node = container.check("gnt-node list --no-headers -o name").strip()
        begun = f"{LEDGER}/begun"
        engine.job(f"--node {node} --cwd / --shell", f"'touch {begun}; exec sleep 900'")
        wait_until(lambda: container.run(f"test -e {begun}").code == 0, what="the command runs", timeout_s=PATIENCE_S)

        container.reboot()

        engine.until_active("luxid")


def test_a_command_waits_for_a_killed_luxid_and_not_for_a_stopped_one(machine: Engine) -> None:
    container = machine.container
    machine.until_active("luxid")

    def is_listed(user: str | None) -> bool:
        """A command waits for ten seconds, in which a loaded machine may not have started it."""
        ended = container.run("gnt-job list", user=user)
        assert ended.code == 0 or "is being restarted" in ended.output, ended
        return ended.code == 0

    for user in (None, "gantry"):
        container.check(f"kill -9 {machine.pid('luxid')}")
        wait_until(lambda as_whom=user: is_listed(as_whom), what="the jobs to be listed", timeout_s=PATIENCE_S)  # type: ignore[misc]
    container.check("systemctl stop gantry-luxid")
    ended = container.run("gnt-job list")
    container.check("systemctl start gantry-luxid")

    assert (ended.code, ended.output) == (
        3,
        "error: luxid is not running; start it with: systemctl enable --now gantry.target\n",
    )


def test_a_job_is_still_there_when_power_is_cut_right_after_it_was_acknowledged(machine: Engine) -> None:
    container = machine.container
    acknowledged = [machine.job("--hold", "true") for _ in range(5)]

    _cut(container)

    machine.until_active("luxid")
    assert set(acknowledged) <= {int(job["id"]) for job in machine.jobs()}
    container.check(f"gnt-job release {' '.join(map(str, acknowledged))}")
    assert set(machine.until_ended(acknowledged).values()) == {"success"}
