"""What systemd sees of the daemons: signs of life, and their logs."""

from collections.abc import Mapping, Sequence
from typing import Final

import pytest

from tests.support.wait import wait_until
from tests.systemd.batch import Batch
from tests.systemd.engine import PATIENCE_S, Engine

# as short as a loaded machine allows, instead of the minute that the units have
_SHORT: Final = "[Service]\nWatchdogSec=10\n"


@pytest.mark.parametrize(
    "names",
    [("wconfd",), ("forkserver",), ("luxid",), ("noded", "rapid", "confd", "mond")],
    ids=lambda names: "-".join(names),
)
def test_hung_daemons_are_restarted_while_jobs_run(engine: Engine, names: Sequence[str]) -> None:
    drop_ins = [f"/run/systemd/system/gantry-{name}.service.d/watchdog.conf" for name in names]
    for drop_in in drop_ins:
        engine.container.write(drop_in, _SHORT)
    units = " ".join(f"gantry-{name}" for name in names)
    engine.container.check(f"systemctl daemon-reload; systemctl restart {units}")
    batch = Batch(engine)
    batch.until_begun()
    restarts = {name: engine.restarts(name) for name in names}

    engine.container.check(f"kill -STOP {' '.join(str(engine.pid(name)) for name in names)}")

    wait_until(
        lambda: all(engine.restarts(name) > before for name, before in restarts.items()),
        what=f"the restart of {units}",
        timeout_s=PATIENCE_S,
    )
    engine.until_active(*names)
    batch.check_each_succeeds_once()
    engine.container.check(f"rm {' '.join(drop_ins)}; systemctl daemon-reload; systemctl restart {units}")


def test_the_journal_tells_the_life_of_a_job_by_its_field(engine: Engine) -> None:
    units: set[object] = set()

    def are_units_named() -> bool:
        # long enough for journald to look at its process while that lives
        job = engine.job("--lock node/x", "sleep 1")
        engine.until_ended([job])
        engine.container.until_journal(
            f"GANTRY_JOB={job}",
            lambda records: {record["SYSLOG_IDENTIFIER"] for record in records} >= {"gantry-luxid", "gantry-job"},
            what="what luxid and the job say in the journal",
        )
        records = engine.container.journal(f"GANTRY_JOB={job}")
        assert all(record["GANTRY_EVENT"] and record["PRIORITY"] for record in records)
        # journald names no unit of a process that ended before its line was read
        units.update(record["_SYSTEMD_UNIT"] for record in records if "_SYSTEMD_UNIT" in record)
        return len(units) >= 2

    wait_until(are_units_named, what="journald to be in time", timeout_s=PATIENCE_S, state=lambda: units)
    assert units == {"gantry-luxid.service", "gantry-forkserver.service"}


def test_the_journal_tells_problems_by_their_priority(engine: Engine) -> None:
    engine.container.check(f"kill -USR1 {engine.pid('luxid')}")

    choice = "-u gantry-luxid -p warning -t gantry-luxid"

    def events(records: Sequence[Mapping[str, object]]) -> set[object]:
        return {record["GANTRY_EVENT"] for record in records}

    engine.container.until_journal(choice, lambda records: "signal.ignored" in events(records), what="the warning")
    assert "queue.read" not in events(engine.container.journal(choice))
