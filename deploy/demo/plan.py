"""The plan of the demo: the maintenance of a fleet, as the plan that `gnt-job submit` takes.

Every node goes through five jobs, each waiting for the one before it to succeed:

    drain -> back up -> change -> verify -> undrain

each under the exclusive lock of its node; the backups share the store. The change of one node
does damage on purpose: its verify fails, so its undrain does not happen, and instead an alarm
goes off, which waits for exactly that failure, and a job puts the node back from its backup. At
the end an inventory of store wants the store for itself; its first try ends with exit code 75, "try later",
and it is run again.
"""

from pathlib import Path
from typing import Any

from fleet import NODES, UNLUCKY

STORE = "node-res/store"
# a store that is busy for the first who asks
FIRST_TRY = "[ -e ../asked ] || { touch ../asked; echo the store is busy; exit 75; }"
SUCCESS, FAILURE = "success", "failure"

Job = dict[str, Any]


class Plan:
    """Jobs that refer to each other by name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.jobs: list[Job] = []

    @property
    def names(self) -> list[str]:
        return [job["name"] for job in self.jobs]

    def add(
        self, name: str, script: str, cwd: Path, locks: dict[str, str], after: dict[str, str], **more: object
    ) -> None:
        """Args: after: names of jobs with the end that is waited for. more: other keys of a job in a plan."""
        step, *node = name.rsplit(" ", 1) if name.endswith(NODES) else [name]
        labels = {"step": step.replace(" ", "-").lower(), **({"node": node[0]} if node else {})}
        job = {"name": name, "labels": labels, "shell": script, "cwd": str(cwd), "locks": locks, "timeout": 60}
        self.jobs.append({**job, **({"after": after} if after else {}), **more})


def maintenance_plan(folder: Path) -> Plan:
    """The whole plan for the fleet under `folder`; job names are like `back up web1`."""
    plan = Plan(folder)
    for node in NODES:
        _maintain(plan, node)
    _recover(plan, UNLUCKY)
    backups = {f"back up {node}": SUCCESS for node in NODES}
    manifest = "sha256sum *.tar.gz | tee MANIFEST"
    again: dict[str, object] = {"retries": 3, "retry_delay": "0.5s", "retry_on": ["exit=75"]}
    script = f"{FIRST_TRY}; {manifest}"
    plan.add("inventory of store", script, folder / "store", {STORE: "exclusive"}, backups, **again)
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
    plan.add(f"ALARM for {node}", alarm, plan.folder, {}, {f"verify {node}": FAILURE})
    plan.add(
        f"restore {node}",
        f"tar -xzf {archive} && sha256sum -c SHA256SUMS && rm DRAINED",
        home,
        {f"node/{node}": "exclusive", STORE: "shared"},
        {f"ALARM for {node}": SUCCESS},
    )
