"""Three machines with systemd on one network, each with Gantry: one makes a cluster, the others join it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import attrs

from tests.support.wait import wait_until
from tests.systemd.containers.container import Container
from tests.systemd.containers.layers import Layers
from tests.systemd.containers.network import Network
from tests.systemd.engine import PATIENCE_S, Engine

NAMES: Final = ("node1", "node2", "node3")


@attrs.frozen
class Machines:
    """Machines that run, by name. Which one is the master, the tests say: they move it."""

    all: Mapping[str, Engine]

    def __getitem__(self, name: str) -> Engine:
        return self.all[name]

    @property
    def engines(self) -> Sequence[Engine]:
        return tuple(self.all.values())

    def others(self, name: str) -> Sequence[str]:
        return tuple(other for other in self.all if other != name)

    def master(self) -> str:
        """The node whose luxid answers."""
        found = [name for name, engine in self.all.items() if is_master(engine)]
        assert len(found) == 1, f"{found} think that they are the master"
        return found[0]

    def until_master(self) -> str:
        """Wait until one node is the master; return its name."""
        wait_until(
            lambda: sum(map(is_master, self.engines)) == 1,
            what="one master",
            timeout_s=PATIENCE_S,
            state=self.told,
        )
        return self.master()

    def until_copied(self, master: str) -> None:
        """Wait until all nodes have the same queue and configuration."""
        wait_until(
            lambda: self[master].container.run("gnt-cluster verify").code == 0,
            what="copies on all nodes",
            timeout_s=PATIENCE_S,
            state=lambda: self[master].container.run("gnt-cluster verify").output,
        )

    def until_fit(self, master: str) -> None:
        """Wait until etcd and the master say of each other node that it could follow the master."""

        def unfit() -> Sequence[Mapping[str, Any]]:
            members: Sequence[Mapping[str, Any]] = self.cluster(master)["members"]
            fit = {"role": "replica", "copies": "fresh", "lag_files": 0}
            return [each for each in members if each["name"] != master and not fit.items() <= each.items()]

        wait_until(lambda: not unfit(), what="all others to be fit", timeout_s=PATIENCE_S, state=unfit)

    def cluster(self, name: str) -> Mapping[str, Any]:
        """What `gantry cluster` tells on a machine."""
        told: Mapping[str, Any] = json.loads(
            self[name].container.run("gantry cluster --output json 2>/dev/null").output
        )
        return told

    def told(self) -> str:
        """What each machine says of its daemons."""
        return "\n".join(
            f"{name}:\n{engine.container.run('gantry status').output}" for name, engine in self.all.items()
        )


def is_master(engine: Engine) -> bool:
    return engine.container.is_on and engine.container.run("gnt-job list --output json").code == 0


def roles(engine: Engine) -> Mapping[str, str]:
    """The role of each node, as a machine tells them."""
    rows: Sequence[Mapping[str, Any]] = json.loads(engine.container.check("gnt-node list -o name,role --output json"))
    return {str(row["name"]): str(row["role"]) for row in rows}


@contextmanager
def three_machines(tree: Layers, place: Path, settings: str) -> Iterator[Machines]:
    """Machines of a cluster, which run. Args: settings: those of the first."""
    with booted(tree, place) as machines:
        make_cluster(machines, settings)
        yield machines


@contextmanager
def booted(tree: Layers, place: Path) -> Iterator[Machines]:
    """Machines on which nothing of Gantry was started."""
    with ExitStack() as ending:
        network = ending.enter_context(Network())
        connections = [network.connect(name) for name in NAMES]
        hosts = "127.0.0.1 localhost\n" + "".join(f"{made.address} {made.hostname}\n" for made in connections)
        containers = []
        for made in connections:
            container = Container(tree, place / made.hostname, made)
            ending.callback(container.__exit__)
            container.power_on()
            containers.append(container)
        for made, container in zip(connections, containers, strict=True):
            container.until_booted()
            container.write("/etc/hosts", hosts)
            container.write("/etc/hostname", f"{made.hostname}\n")
            container.check("hostname --file /etc/hostname")
        yield Machines(dict(zip(NAMES, map(Engine, containers), strict=True)))


def make_cluster(machines: Machines, settings: str) -> None:
    """One makes it, the others join. Args: settings: those of the first."""
    first, *others = NAMES
    machines[first].container.write("/etc/gantry/gantry.toml", settings)
    machines[first].start()
    for name in others:
        join(machines[first], machines[name])


def join(master: Engine, machine: Engine) -> None:
    """As the guide says: the command that the master prints, as it is, on the new machine."""
    said = master.container.check("gnt-cluster join-token")
    machine.container.check(said.splitlines()[0])
