"""What one command takes does not take the machine from the others."""

from typing import Final

from tests.systemd.batch import Batch
from tests.systemd.engine import Engine

_EAT: Final = "python3 -c 'x = bytearray(900 << 20); print(len(x))'"


def test_a_command_is_in_a_group_below_the_service_that_systemd_gave_away(engine: Engine) -> None:
    groups = engine.container.check("gnt-job run --wait -- cat /proc/self/cgroup")

    assert "gantry-forkserver.service/gantry-" in groups
    assert ".cg" in groups


def test_a_job_that_takes_all_memory_of_the_service_ends_alone(engine: Engine) -> None:
    drop_in = "/run/systemd/system/gantry-forkserver.service.d/memory.conf"
    engine.container.write(drop_in, "[Service]\nMemoryMax=400M\n")
    engine.container.check("systemctl daemon-reload; systemctl restart gantry-forkserver")
    batch, server = Batch(engine), engine.pid("forkserver")
    batch.until_begun()

    glutton = Glutton(engine)

    assert glutton.state == "error"
    assert "memory" in glutton.info, glutton.info
    assert engine.pid("forkserver") == server
    batch.check_each_succeeds_once()
    engine.container.check(f"rm {drop_in}; systemctl daemon-reload; systemctl restart gantry-forkserver")


class Glutton:
    """A job that wants more memory than there is, and has ended."""

    def __init__(self, engine: Engine, options: str = "") -> None:
        # a slot of its own, whatever else runs
        job = engine.job(f"--priority high {options}", _EAT)
        self.state = engine.until_ended([job])[job]
        self.info = engine.info(job)


def test_a_command_has_the_limits_that_were_asked_for(engine: Engine) -> None:
    run = "gnt-job run --wait {} -- sh -c 'nice; ulimit -n'"
    before = engine.container.check(run.format("")).split()

    after = engine.container.check(run.format("--nice 7 --ulimit nofile=77")).split()

    assert after == [str(int(before[0]) + 7), "77"]


def test_a_command_ends_at_its_memory_limit_and_says_so(engine: Engine) -> None:
    glutton = Glutton(engine, "--memory 64M")

    assert glutton.state == "error"
    assert "memory" in glutton.info.lower()
