"""The plan of the demo: the maintenance of a fleet, as the jobs that `gnt-job submit` takes.

Every node goes through five jobs, each waiting for the one before it to succeed:

    drain -> back up -> change -> verify -> undrain

each under the exclusive lock of its node; the backups share the store. The change of one node
does damage on purpose: its verify fails, so its undrain does not happen, and instead an alarm
goes off, which waits for exactly that failure, and a job puts the node back from its backup. At
the end an inventory of the store wants the store for itself.
"""

from pathlib import Path
from typing import Any

from fleet import NODES, UNLUCKY

STORE = "node-res/store"
SUCCESS, ERROR = ["success"], ["error"]

Job = list[dict[str, Any]]


class Plan:
    """Jobs that refer to each other by name here, and by relative ids in the submission."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names: list[str] = []
        self.jobs: list[Job] = []

    def add(self, name: str, script: str, cwd: Path, locks: dict[str, str], after: dict[str, list[str]]) -> None:
        place = len(self.jobs)
        depends = [[self.names.index(other) - place, states] for other, states in after.items()]
        op = {
            "OP_ID": "OP_RUN_COMMAND",
            "argv": [script],
            "shell": True,
            "cwd": str(cwd),
            "locks": locks,
            "timeout": 60,
            "depends": depends or None,
            "comment": name,
        }
        self.names.append(name)
        self.jobs.append([op])


def maintenance_plan(folder: Path) -> Plan:
    """The whole plan for the fleet under `folder`; job names are like `back up web1`."""
    plan = Plan(folder)
    for node in NODES:
        _maintain(plan, node)
    _recover(plan, UNLUCKY)
    backups = {f"back up {node}": SUCCESS for node in NODES}
    manifest = "sha256sum *.tar.gz | tee MANIFEST"
    plan.add("inventory of the store", manifest, folder / "store", {STORE: "exclusive"}, backups)
    return plan


def _maintain(plan: Plan, node: str) -> None:
    home = plan.folder / "fleet" / node
    mine = {f"node/{node}": "exclusive"}
    change = "sed -i s/version=1/version=2/ etc/app.conf && cat etc/app.conf"
    if node == UNLUCKY:
        change += " && printf oops | dd of=srv/data1 bs=1 seek=1000 conv=notrunc status=none"
    archive = plan.folder / "store" / f"{node}.tar.gz"
    plan.add(f"drain {node}", "touch DRAINED && ls -l DRAINED", home, mine, {})
    plan.add(
        f"back up {node}",
        f"tar -czf {archive} . && tar -tzf {archive} | wc -l",
        home,
        mine | {STORE: "shared"},
        {f"drain {node}": SUCCESS},
    )
    plan.add(f"change {node}", change, home, mine, {f"back up {node}": SUCCESS})
    plan.add(f"verify {node}", "sha256sum -c SHA256SUMS", home, mine, {f"change {node}": SUCCESS})
    plan.add(f"undrain {node}", "rm DRAINED && echo back in service", home, mine, {f"verify {node}": SUCCESS})


def _recover(plan: Plan, node: str) -> None:
    home = plan.folder / "fleet" / node
    archive = plan.folder / "store" / f"{node}.tar.gz"
    alarm = f"echo 'verify of {node} failed, putting it back' | tee {plan.folder}/ALARM"
    plan.add(f"ALARM for {node}", alarm, plan.folder, {}, {f"verify {node}": ERROR})
    plan.add(
        f"restore {node}",
        f"tar -xzf {archive} && sha256sum -c SHA256SUMS && rm DRAINED",
        home,
        {f"node/{node}": "exclusive", STORE: "shared"},
        {f"ALARM for {node}": SUCCESS},
    )
