"""Ganeti's clients of confd ask ours, ours asks Ganeti's, and both servers are asked the same: `make test-confd`.

    python -m tests.reliability.ganeti.questions FOLDER

The folder keeps an installed Debian, as for `program`. The cluster has one node, and is Ganeti's own; our confd reads
its configuration and its key. The exit code is 1 if anything differs.
"""

import sys
from pathlib import Path
from typing import Final

from tests.reliability.ganeti.machines import Machines
from tests.reliability.ganeti.program import SYSTEM

_CLUSTER: Final = """ip link add br7 up type bridge
gnt-cluster init --no-ssh-init --no-etc-hosts --enabled-hypervisors fake \
 --enabled-disk-templates diskless,file --master-netdev eth0 rg.test
gnt-network add --network 198.51.100.0/24 net1; gnt-network connect -N mode=bridged,link=br7 net1 default
for number in 1 2; do gnt-instance add -t diskless -o dummy+default --no-ip-check --no-name-check \
 -B memory=128,vcpus=1 -n node1.rg.test --net 0:ip=198.51.100.$number,network=net1 inst$number.rg.test; done
gnt-instance add -t diskless -o dummy+default --no-ip-check --no-name-check --no-install --no-start \
 -B memory=128,vcpus=1 -n node1.rg.test --net 0:ip=192.0.2.77 inst3.rg.test
gnt-cluster modify --enabled-data-collectors drbd=false"""
# beside Ganeti's, on its files
_SETTINGS: Final = """mkdir -p /etc/gantry /run/ours /var/log/ours; cat > /etc/gantry/gantry.toml << END
[paths]
data = "/var/lib/ganeti"
run = "/run/ours"
log = "/var/log/ours"
[access]
gids = ["gnt-daemons"]
uids = ["gnt-masterd"]
END"""
_START: Final = """cd /opt/src
/opt/gantry/bin/python3 -P -B -m daemons.confd.main -b 127.0.0.1 -p {port} --log-stderr \
 > /var/log/ours.log 2>&1 & echo $! > /run/ours.pid
for try in $(seq 100); do grep -q daemon.ready /var/log/ours.log && break; sleep 0.1; done; cat /var/log/ours.log"""
_COMPARE: Final = (
    "cd /opt/src; /opt/gantry/bin/python3 -P -B -m tests.reliability.ganeti.questionsession 1814 1914; echo $?"
)
_SWAP: Final = "kill $(cat /run/ours.pid); /usr/lib/ganeti/daemon-util stop ganeti-confd; sleep 1"
# what Ganeti's tools ask confd
_TOOLS: Final = (
    "gnt-node list-drbd node1.rg.test",
    "/usr/lib/ganeti/tools/query-config /cluster/cluster_name",
    "/usr/lib/ganeti/tools/query-config /nosuch",
)
# Ganeti's own client: it sends numbers as texts, at which Ganeti's own server is silent
_TRIAL: Final = "/usr/lib/ganeti/tools/confd-client -r 100 -a 127.0.0.1"
_END_OF_TRIAL: Final = "ms per instance ips request"


def main(folder: Path) -> int:
    with Machines(folder, count=1) as machines:
        for script in (SYSTEM, _CLUSTER, _SETTINGS):
            print(machines.run(1, script), end="")
        print(machines.run(1, _START.format(port=1914)))
        compared = machines.run(1, _COMPARE)
        print(compared)
        theirs = [machines.run(1, command) for command in _TOOLS]
        machines.run(1, _SWAP)
        machines.run(1, _START.format(port=1814))
        ours = [machines.run(1, command) for command in _TOOLS]
        trial = machines.run(1, _TRIAL)
        log = machines.run(1, "cat /var/log/ours.log")
    print(trial)
    is_well = compared.endswith("\n0\n") and _END_OF_TRIAL in trial
    for command, real, own in zip(_TOOLS, theirs, ours, strict=True):
        print(f"{'same' if real == own else 'DIFFERS'}  {command}\n{real}{'' if real == own else own}")
        is_well &= real == own
    print(log)
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).absolute()))
