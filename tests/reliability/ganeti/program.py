"""Compare our luxid and wconfd with Ganeti's own on the same cluster, and move the master to and fro.

    python -m tests.reliability.ganeti.program FOLDER

The folder keeps an installed Debian; the first run takes some minutes more. The exit code is 1 if anything differs.
"""

import difflib
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.reliability.ganeti.machines import COUNT, Machines

INSTANCES: Final = 10
COMMANDS: Final = (
    "gnt-node list",
    "gnt-node list -o name,role,bootid,cnodes,cnos,csockets,ctotal,offline,pinst_list,powered",
    "gnt-node list -F 'mfree > 100'",
    "gnt-node list-storage --storage-type file | sort",
    "gnt-instance list -o name,pnode,status,oper_state,oper_ram,oper_vcpus,admin_state,console",
    "gnt-instance list -o name -F 'status == \"running\"'",
    "gnt-instance list -o name,status -F 'not status == \"running\"'",
    "gnt-instance info inst1.rg.test",
    "gnt-instance console --show-cmd inst1.rg.test",
    *(f"{program} -L" for program in ("hbal", "hinfo", "hcheck", "harep --dry-run", "hroller --force")),
    "hspace -L --disk-template diskless --standard-alloc 1024,128,1",
    "gnt-cluster getmaster",
    "gnt-cluster queue info",
    "gnt-cluster watcher info",
    "gnt-cluster verify | grep -v procfs",
)
# an operating system of which nothing is installed
SYSTEM: Final = """mkdir -p /srv/ganeti/file-storage /srv/ganeti/os/dummy /etc/ganeti; cd /srv/ganeti/os/dummy
echo /srv/ganeti/file-storage > /etc/ganeti/file-storage-paths
for name in create import export rename verify; do printf '#!/bin/sh\\nexit 0\\n' > $name; chmod 755 $name; done
echo 20 > ganeti_api_version; echo default > variants.list; : > parameters.list
mkdir -p /etc/gantry; cp /opt/src/deploy/ganeti/gantry.toml /etc/gantry/"""
_CLUSTER: Final = """gnt-cluster init --no-ssh-init --no-etc-hosts --enabled-hypervisors fake \
 --enabled-disk-templates diskless,file --master-netdev eth0 rg.test
for number in 2 3; do gnt-node add --no-ssh-key-check node$number.rg.test; done"""
_INSTANCE: Final = (
    "gnt-instance add -t diskless -o dummy+default --no-ip-check --no-name-check -B memory=128,vcpus=1 "
    "-n node{node}.rg.test inst{number}.rg.test"
)
_OURS: Final = """for name in luxid wconfd; do dpkg-divert --local --rename --add /usr/sbin/ganeti-$name
ln -s /opt/src/deploy/ganeti/daemon /usr/sbin/ganeti-$name; done"""
AGAIN: Final = "/usr/lib/ganeti/daemon-util stop-master; /usr/lib/ganeti/daemon-util start-master; sleep 3"
_FILES: Final = (
    "cd /var/lib/ganeti; sha1sum config.data ssconf_*; find queue -type f ! -name lock ! -name version | sort "
    "| xargs sha1sum"
)


def main(folder: Path) -> int:
    with Machines(folder) as machines:
        make_cluster(machines)
        theirs = outputs(machines)
        machines.on_all(_OURS)
        machines.run(1, AGAIN)
        assert "gantry-luxid" in machines.run(1, "ps ax -o args"), "our luxid has not started"
        verdicts = {**compared(theirs, outputs(machines)), **moved(machines)}
    for what, verdict in verdicts.items():
        print(f"{what:90} {verdict}")
    return 0 if set(verdicts.values()) == {"same"} else 1


def make_cluster(machines: Machines) -> None:
    """Three nodes with Ganeti's own daemons, and instances of which one is stopped, and one has crashed."""
    machines.on_all(SYSTEM)
    print(machines.run(1, _CLUSTER))
    for number in range(1, INSTANCES + 1):
        machines.run(1, _INSTANCE.format(node=number % COUNT + 1, number=number))
    machines.run(1, "gnt-instance shutdown inst3.rg.test")
    machines.run(2, "rm /run/ganeti/fake-hypervisor/inst4.rg.test")
    states = machines.run(1, "gnt-instance list --no-headers -o status").split()
    assert sorted(states) == ["ADMIN_down", "ERROR_down", *["running"] * (INSTANCES - 2)], states


def outputs(machines: Machines) -> Mapping[str, str]:
    return {command: machines.run(1, command) for command in COMMANDS}


def compared(theirs: Mapping[str, str], ours: Mapping[str, str]) -> Mapping[str, str]:
    """The verdict on each command; differences are printed."""
    verdicts = {}
    for command, text in theirs.items():
        before, after = _comparable(text).splitlines(), _comparable(ours[command]).splitlines()
        verdicts[command] = "same" if before == after else "differs"
        print("\n".join(difflib.unified_diff(before, after, "Ganeti", "Gantry", n=0, lineterm="")))
    return verdicts


def moved(machines: Machines) -> Mapping[str, str]:
    """Move the master away and back under load; instances and files are the same afterwards."""
    verdicts: dict[str, str] = {}
    for old, new in ((1, 2), (2, 1)):
        before = machines.run(old, "gnt-instance list -o name,status,pnode")
        machines.run(old, "for number in $(seq 30); do gnt-debug delay --submit --no-master -n node3 1; done")
        said = machines.run(new, "gnt-cluster master-failover")
        after = machines.run(new, "gnt-instance list -o name,status,pnode")
        machines.run(new, "gnt-cluster redist-conf; sleep 10")
        files = {machines.run(number, _FILES) for number in range(1, COUNT + 1)}
        found = {"failover": not said, "instances": before == after, "files on all nodes": len(files) == 1}
        verdicts |= {f"master to node{new}: {what}": "same" if is_so else "differs" for what, is_so in found.items()}
        print(said)
    return verdicts


def _comparable(text: str) -> str:
    """Without what changes from one moment to the next: times, numbers of jobs, memory and space."""
    text = re.sub(r"\w{3} \w{3} +\d+ [\d:]{8} \d{4}|Submitted jobs.*|Waiting for job.*", "", text)
    return re.sub(r" +", " ", re.sub(r"\b\d+(\.\d+)?(e-?\d+)?( ?[MG]B?)?\b", "N", text))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).absolute()))
