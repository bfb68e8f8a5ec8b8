"""A cluster whose master can be moved: each node runs whatever belongs to its place, under a real supervisor.

with MovableMaster(tmp_path, 3) as machines:
    machines.up()                             # node1.test is the master, the others are candidates
    machines["node1.test"].cluster.crash()    # the machine is dead
    machines.move_to(machines["node2.test"])
"""

import contextlib
import os
import re
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Self

import attrs
import orjson

from common.nodes.certificates import digest_of
from common.paths import Paths
from tests.cli.command import Ended, run
from tests.support.cluster import Cluster
from tests.support.leftovers import processes_under
from tests.support.machines.fleet import Fleet, differing, files, queue_files
from tests.support.stopping import stop
from tests.support.wait import wait_until


@attrs.frozen
class Machine:
    """One node, by the programs of an operator on it."""

    name: str
    cluster: Cluster

    @property
    def paths(self) -> Paths:
        return self.cluster.paths

    def gantry(self, *words: str) -> Ended:
        return run("gantry", "--root", self.cluster.root, *words)

    def gnt_cluster(self, *words: str) -> Ended:
        return run("gnt-cluster", "--root", self.cluster.root, *words)

    def up(self) -> Ended:
        return self.gantry("up", "--detach")

    def freeze(self) -> set[int]:
        """Stop all its processes, as when the machine hangs; returns their pids."""
        frozen: set[int] = set()
        # those that were forked meanwhile, too
        while new := set(processes_under(self.cluster.root)) - frozen:
            for pid in new:
                # a job's process may have ended
                with contextlib.suppress(ProcessLookupError):
                    stop(pid)
            frozen |= new
        return frozen

    def thaw(self, pids: Iterable[int]) -> None:
        for pid in pids:
            _signal(pid, signal.SIGCONT)

    def is_ready(self) -> bool:
        return self.gantry("status").code == 0


def _signal(pid: int, number: signal.Signals) -> None:
    # a job's process may have ended
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def unlike(one: Paths, other: Paths) -> list[str]:
    """The files of queue, configuration and ssconf in which these nodes differ."""
    return [*differing(queue_files(one), queue_files(other)), *differing(files(one), files(other))]


class MovableMaster:
    """A context manager that leaves no process behind."""

    def __init__(self, root: Path, count: int) -> None:
        self._fleet = Fleet(root, count - 1)
        first = Machine("node1.test", self._fleet.master)
        others = [Machine(node.name, node.cluster) for node in self._fleet.nodes]
        self.machines = {machine.name: machine for machine in (first, *others)}
        name_certificates(first.paths, self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for machine in self:
            machine.cluster.crash()
            machine.cluster.stop()

    def __getitem__(self, name: str) -> Machine:
        return self.machines[name]

    def __iter__(self) -> Iterator[Machine]:
        return iter(self.machines.values())

    def up(self) -> None:
        """Start all nodes, the candidates first, and wait until they have everything of the master."""
        *candidates, master = reversed(self.machines.values())
        for machine in (*candidates, master):
            done = machine.up()
            assert done.code == 0, done
        for machine in candidates:
            self.until_same(master, machine)

    def until_same(self, master: Machine, *others: Machine) -> None:
        """Wait until these nodes have queue, configuration and ssconf byte for byte as the master."""
        for other in others:
            wait_until(
                lambda at=other.paths: not unlike(at, master.paths),  # type: ignore[misc]
                what=f"{other.name} has the files of {master.name}",
                state=lambda at=other.paths: unlike(at, master.paths),  # type: ignore[misc]
            )

    def move_to(self, machine: Machine, *options: str) -> Machine:
        """Make this node the master, as an operator does there, or the one that is named because it has more.

        A master that dies while a job is on its way to the candidates leaves it on some of them; a master that lives,
        whose jobs go on, is ahead of them for a moment, and stays the master.
        """
        done = machine.gnt_cluster("master-failover", "--yes-do-it", *options)
        if named := re.search(r"'([\w.]+)' has newer copies than this node", done.err):
            machine = self[named[1]]
            done = machine.gnt_cluster("master-failover", "--yes-do-it", *options)
            if "is the master already" in done.err:
                return machine
        assert done.code == 0, done
        return machine


def name_certificates(paths: Paths, machines: Iterable[Machine]) -> None:
    """Name the certificates of these nodes in a configuration, as after they were added: candidates are obeyed."""
    config = orjson.loads(paths.config_data.read_bytes())
    certs = config["cluster"]["candidate_certs"]
    uuids = {node["name"]: uuid for uuid, node in config["nodes"].items()}
    for machine in machines:
        certs[uuids[machine.name]] = digest_of(machine.paths.client_pem.read_bytes())
    paths.config_data.write_bytes(orjson.dumps(config))
