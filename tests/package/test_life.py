"""The package on one machine, from installation to purge; each test goes on where the one before ended."""

import re
from pathlib import Path

import pytest

from tests.package.conftest import NEW, OLD, PUT
from tests.support.wait import wait_until
from tests.systemd.batch import Batch
from tests.systemd.containers.container import Container
from tests.systemd.engine import PATIENCE_S, Engine

VERSIONS = "/opt/gantry/versions"


def install(machine: Container, version: str) -> str:
    """Install a package as its operator does, but without a terminal, so that a question about a file is an error."""
    said = machine.check(f"dpkg --install {PUT}/gantry_{version}.deb", limit_s=600)
    # a file of settings may differ
    assert machine.check("dpkg --verify gantry | grep -v ' c /etc/' || true") == ""
    assert machine.check("systemctl --failed --no-legend") == ""
    return said


def versions(machine: Container) -> list[str]:
    """The versions on the machine, without their digests."""
    return [name.split("-")[0] for name in machine.check(f"ls {VERSIONS}").split()]


def version_of(machine: Container, pid: int) -> str:
    """The version whose code a process runs."""
    found = re.search(rf"{VERSIONS}/([^-]+)-\w+/in-use", machine.check(f"cat /proc/{pid}/maps"))
    assert found is not None
    return found.group(1)


def job_pids(machine: Container) -> list[int]:
    return sorted(map(int, machine.check("pgrep --full '^gantry-job [0-9]+' || true").split()))


@pytest.fixture(scope="module")
def engine(machine: Container) -> Engine:
    return Engine(machine)


def test_an_installation_starts_nothing_and_makes_user_and_folders(machine: Container) -> None:
    install(machine, OLD)

    assert machine.run("systemctl --no-legend list-units 'gantry*'").output == ""
    owners = machine.check(
        "stat --format '%U:%G %a' /var/lib/gantry /run/gantry /var/log/gantry /etc/gantry/gantry.toml"
    )
    assert owners.splitlines() == ["gantry:gantry 750", "gantry:gantry 755", "gantry:gantry 750", "root:root 644"]
    assert machine.check("find /opt/gantry /usr/share/doc/gantry ! -user root -o -perm /022 ! -type l") == ""
    assert machine.check("gantry version").split() == ["gantry", OLD]


def test_what_the_package_needs_of_debian_is_named(machine: Container) -> None:
    """Each library that its files load is found."""
    missing = "find /opt/gantry/current/lib/ -name '*.so' -exec ldd {} + | grep 'not found'; test $? = 1"

    machine.check(missing)


def test_its_last_line_leads_to_a_first_job(machine: Container) -> None:
    said = machine.check(f"dpkg --install {PUT}/gantry_{OLD}.deb", limit_s=600).splitlines()
    command = said[-1].split("with: ")[1].replace("NAME", "demo")

    machine.check(command)

    assert machine.check("cd / && gnt-job run --wait -- id --user --name", limit_s=PATIENCE_S).split() == ["gantry"]


def test_pages_and_completion_are_where_programs_look(machine: Container) -> None:
    for page in ("gantry.1", "gnt-job.1", "gnt-job-run.1", "gantry.toml.5"):
        machine.check(f"zcat -f /usr/share/man/man{page[-1]}/{page}.gz | grep --quiet '^.TH'")
    script = "/usr/share/bash-completion/completions/gnt-job.bash"
    line = "COMP_WORDS=(gnt-job ca); COMP_CWORD=1; COMP_LINE='gnt-job ca'; COMP_POINT=10"
    asked = f". {script}; {line}; _gnt_job_completion gnt-job ca gnt-job; echo ${{COMPREPLY[*]}}"

    assert "cancel" in machine.check(f'bash -c "{asked.replace("$", chr(92) + "$")}"').split()


