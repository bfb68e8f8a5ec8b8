"""Ganeti's own client and our rapid in a real Ganeti of one node, whose job processes do the work.

    python -m tests.reliability.ganeti.remote FOLDER

The folder keeps an installed Debian, as for `program`. Our luxid, wconfd and rapid stand in for Ganeti's daemons. The
exit code is 1 if anything is not as Ganeti's client expects it.
"""

import sys
from pathlib import Path
from typing import Final

from tests.reliability.ganeti.machines import Machines
from tests.reliability.ganeti.program import AGAIN, SYSTEM

_CLUSTER: Final = """gnt-cluster init --no-ssh-init --no-etc-hosts --enabled-hypervisors fake \
 --enabled-disk-templates diskless,file --master-netdev eth0 rg.test"""
_OURS: Final = """for name in luxid wconfd rapi; do dpkg-divert --local --rename --add /usr/sbin/ganeti-$name
ln -s /opt/src/deploy/ganeti/daemon /usr/sbin/ganeti-$name; done"""
_USERS: Final = """cd /var/lib/ganeti/rapi; echo 'peer secret write' > users; echo 'reader rsecret read' >> users
chown gnt-rapi:gnt-daemons users; chmod 640 users"""
_SESSION: Final = (
    "PYTHONPATH=/usr/share/ganeti/3.0 python3 -B /opt/src/tests/reliability/ganeti/remotesession.py; echo $?"
)


def main(folder: Path) -> int:
    with Machines(folder, count=1) as machines:
        for script in (SYSTEM, _CLUSTER, _OURS, _USERS, AGAIN):
            print(machines.run(1, script), end="")
        running = machines.run(1, "ps ax -o args")
        assert all(f"gantry-{name}" in running for name in ("luxid", "wconfd", "rapid")), running
        said = machines.run(1, _SESSION)
        watched = machines.run(1, "ganeti-watcher && pgrep -c ganeti-rapi")
        log = machines.run(1, "cat /var/log/ganeti/rapi-daemon.log")
    print(said)
    is_well = said.endswith("\n0\n") and watched == "1\n"
    if not is_well:
        print(watched, log[-4000:])
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).absolute()))
