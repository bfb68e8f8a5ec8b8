"""Record what the verbs of a real Ganeti of three nodes print; tests compare ours with that.

    python -m tests.reliability.ganeti.verbs FOLDER [SCRIPT...]

The folder keeps an installed Debian, as for `program`. A script is a folder in `tests/data/ganeti-3.0.2/verbs` with its
calls; beside them stand the configuration before the first call, and how each call has ended. Without a name all are
recorded, each in a cluster of its own.
"""

import sys
from pathlib import Path
from typing import Final

from tests.reliability.ganeti.machines import CHECKOUT, Machines
from tests.reliability.ganeti.program import SYSTEM

SCRIPTS: Final = Path("tests/data/ganeti-3.0.2/verbs")
_CLUSTER: Final = """gnt-cluster init --no-ssh-init --no-etc-hosts --enabled-hypervisors fake \
 --enabled-disk-templates diskless,file --master-netdev eth0 rg.test
for number in 2 3; do gnt-node add --no-ssh-key-check node$number.rg.test; done
for number in 1 2; do
  gnt-instance add -t diskless -o dummy+default --no-ip-check --no-name-check -B memory=128,vcpus=1 \
    -n node$number.rg.test inst$number.rg.test
done
gnt-instance add-tags inst1.rg.test rack:0
gnt-node list && gnt-instance list"""


def main(folder: Path, names: list[str]) -> None:
    for name in names or sorted(each.name for each in (CHECKOUT / SCRIPTS).iterdir()):
        with Machines(folder) as machines:
            machines.on_all(SYSTEM)
            print(machines.run(1, _CLUSTER))
            script = CHECKOUT / SCRIPTS / name
            (script / "config.data").write_text(machines.run(1, "cat /var/lib/ganeti/config.data"))
            program, calls = "/opt/src/tests/reliability/ganeti/recordcalls.py", f"/opt/src/{SCRIPTS / name}/calls.txt"
            ends = machines.run(1, f"python3 -B {program} {calls}", limit_s=900)
            (script / "ends.jsonl").write_text(ends)
            print(ends)


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute(), sys.argv[2:])