def test_no_command_notices_an_upgrade_or_a_downgrade(machine: Container, engine: Engine) -> None:
    machine.check("echo '# of the operator' >> /etc/gantry/gantry.toml")
    batch = Batch(engine, 50)
    batch.until_begun()
    processes = job_pids(machine)
    assert len(processes) >= 50

    for version, other in ((NEW, OLD), (OLD, NEW), (NEW, OLD)):
        install(machine, version)
        engine.until_active("wconfd", "forkserver", "luxid")
        for daemon in ("wconfd", "forkserver", "luxid"):
            assert version_of(machine, engine.pid(daemon)) == version
        assert job_pids(machine) == processes
        assert version_of(machine, processes[0]) == OLD
        assert OLD in versions(machine), f"jobs of {OLD} lost their files to {other}"
        # all places are taken: it waits
        machine.check("cd / && gnt-job run -- true")
    assert batch.ended() == {}

    batch.check_each_succeeds_once()
    assert "# of the operator" in machine.check("cat /etc/gantry/gantry.toml")


def test_a_version_goes_when_no_process_uses_it(machine: Container) -> None:
    wait_until(lambda: not job_pids(machine), what="the end of all jobs", timeout_s=PATIENCE_S)

    install(machine, NEW)

    assert versions(machine) == [NEW]


def test_a_damaged_file_is_found_and_mended(machine: Container) -> None:
    file = "/opt/gantry/current/lib/python3.11/site-packages/common/errors.py"
    machine.check(f"echo damaged >> {file}")
    assert "/site-packages/common/errors.py" in machine.run("dpkg --verify gantry").output

    install(machine, NEW)

    assert "damaged" not in machine.check(f"cat {file}")
    assert machine.check("gantry version").split() == ["gantry", NEW]


def test_ganeti_keeps_its_names(machine: Container, ganeti: tuple[Path, ...]) -> None:
    for package in ganeti:
        machine.put(package, PUT)

    # their dependencies are of no interest; a file that both packages have is an error of dpkg's
    machine.check(
        f"dpkg --unpack --force-depends {PUT}/ganeti*.deb && dpkg --triggers-only gantry; ls /usr/sbin/gnt-job"
    )

    assert machine.check("ls /usr/bin | grep ^gnt- || true") == ""
    assert machine.check("cd / && gantry job run --wait -- echo beside", limit_s=PATIENCE_S).split() == ["beside"]
    machine.check("dpkg --purge --force-all ganeti ganeti-3.0 ganeti-haskell-3.0 ganeti-htools-3.0")
    assert machine.check("cd / && gnt-job run --wait -- echo alone", limit_s=PATIENCE_S).split() == ["alone"]


def test_running_jobs_outlive_a_removal_and_their_ends_are_found(machine: Container, engine: Engine) -> None:
    batch = Batch(engine, 5)
    batch.until_begun()

    refused = machine.run("dpkg --purge gantry")
    assert refused.code != 0
    assert "nothing is removed or purged, because jobs still run" in refused.output
    machine.check("type gantry gnt-job && systemctl is-active gantry-luxid")
    said = machine.check("dpkg --remove gantry")

    assert "jobs still run" in said
    assert machine.run("systemctl --no-legend list-units --state=running 'gantry*'").output == ""
    assert machine.run("type gantry gnt-job").code != 0
    refused = machine.run("dpkg --purge gantry")
    assert refused.code != 0
    assert "nothing is purged" in refused.output
    machine.check("test -e /var/lib/gantry/config.data")
    batch.let_end()
    wait_until(lambda: not job_pids(machine), what="the end of all jobs", timeout_s=PATIENCE_S)
    said = install(machine, NEW)
    machine.check(said.splitlines()[-1].split("with: ")[1])
    batch.check_each_succeeds_once()


def test_a_purge_leaves_nothing_but_the_user(machine: Container) -> None:
    said = machine.check("dpkg --purge gantry")

    for folder in ("/var/lib/gantry", "/var/log/gantry", "/run/gantry"):
        assert folder in said
    # root's own state stays, and what systemd and dpkg note of packages
    others = ("/proc", "/srv", "/root", "/var/log/journal", "/var/lib/dpkg", "/var/lib/systemd")
    left = "find / -xdev -name '*gantry*'" + "".join(f" -not -path '{folder}/*'" for folder in others)
    found = machine.check(left).split()
    assert found == []
    assert machine.check("getent passwd gantry").startswith("gantry:")
