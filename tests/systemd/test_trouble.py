"""What an operator meets: a daemon that cannot start, a full disk, logs that are rotated."""

from collections.abc import Iterator

import pytest

from tests.support.wait import wait_until
from tests.systemd.batch import Batch
from tests.systemd.conftest import MakeContainer
from tests.systemd.engine import PATIENCE_S, Engine

_CONFIG = "/var/lib/gantry/config.data"


@pytest.fixture(scope="module")
def small(make_container: MakeContainer) -> Iterator[Engine]:
    """An installation on a small disk of its own; each test leaves it started."""
    with make_container() as container:
        container.check("mount -t tmpfs -o size=24M,mode=750,uid=gantry,gid=gantry tmpfs /var/lib/gantry")
        engine = Engine(container)
        engine.start()
        yield engine


def test_a_full_disk_refuses_submissions_with_words_and_stops_nothing(small: Engine) -> None:
    container = small.container
    before = small.job("--hold", "true")
    container.run("dd if=/dev/zero of=/var/lib/gantry/filler bs=4k")

    refused = container.run("gnt-job run -- true")

    assert refused.code == 1
    assert "space" in refused.output or "room" in refused.output, refused.output
    assert "Traceback" not in refused.output
    container.check("rm /var/lib/gantry/filler")
    small.until_active("wconfd", "forkserver", "luxid")
    container.check(f"gnt-job release {before}")
    after = small.job("", "true")
    assert set(small.until_ended([before, after]).values()) == {"success"}


def test_a_daemon_that_cannot_start_says_why_until_its_limit_is_reset(small: Engine) -> None:
    container = small.container
    limit = "/run/systemd/system/gantry-wconfd.service.d/limit.conf"
    # a loaded machine does not start it ten times in a minute
    container.write(limit, "[Unit]\nStartLimitIntervalSec=1h\nStartLimitBurst=3\n")
    container.check(f"systemctl daemon-reload; mv {_CONFIG} {_CONFIG}.away")

    container.check("systemctl restart --no-block gantry-wconfd")

    small.until("wconfd", "ActiveState", "failed")
    assert "there is no cluster configuration" in container.shown("gantry-wconfd", "StatusText")
    container.until_journal(
        "-u gantry-wconfd -p err GANTRY_EVENT=daemon.failed",
        lambda records: records and "there is no cluster configuration" in str(records[-1]["MESSAGE"]),
        what="the reason in the journal",
    )
    container.check("systemctl restart gantry-luxid")
    wait_until(
        lambda: "wconfd has not told the filter rules" in container.shown("gantry-luxid", "StatusText"),
        what="luxid to say what it lacks",
        timeout_s=PATIENCE_S,
        state=lambda: container.shown("gantry-luxid", "StatusText"),
    )
    container.check(f"mv {_CONFIG}.away {_CONFIG}; rm {limit}; systemctl daemon-reload")
    container.check("systemctl reset-failed gantry-wconfd; systemctl start gantry-wconfd")
    job = small.job("", "true")
    assert small.until_ended([job])[job] == "success"
    wait_until(
        lambda: container.shown("gantry-luxid", "StatusText") == "jobs start",
        what="luxid to say that jobs start",
        timeout_s=PATIENCE_S,
    )


def test_logs_go_on_in_new_files_after_logrotate(engine: Engine) -> None:
    container = engine.container
    batch = Batch(engine)
    batch.until_begun()

    container.check("logrotate --force /etc/logrotate.d/gantry")
    job = engine.job("--lock node/x", "true")
    engine.until_ended([job])

    batch.check_each_succeeds_once()
    kept = container.check("ls /var/log/gantry")
    assert "luxi-daemon.log.1" in kept
    assert f"job={job} " in container.check("cat /var/log/gantry/luxi-daemon.log") + container.check(
        "cat /var/log/gantry/jobs.log"
    )
    # those with users of their own go on in new files, too
    for name, log in (("rapid", "rapi-daemon"), ("confd", "conf-daemon"), ("mond", "monitoring-daemon")):
        log = f"/var/log/gantry-{name}/{log}.log"
        assert (
            container.check(f"stat --format '%U:%G %a' {log} {log}.1").splitlines() == [f"gantry-{name}:gantry 640"] * 2
        )
        assert container.check(f"readlink /proc/{engine.pid(name)}/fd/*").splitlines().count(log) == 1
