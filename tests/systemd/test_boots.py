"""The machine is started again, or loses its power, with jobs queued and running."""

from collections.abc import Callable, Iterator
from typing import Final

import pytest

from tests.systemd.batch import Batch
from tests.systemd.conftest import MakeContainer
from tests.systemd.container import Container
from tests.systemd.engine import Engine

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


# a shutdown sends SIGTERM to job processes, which take it for a request to cancel
@pytest.mark.parametrize(
    ("start_again", "end"),
    [(Container.reboot, "canceled"), (_cut, "error")],
    ids=["a_reboot", "a_power_cut"],
)
def test_queued_jobs_run_and_running_ones_are_told_as_ended_by(
    machine: Engine, start_again: Callable[[Container], None], end: str
) -> None:
    batch = Batch(machine, 8)
    batch.until_begun(_RUNNING)
    running = set(batch.begun())

    start_again(machine.container)

    batch.let_end()
    states = machine.until_ended(batch.ids)
    assert {job for job, state in states.items() if state == end} == running
    assert {states[job] for job in set(batch.ids) - running} == {"success"}
    assert set(batch.begun().values()) == {1}


def test_a_job_is_still_there_when_power_is_cut_right_after_it_was_acknowledged(machine: Engine) -> None:
    container = machine.container
    acknowledged = [machine.job("--hold", "true") for _ in range(5)]

    _cut(container)

    machine.until_active("luxid")
    assert set(acknowledged) <= {int(job["id"]) for job in machine.jobs()}
    container.check(f"gnt-job release {' '.join(map(str, acknowledged))}")
    assert set(machine.until_ended(acknowledged).values()) == {"success"}
