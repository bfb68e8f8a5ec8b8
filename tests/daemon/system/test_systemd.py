"""deploy/systemd: the tools of systemd accept the units and make the user and the folders."""

import os
import re
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from common.daemons import DAEMONS, MASTER_DAEMONS, Daemon
from common.paths import Paths
from common.settings import Settings
from common.system.program import NOT_MASTER
from daemons.supervisor.core.restarts import READY_TIMEOUT_S
from protocol.noded.clients.voting import LIMIT_S, PAUSE_S, REPEATS

DEPLOY = Path(__file__).parents[3] / "deploy" / "systemd"
UNITS = sorted(path for kind in ("service", "socket", "target", "path") for path in DEPLOY.glob(f"*.{kind}"))
PROGRAMS = {
    "gantry-luxid",
    "gantry-wconfd",
    "gantry-forkserver",
    "gantry-noded",
    "gantry-keeperd",
    "gantry-rapid",
    "gantry-confd",
    "gantry-mond",
    "gantry-launcher",
}

pytestmark = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd's tools are not installed")


def run(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_systemd_accepts_every_unit_without_a_word(tmp_path: Path) -> None:
    # verify wants the programs to exist; it does not run them
    for unit in UNITS:
        text = re.sub(r"/opt/gantry/bin/[\w-]+", "/bin/true", unit.read_text())
        (tmp_path / unit.name).write_text(text)

    said = run("systemd-analyze", "verify", "--man=no", *sorted(tmp_path.iterdir()))

    assert [line for line in said.splitlines() if "gantry" in line] == []


def test_every_daemon_has_a_unit_that_starts_its_program() -> None:
    started = {
        re.search(r"^ExecStart=/opt/gantry/bin/([\w-]+)$", unit.read_text(), re.M) for unit in DEPLOY.glob("*.service")
    }

    assert {match.group(1) for match in started if match} == PROGRAMS


def directive(unit: str, name: str) -> list[str]:
    """The values of a directive in a unit."""
    return re.findall(rf"^{name}=(.*)$", (DEPLOY / unit).read_text(), re.M)


@pytest.mark.parametrize("daemon", MASTER_DAEMONS)
def test_a_daemon_of_the_master_that_finds_another_master_is_not_started_again(daemon: str) -> None:
    unit = f"gantry-{daemon}.service"

    assert directive(unit, "RestartPreventExitStatus") == directive(unit, "SuccessExitStatus") == [str(NOT_MASTER)]
    assert directive("gantry-master.service", "ExecStart")[-1].split()[-3:].count(unit) == 1


@pytest.mark.parametrize("daemon", ["wconfd", "luxid"])
def test_a_daemon_of_the_master_may_ask_all_nodes_as_often_as_it_wants(daemon: str) -> None:
    unit = f"gantry-{daemon}.service"

    assert float(directive(unit, "TimeoutStartSec")[0]) > (REPEATS + 1) * LIMIT_S + REPEATS * PAUSE_S
    assert READY_TIMEOUT_S > (REPEATS + 1) * LIMIT_S + REPEATS * PAUSE_S
    assert directive(unit, "RestrictAddressFamilies") == ["AF_UNIX AF_INET AF_INET6"]


def test_systemd_waits_for_the_file_by_which_noded_asks_for_the_daemons_of_the_master() -> None:
    watched = directive("gantry-master.path", "PathChanged")

    assert watched == [str(Settings(Paths(Path("/d"), Path("/run/gantry"), Path("/l"))).paths.start_request)]
    assert "gantry-master.path" in directive("gantry.target", "Wants")[0].split()
    # what else confines noded to some folders would confine the commands that it starts
    assert directive("gantry-noded.service", "ProtectSystem") == []


def test_keeperd_goes_before_jobs_and_is_never_swapped_out() -> None:
    unit = "gantry-keeperd.service"

    assert directive(unit, "LimitMEMLOCK") == ["infinity"]
    assert int(directive(unit, "Nice")[0]) < 0
    assert int(directive(unit, "OOMScoreAdjust")[0]) < -500
    # the time for its work under way, when it is told to end, is 20 s
    assert float(directive(unit, "TimeoutStopSec")[0]) > 20


@pytest.mark.parametrize("unit", ["gantry-forkserver.service", "gantry-noded.service", "gantry-launcher.service"])
def test_commands_survive_the_stop_of_the_service_that_started_them(unit: str) -> None:
    assert (directive(unit, "KillMode"), directive(unit, "SendSIGKILL")) == (["process"], ["no"])
    assert directive(unit, "Delegate") == ["yes"]
    for restriction in ("NoNewPrivileges", "ProtectHome", "PrivateTmp", "CapabilityBoundingSet"):
        assert directive(unit, restriction) == []


def test_jobs_outlive_a_stop_of_their_parent() -> None:
    text = (DEPLOY / "gantry-forkserver.service").read_text()

    assert "\nKillMode=process\n" in text
    assert "\nSendSIGKILL=no\n" in text


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make users and give away folders")
def test_the_user_and_the_folders_are_made(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()

    run("systemd-sysusers", f"--root={tmp_path}", DEPLOY / "gantry.sysusers.conf")
    run("systemd-tmpfiles", "--create", f"--root={tmp_path}", DEPLOY / "gantry.tmpfiles.conf")

    uid = int(re.search(r"^gantry:[^:]*:(\d+):", (tmp_path / "etc/passwd").read_text(), re.M).group(1))  # type: ignore[union-attr]
    for folder, mode in (("var/lib/gantry", 0o750), ("run/gantry", 0o755), ("var/log/gantry", 0o750)):
        status = (tmp_path / folder).stat()
        assert (stat.S_IMODE(status.st_mode), status.st_uid) == (mode, uid)
    # what rapid reads is not rapid's
    status = (tmp_path / "var/lib/gantry/rapi").stat()
    assert (stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid != uid) == (0o2750, uid, True)


@pytest.mark.parametrize("daemon", [daemon for daemon in DAEMONS if daemon.user], ids=lambda daemon: daemon.name)
def test_a_daemon_of_the_network_has_a_user_and_folders_of_its_own(daemon: Daemon) -> None:
    unit = f"gantry-{daemon.name}.service"

    assert (directive(unit, "User"), directive(unit, "Group")) == ([daemon.user], ["gantry"])
    assert directive(unit, "RuntimeDirectory") == directive(unit, "LogsDirectory") == [f"gantry-{daemon.name}"]
    assert re.search(rf"^u {daemon.user} ", (DEPLOY / "gantry.sysusers.conf").read_text(), re.M)
    assert f"su {daemon.user} gantry" in (DEPLOY.parent / "logrotate" / "gantry").read_text()
    # the group is for reading, and not for all that it could read
    assert directive(unit, "ReadWritePaths") == []
    hidden = " ".join(directive(unit, "InaccessiblePaths")).split()
    paths = Paths(Path("/var/lib/gantry"), Path("/run/gantry"), Path("/var/log/gantry"))
    jobs = {paths.queue, paths.output, paths.job_logs, paths.waits, paths.submissions, paths.damaged, paths.livelocks}
    assert {f"-{path}" for path in jobs} <= set(hidden)
    # a folder that is not there when the daemon starts is not hidden later
    made = re.findall(r"^d (\S+) ", (DEPLOY / "gantry.tmpfiles.conf").read_text(), re.M)
    assert set(hidden) - {f"-{path}" for path in made} == {f"-{paths.set_aside}"}
    assert (f"-{paths.rapi}" in hidden) == (daemon.name != "rapid")


def test_a_job_that_takes_too_much_memory_does_not_end_the_daemons() -> None:
    text = (DEPLOY / "gantry-forkserver.service").read_text()

    assert "\nOOMPolicy=continue\n" in text
    assert "\nTasksMax=" in text
    assert "\nMemoryMax=" in text


@pytest.mark.skipif(shutil.which("logrotate") is None, reason="logrotate is not installed")
def test_logrotate_accepts_the_rules(tmp_path: Path) -> None:
    rules = tmp_path / "gantry"
    # the users of an installed package are not here
    rules.write_text(
        re.sub(r"gantry(-\w+)? gantry$", "root root", (DEPLOY.parent / "logrotate/gantry").read_text(), flags=re.M)
    )

    said = run("logrotate", "--debug", "--state", tmp_path / "state", rules)

    assert "error" not in said
