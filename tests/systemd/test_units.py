"""What happens to a unit does not happen to jobs: twenty run meanwhile, each succeeds, and none runs twice."""

from collections.abc import Callable, Mapping
from typing import Final

import pytest

from tests.support.wait import wait_until
from tests.systemd.batch import Batch
from tests.systemd.engine import PATIENCE_S, Engine


def killed(engine: Engine, name: str) -> None:
    """Kill it; systemd starts it again."""
    pid, restarts = engine.pid(name), engine.restarts(name)
    engine.container.check(f"kill -9 {pid}")
    wait_until(lambda: engine.restarts(name) > restarts, what=f"the restart of {name}", timeout_s=PATIENCE_S)
    engine.until_active(name)
    assert engine.pid(name) != pid


def restarted(engine: Engine, name: str) -> None:
    pid = engine.pid(name)
    engine.container.check(f"systemctl restart gantry-{name}")
    assert engine.pid(name) != pid


def stopped_and_started(engine: Engine, name: str) -> None:
    engine.container.check(f"systemctl stop gantry-{name}")
    assert engine.container.shown(f"gantry-{name}", "ActiveState") == "inactive"
    engine.container.check(f"systemctl start gantry-{name}")


def reloaded(engine: Engine, name: str) -> None:
    """It goes on in the same process, with its log opened again; the fork server, with the code of now."""
    pid = engine.pid(name)
    engine.container.check(f"systemctl reload gantry-{name}")
    engine.until_active(name)
    assert engine.pid(name) == pid


_EVENTS: Final[Mapping[str, Callable[[Engine, str], None]]] = {
    event.__name__: event for event in (killed, restarted, stopped_and_started, reloaded)
}


@pytest.mark.parametrize("event", _EVENTS)
@pytest.mark.parametrize("name", ["wconfd", "forkserver", "luxid"])
def test_no_job_suffers_when_a_daemon_that_jobs_need_is(engine: Engine, name: str, event: str) -> None:
    batch = Batch(engine)
    batch.until_begun()

    _EVENTS[event](engine, name)

    batch.check_each_succeeds_once()


@pytest.mark.parametrize("name", ["noded", "rapid", "confd", "mond"])
def test_jobs_and_the_daemon_go_on_whatever_is_done_to(engine: Engine, name: str) -> None:
    batch = Batch(engine)
    batch.until_begun()

    for event in _EVENTS.values():
        event(engine, name)

    batch.check_each_succeeds_once()


def test_a_stop_of_the_target_leaves_jobs_running_and_a_start_finds_them(engine: Engine) -> None:
    batch = Batch(engine)
    batch.until_begun()

    engine.container.check("systemctl stop gantry.target")
    left = engine.container.check("ps -eo args | grep -o '^gantry-job [0-9]*' | sort -u").splitlines()
    engine.container.check("systemctl start gantry.target")

    assert {int(line.split()[1]) for line in left} == set(batch.ids)
    batch.check_each_succeeds_once()
