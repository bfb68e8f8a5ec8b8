"""Gantry in a container: its first start, jobs, and what became of them."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tests.support.wait import wait_until
from tests.systemd.containers.container import Container

# folder that jobs of any user may write to
LEDGER: Final = "/srv/ledger"
FINAL: Final = frozenset({"canceled", "success", "error"})
# a machine may be slow
PATIENCE_S: Final = 600.0


class Engine:
    """The installation of the system in a container."""

    def __init__(self, container: Container) -> None:
        self.container = container
        container.check(f"mkdir -p {LEDGER}; chmod 1777 {LEDGER}")

    def start(self) -> None:
        """Make a cluster of one machine, and start it, by the words of README."""
        self.container.check("runuser -u gantry -- gnt-cluster init demo")
        self.container.check("systemctl enable --now gantry.target")

    def until_active(self, *names: str) -> None:
        """Wait until the units of these daemons are active."""
        for name in names:
            self.until(name, "ActiveState", "active")

    def until(self, name: str, what: str, value: str) -> None:
        """Wait until a property of the unit of this daemon has this value."""
        unit = f"gantry-{name}.service"
        wait_until(
            lambda: self.container.shown(unit, what) == value,
            what=f"{what}={value} of {unit}",
            timeout_s=PATIENCE_S,
            state=lambda: self.container.run(f"systemctl status {unit}").output,
        )

    def pid(self, name: str) -> int:
        """The first process of this daemon; waits for it while systemd starts it again."""
        unit, found = f"gantry-{name}.service", [0]

        def has_one() -> int:
            found[0] = int(self.container.shown(unit, "MainPID"))
            return found[0]

        wait_until(has_one, what=f"a process of {unit}", timeout_s=PATIENCE_S)
        return found[0]

    def restarts(self, name: str) -> int:
        """How often systemd has started it again by itself."""
        return int(self.container.shown(f"gantry-{name}.service", "NRestarts"))

    def job(self, options: str, command: str, *, user: str | None = None) -> int:
        """Submit one job, return its id."""
        return int(self.container.check(f"gnt-job run {options} -- {command}", user=user).split()[0])

    def until_ended(self, ids: Iterable[int]) -> Mapping[int, str]:
        """Wait until jobs have ended; return their states."""
        wanted = frozenset(ids)
        states: dict[int, str] = {}

        def has_ended() -> bool:
            states.update((int(job["id"]), str(job["status"])) for job in self.jobs() if int(job["id"]) in wanted)
            return states.keys() == wanted and all(state in FINAL for state in states.values())

        wait_until(has_ended, what="the end of the jobs", timeout_s=PATIENCE_S, state=lambda: states)
        return states

    def jobs(self) -> Sequence[Mapping[str, Any]]:
        """All jobs, as `gnt-job list --output json` tells them."""
        found: Sequence[Mapping[str, Any]] = json.loads(self.container.check("gnt-job list --output json"))
        return found

    def info(self, job_id: int) -> str:
        return self.container.check(f"gnt-job info {job_id}")
