"""deploy/examples/failover: the programs do what keeperd expects, with stand-ins for what they call."""

import os
import subprocess
from pathlib import Path

import attrs
import pytest

EXAMPLES = Path(__file__).parents[3] / "deploy" / "examples" / "failover"
# prints its arguments to the log, then what the test wants
STAND_IN = """\
#!/bin/sh
echo "$(basename "$0") $*" >> "{log}"
{does}
"""


@attrs.frozen
class Place:
    folder: Path

    def stand_in(self, name: str, does: str) -> None:
        path = self.folder / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(STAND_IN.format(log=self.folder / "log", does=does))
        path.chmod(0o755)

    def settle(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def run(self, program: str, *words: str) -> "subprocess.CompletedProcess[str]":
        environment = {
            "PATH": f"{self.folder / 'bin'}:/usr/bin:/bin",
            "FENCE_FOLDER": str(self.folder),
            "FENCE_LIMIT": "0",
            "MASTER_ADDRESS_SETTINGS": str(self.folder / "master-address"),
        }
        return subprocess.run(
            [EXAMPLES / program, *words], env=environment, capture_output=True, text=True, timeout=30, check=False
        )

    @property
    def called(self) -> list[str]:
        path = self.folder / "log"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.settle("master-address", "ADDRESS=10.0.0.100/24\nDEVICE=eth0\n")
    place.settle("password", "secret\n")
    place.settle("node1.ipmi", f"HOST=10.0.9.1\nUSER=fence\nPASSWORD_FILE={tmp_path}/password\n")
    place.settle("node1.libvirt", "URI=qemu+ssh://host1/system\nDOMAIN=web1\n")
    place.stand_in("arping", "exit 1")
    return place


HAS_ADDRESS = 'case "$*" in *show*) echo "2: eth0    inet 10.0.0.100/24 scope global eth0";; esac'
HAS_OTHER = 'case "$*" in *show*) echo "2: eth0    inet 110.0.0.100/24 scope global eth0";; esac'


def test_the_address_goes_up_and_the_neighbours_hear_of_it(place: Place) -> None:
    place.stand_in("ip", "exit 0")

    assert place.run("master-address", "up").returncode == 0
    assert place.called == [
        "ip address replace 10.0.0.100/24 dev eth0",
        "arping -U -c 2 -w 2 -I eth0 10.0.0.100",
    ]


def test_the_address_goes_down_once(place: Place) -> None:
    place.stand_in("ip", HAS_ADDRESS)
    assert place.run("master-address", "down").returncode == 0
    assert place.called[-1] == "ip address del 10.0.0.100/24 dev eth0"

    # one that is not up is no failure, and no other one is taken for it
    place.stand_in("ip", HAS_OTHER)
    assert place.run("master-address", "down").returncode == 0
    assert place.called[-1] == "ip -o address show dev eth0"


@pytest.mark.parametrize("way", ["up", "down"])
def test_an_address_that_does_not_go_is_a_failure(place: Place, way: str) -> None:
    place.stand_in("ip", "exit 2")

    failed = place.run("master-address", way)

    assert failed.returncode == 1
    assert failed.stderr.endswith(f"10.0.0.100/24 was not brought {way} on eth0\n")


def test_an_address_of_ip6_is_used_at_once(place: Place) -> None:
    place.settle("master-address", "ADDRESS=fd00::100/64\nDEVICE=eth0\n")
    place.stand_in("ip", "exit 0")
    place.stand_in("ndsend", "exit 0")

    assert place.run("master-address", "up").returncode == 0
    assert place.called == ["ip address replace fd00::100/64 dev eth0 nodad", "ndsend fd00::100 eth0"]


@pytest.mark.parametrize(
    ("words", "settings", "told"),
    [
        ((), "", "usage: "),
        (("restart",), "", "usage: "),
        (("up",), "DEVICE=eth0\n", "write address and prefix, as in 10.0.0.100/24"),
        (("up",), "ADDRESS=10.0.0.100/24\n", "write a device, as in eth0"),
    ],
)
def test_wrong_words_and_settings_are_told(place: Place, words: tuple[str, ...], settings: str, told: str) -> None:
    place.settle("master-address", settings)
    place.stand_in("ip", "exit 0")

    refused = place.run("master-address", *words)

    assert refused.returncode == 2
    assert told in refused.stderr
    assert place.called == []


def test_a_machine_is_fenced_only_when_its_board_says_that_it_is_off(place: Place) -> None:
    place.stand_in("ipmitool", 'case "$*" in *status) echo "Chassis Power is off";; esac')
    assert place.run("fence-ipmi", "node1").returncode == 0
    board = f"ipmitool -I lanplus -H 10.0.9.1 -U fence -f {place.folder}/password chassis power"
    assert place.called == [f"{board} off", f"{board} status"]

    place.stand_in("ipmitool", 'case "$*" in *status) echo "Chassis Power is on";; esac')
    failed = place.run("fence-ipmi", "node1")
    assert failed.returncode == 1
    assert "'node1' is not off after 0 s" in failed.stderr


def test_a_machine_that_is_off_already_counts_as_fenced(place: Place) -> None:
    place.stand_in("ipmitool", 'case "$*" in *status) echo "Chassis Power is off";; *) exit 1;; esac')
    place.stand_in("virsh", 'case "$*" in *domstate*) echo "shut off";; *) exit 1;; esac')

    assert place.run("fence-ipmi", "node1").returncode == 0
    assert place.run("fence-libvirt", "node1").returncode == 0


def test_a_board_or_a_host_that_is_silent_is_no_word_that_the_machine_is_off(place: Place) -> None:
    place.stand_in("ipmitool", "exit 1")
    place.stand_in("virsh", "exit 1")

    assert place.run("fence-ipmi", "node1").returncode == 1
    assert place.run("fence-libvirt", "node1").returncode == 1


def test_a_virtual_machine_is_ended_and_looked_at(place: Place) -> None:
    place.stand_in("virsh", 'case "$*" in *domstate*) echo "shut off";; esac')
    assert place.run("fence-libvirt", "node1").returncode == 0
    virsh = "virsh --quiet --connect qemu+ssh://host1/system"
    assert place.called == [f"{virsh} destroy web1", f"{virsh} domstate web1"]

    place.stand_in("virsh", 'case "$*" in *domstate*) echo "running";; esac')
    assert place.run("fence-libvirt", "node1").returncode == 1


@pytest.mark.parametrize("program", ["fence-ipmi", "fence-libvirt"])
@pytest.mark.parametrize("words", [(), ("node2",), ("../node1",), ("/etc/passwd",), (".",)])
def test_an_agent_leaves_nodes_that_are_not_its_own_to_others(
    place: Place, program: str, words: tuple[str, ...]
) -> None:
    assert place.run(program, *words).returncode == 2
    assert place.called == []


@pytest.mark.parametrize("kind", ["ipmi", "libvirt"])
def test_settings_that_lack_something_fence_nobody(place: Place, kind: str) -> None:
    place.settle(f"node1.{kind}", "HOST=10.0.9.1\n")

    assert place.run(f"fence-{kind}", "node1").returncode == 1
    assert place.called == []


def test_ssh_is_no_fence_and_says_why() -> None:
    refused = subprocess.run([EXAMPLES / "fence-ssh", "node1"], capture_output=True, text=True, check=False)

    assert refused.returncode == 1
    assert "'node1' is not fenced: over ssh only a healthy machine can be reached" in refused.stderr


def test_all_programs_may_be_run() -> None:
    programs = [path for path in EXAMPLES.iterdir() if path.suffix != ".md"]

    assert len(programs) == 4
    assert all(os.access(path, os.X_OK) for path in programs)
