"""From nothing to the first job, to the next version, to an instance of an ordinary user: by the words of README."""

import shlex
from typing import Final

import pytest

from tests.support.wait import wait_until
from tests.systemd.batch import Batch
from tests.systemd.conftest import ALL
from tests.systemd.containers.container import Container
from tests.systemd.containers.tree import PACKAGE
from tests.systemd.engine import PATIENCE_S, Engine
from tests.systemd.nextversion import NAME, upgrade


def test_a_bare_debian_runs_its_first_job_after_three_commands(bare: Container) -> None:
    bare.check(f"dpkg -i /{PACKAGE}")
    bare.check("runuser -u gantry -- gantry cluster init demo")
    bare.check("systemctl enable --now gantry.target")

    assert bare.check("gnt-job run --wait -- echo hello").splitlines()[-1] == "hello"


def test_no_job_fails_when_the_package_is_upgraded_under_fifty(fresh: Container) -> None:
    engine = Engine(fresh)
    engine.start()
    fresh.check("gnt-cluster modify --max-running-jobs 50")
    batch = Batch(engine, 50)
    batch.until_begun()
    before = {name: engine.pid(name) for name in ("wconfd", "forkserver", "luxid")}

    upgrade(fresh)

    engine.until_active(*before)
    for name, pid in before.items():
        assert engine.pid(name) != pid
        assert f"/versions/{NAME}/" in fresh.check(f"cat /proc/{engine.pid(name)}/maps")
    batch.check_each_succeeds_once()


# what an earlier version left: rapid, confd and mond ran as gantry, with all files gantry's
_EARLIER: Final = """set -e
systemctl stop gantry-rapid gantry-confd gantry-mond
for name in rapid confd mond; do
  folder=/run/systemd/system/gantry-$name.service.d
  mkdir -p $folder
  cat > $folder/earlier.conf << EOF
[Service]
User=gantry
SupplementaryGroups=
ExecStartPre=
RuntimeDirectory=
LogsDirectory=
InaccessiblePaths=
ReadWritePaths=/var/lib/gantry /run/gantry /var/log/gantry
EOF
  rm -rf /var/log/gantry-$name /run/gantry-$name
done
cd /var/lib/gantry
chown gantry:gantry rapi rapi/* rapi.pem
chmod 0750 rapi
chmod 0600 rapi/tokens
chmod 0440 rapi.pem server.pem client.pem
systemctl daemon-reload
systemctl start gantry-rapid gantry-confd gantry-mond
rm -r /run/systemd/system/gantry-*.service.d"""
_ASK: Final = """
import ssl, sys, urllib.request
trusted = ssl.create_default_context(cafile="/root/before.pem")
asked = urllib.request.Request("https://127.0.0.1:5080/3/jobs", headers={"Authorization": f"Bearer {sys.argv[1]}"})
print(urllib.request.urlopen(asked, context=trusted).status)
"""


def test_an_upgrade_gives_the_daemons_of_the_network_users_of_their_own(fresh: Container) -> None:
    """The certificate and the tokens stay good."""
    apart = ("rapid", "confd", "mond")
    fresh.write("/etc/gantry/gantry.toml", ALL)
    engine = Engine(fresh)
    engine.start()
    token = fresh.check("gantry token create --for ci --rights jobs.read 2>/dev/null").strip()
    fresh.check(_EARLIER)
    engine.until_active(*apart)
    users = [fresh.check(f"ps -o user:20= -p {engine.pid(name)}").strip() for name in apart]
    fresh.check("cp /var/lib/gantry/rapi.pem /root/before.pem")

    upgrade(fresh)
    engine.until_active(*apart)

    assert users == ["gantry"] * 3
    for name in apart:
        assert fresh.check(f"ps -o user:20= -p {engine.pid(name)}").strip() == f"gantry-{name}"
    assert fresh.check(shlex.join(("python3", "-c", _ASK, token))).strip() == "200"
    names = "rapi rapi/tokens rapi.pem server.pem client.pem"
    assert fresh.check(f"cd /var/lib/gantry; stat --format '%U:%G %a' {names}").splitlines() == [
        "gantry:gantry-rapid 2750",
        "gantry:gantry-rapid 640",
        "gantry:gantry-rapid 440",
        "gantry:gantry 400",
        "gantry:gantry 400",
    ]
    assert fresh.check("gantry status --output json")


@pytest.fixture
def alice(fresh: Container) -> Container:
    """A machine with a user whose systemd runs."""
    fresh.check("useradd --create-home alice; loginctl enable-linger alice")
    is_up = "systemctl is-active user@$(id -u alice).service"
    wait_until(lambda: fresh.run(is_up).code == 0, what="the systemd of alice", timeout_s=PATIENCE_S)
    return fresh


def test_an_ordinary_user_has_an_instance_of_systemd_for_the_own_jobs(alice: Container) -> None:
    root = "export GANTRY_ROOT=~/.local/share/gantry; "
    alice.check(f"{root} gantry cluster init mine", user="alice")
    alice.check("systemctl --user enable --now gantry.target", user="alice")

    said = alice.check(f"{root} gnt-job run --wait -- id -un", user="alice")
    pid = alice.check("systemctl --user show --value -p MainPID gantry-luxid", user="alice").strip()
    alice.check(f"kill -9 {pid}")
    wait_until(lambda: _is_again(alice, pid), what="the next luxid", timeout_s=PATIENCE_S)

    assert said.splitlines()[-1] == "alice"
    alice.check(f"{root} gnt-job run --wait -- true", user="alice")
    assert alice.shown("gantry.target", "ActiveState") == "inactive"


def _is_again(alice: Container, pid: str) -> bool:
    """Whether the user's luxid is active with another process; asked at once, so that both are of one moment."""
    shown = alice.check("systemctl --user show -p ActiveState -p MainPID gantry-luxid", user="alice").split()
    return "ActiveState=active" in shown and not {f"MainPID={pid}", "MainPID=0"}.intersection(shown)
