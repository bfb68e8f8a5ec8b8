"""The restrictions of the units refuse what they should, tried from inside: a copy of each unit runs a probe.

The copy has every line of the unit but those about its start, and runs as root, so that nothing but the restrictions
refuses. What a process without restrictions may not do in this container either is not counted.
"""

import json
import re
from collections.abc import Mapping
from typing import Final

import pytest

from tests.systemd.engine import Engine

# lines of a unit that do not restrict its processes
_ABOUT_START: Final = re.compile(
    r"^(?:Type|User|Group|SupplementaryGroups|(?:Runtime|Logs)Directory\w*|Exec\w+|Restart\w*|SuccessExitStatus|WatchdogSec|Timeout\w+|PartOf|Wants|After|Condition\w+"
    r"|StartLimit\w+|WantedBy|Documentation)=.*\n",
    re.MULTILINE,
)
_PROBE: Final = """
import ctypes, json, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def checked(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")
def write(path):
    with open(path, "w") as file:
        file.write("x")
    os.unlink(path)
def suid():
    with open("/var/lib/gantry/probe", "w"):
        os.chmod("/var/lib/gantry/probe", 0o4755)
    os.unlink("/var/lib/gantry/probe")
def realtime():
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
def group():
    os.mkdir("/sys/fs/cgroup/unified/probe")
    os.rmdir("/sys/fs/cgroup/unified/probe")
def hostname():
    before = socket.gethostname()
    socket.sethostname("probe")
    socket.sethostname(before)
trials = {
    "write to /etc": lambda: write("/etc/probe"),
    "write to /usr": lambda: write("/usr/probe"),
    "write to /home": lambda: write("/home/probe"),
    "look into /root": lambda: os.stat("/root/gantry.deb"),
    "open a socket": lambda: socket.socket(socket.AF_UNIX).close(),
    "see modules": lambda: os.stat("/usr/lib/modules/probe"),
    "open /dev/console": lambda: os.close(os.open("/dev/console", os.O_WRONLY | os.O_NOCTTY)),
    "make a control group": group,
    "make a namespace": lambda: checked(libc.unshare(0x00020000)),
    "make a file that changes its user": suid,
    "change the hostname": hostname,
    "gain privileges": lambda: checked(-1 if libc.prctl(39, 0, 0, 0, 0) == 1 else 0),
    "use packets": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close(),
    "change the personality": lambda: checked(libc.personality(0x0008)),
}
found = {}
for name, trial in trials.items():
    try:
        trial()
        found[name] = True
    except OSError as error:
        found[name] = False
print(json.dumps(found))
"""
_SAID: Final = "/srv/probe.said"
_OPEN: Final = {"forkserver", "launcher", "noded"}
# what the restrictions of the daemons that run no commands refuse
_REFUSED: Final = {
    "write to /etc",
    "write to /usr",
    "write to /home",
    "look into /root",
    "see modules",
    "open /dev/console",
    "make a control group",
    "make a namespace",
    "make a file that changes its user",
    "gain privileges",
    "use packets",
    "change the personality",
}


@pytest.fixture(scope="module")
def unrestricted(running: Engine) -> Mapping[str, bool]:
    running.container.check("mkdir -p /usr/lib/modules; touch /usr/lib/modules/probe")
    running.container.write("/srv/probe.py", _PROBE)
    return _tried(running, "[Service]\n")


def _tried(engine: Engine, unit: str) -> Mapping[str, bool]:
    """What a probe in such a unit may do."""
    container = engine.container
    # systemd opens the file before it restricts the process; the journal would have the lines when it likes
    start = f"Type=oneshot\nExecStart=/usr/bin/python3 /srv/probe.py\nStandardOutput=truncate:{_SAID}\n"
    container.write("/run/systemd/system/probe.service", unit.replace("[Service]\n", f"[Service]\n{start}", 1))
    container.check(f"rm -f {_SAID}; systemctl daemon-reload; systemctl start probe.service")
    found: Mapping[str, bool] = json.loads(container.check(f"cat {_SAID}"))
    return found


@pytest.mark.parametrize("name", ["wconfd", "luxid", "rapid", "confd", "mond", "keeperd"])
def test_a_daemon_that_runs_no_commands_cannot_harm_the_machine(
    engine: Engine, unrestricted: Mapping[str, bool], name: str
) -> None:
    unit = engine.container.check(f"cat /usr/lib/systemd/system/gantry-{name}.service")

    may = _tried(engine, _ABOUT_START.sub("", unit))

    refused = {trial for trial, is_allowed in may.items() if not is_allowed and unrestricted[trial]}
    assert may["open a socket"]
    possible = {trial for trial in _REFUSED if unrestricted[trial]}
    assert len(possible) > len(_REFUSED) / 2, unrestricted
    assert possible <= refused


def test_units_are_as_closed_as_told(engine: Engine) -> None:
    table = engine.container.check("systemd-analyze security --no-pager")
    scores = {found[1]: float(found[2]) for found in re.finditer(r"gantry-(\w+)\.service +(\d+\.\d)", table)}

    closed = {name: score for name, score in scores.items() if name not in _OPEN}
    assert closed.keys() >= {"wconfd", "luxid", "rapid", "confd", "mond"}
    assert all(score <= 5.0 for score in closed.values()), scores
    # it starts commands of root; that it is root itself is all that it has beyond the fork server
    assert scores.pop("launcher") <= scores["forkserver"] + 0.4, scores
    assert max(scores.values()) <= 9.2, scores


def test_systemd_finds_no_fault_in_the_units(engine: Engine) -> None:
    said = engine.container.run("systemd-analyze verify /usr/lib/systemd/system/gantry*").output

    assert not [line for line in said.splitlines() if "gantry" in line]
