"""What systemd sees of the daemons: signs of life, and their logs."""

from typing import Final

import pytest

from tests.support.wait import wait_until
from tests.systemd.batch import Batch
from tests.systemd.engine import PATIENCE_S, Engine

# seconds; as short as a loaded machine allows, instead of the minute that the units have
_SHORT: Final = "[Service]\nWatchdogSec=5\n"


@pytest.mark.parametrize("name", ["wconfd", "forkserver", "luxid", "noded", "rapid", "confd", "mond"])
def test_a_hung_daemon_is_restarted_while_jobs_run(engine: Engine, name: str) -> None:
    drop_in = f"/run/systemd/system/gantry-{name}.service.d/watchdog.conf"
    engine.container.write(drop_in, _SHORT)
    engine.container.check(f"systemctl daemon-reload; systemctl restart gantry-{name}")
    batch = Batch(engine)
    batch.until_begun()
    restarts = engine.restarts(name)

    engine.container.check(f"kill -STOP {engine.pid(name)}")
    wait_until(lambda: engine.restarts(name) > restarts, what=f"the restart of {name}", timeout_s=PATIENCE_S)

    engine.until_active(name)
    batch.check_each_succeeds_once()
    engine.container.check(f"rm {drop_in}; systemctl daemon-reload; systemctl restart gantry-{name}")


def test_the_journal_tells_the_life_of_a_job_by_its_field(engine: Engine) -> None:
    job = engine.job("--wait --lock node/x", "true")

    records = engine.container.journal(f"GANTRY_JOB={job}")

    assert {str(record["SYSLOG_IDENTIFIER"]) for record in records} >= {"gantry-luxid", "gantry-job"}
    assert {record["_SYSTEMD_UNIT"] for record in records} == {"gantry-luxid.service", "gantry-forkserver.service"}
    assert all(record["GANTRY_EVENT"] and record["PRIORITY"] for record in records)


def test_the_journal_tells_problems_by_their_priority(engine: Engine) -> None:
    engine.container.check(f"kill -USR1 {engine.pid('luxid')}")

    choice = "-u gantry-luxid -p warning -t gantry-luxid"

    def warnings() -> set[object]:
        return {record["GANTRY_EVENT"] for record in engine.container.journal(choice)}

    wait_until(lambda: "signal.ignored" in warnings(), what="the warning in the journal")
    assert "queue.read" not in warnings()
