"""Candidates whose master is found by a lease in etcd: each node under a real supervisor, on one machine.

with Etcd(tmp_path / "etcd", binary=etcd_binary) as etcd, LeaseFleet(tmp_path, etcd) as fleet:
    fleet.up()
    master = fleet.until_master()
    master.crash()                                # the machine is dead
    fleet.until_master(besides=master)

With `has_ways` each node has ways of its own to the members of etcd, and others reach its node daemon by one: all of
them can be cut.
"""

import contextlib
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Self

import attrs
import orjson

from common.errors import GantryError
from common.lease.deadline import Deadline
from common.lease.grant import Grant, read_grant
from common.lease.records import EtcdKeys
from common.objects.codec import decode_config
from common.objects.ssconf import file_content, ssconf_values
from common.paths import Paths
from common.system.processes import descendants
from common.system.running import find_daemon
from protocol.blocking import BlockingClient
from protocol.luxi.queries import QueryJobs
from tests.cli.command import Ended
from tests.support.cluster import Cluster
from tests.support.etcds.etcd import Etcd
from tests.support.leftovers import processes_under
from tests.support.machines.etcdentries import entries
from tests.support.machines.fleet import Fleet, FleetNode
from tests.support.machines.movablemaster import Machine, name_certificates, unlike
from tests.support.machines.nodes import LEAN
from tests.support.machines.proxy import Behaviour, Proxy
from tests.support.sockets.ports import free_port
from tests.support.stopping import stop
from tests.support.wait import wait_until

HOST: Final = "127.0.0.1"
# seconds; the shortest one that real clusters may have
TTL_S: Final = 5.0
# a loaded machine needs several campaigns
_PATIENCE_S: Final = 300.0


@attrs.frozen
class Candidate:
    """One node, its processes, and its ways to the others."""

    machine: Machine
    # to each member of etcd; empty: there are only straight ones
    etcd_ways: tuple[Proxy, ...] = ()
    # by which others reach its node daemon
    node_way: Proxy | None = None

    @property
    def name(self) -> str:
        return self.machine.name

    @property
    def cluster(self) -> Cluster:
        return self.machine.cluster

    @property
    def paths(self) -> Paths:
        return self.machine.paths

    def up(self) -> None:
        done = self.machine.up()
        assert done.code == 0, done

    def gantry(self, *words: str) -> Ended:
        return self.machine.gantry(*words)

    # its mastership

    def grant(self) -> Grant | None:
        """What keeperd here has won, if its time has not passed."""
        try:
            grant = read_grant(self.paths.grant_file)
            if grant is None:
                return None
            with Deadline(self.paths.deadline_file) as deadline:
                return None if deadline.has_passed else grant
        except (GantryError, OSError):
            return None

    def serves(self) -> bool:
        """Whether its luxid replies."""
        try:
            with BlockingClient(self.paths.query_socket, connect_timeout_s=0) as luxid:
                luxid.call(QueryJobs((), ("id",)), timeout_s=5.0)
        except (GantryError, OSError):
            return False
        return True

    # its processes

    def pids(self, *daemons: str) -> list[int]:
        """The processes of these daemons, but for jobs and commands; keeperd has two."""
        found = [running.pid for name in daemons if (running := find_daemon(self.paths, name)) is not None]
        if "keeperd" in daemons and (keeper := find_daemon(self.paths, "keeperd")) is not None:
            found += [process.pid for process in descendants(keeper.pid)]
        return found

    def signal(self, number: signal.Signals, *daemons: str) -> list[int]:
        """Send a signal to the processes of these daemons; returns their pids."""
        pids = self.pids(*daemons)
        for pid in pids:
            send(pid, number)
        return pids

    def kill(self, *daemons: str) -> None:
        self.signal(signal.SIGKILL, *daemons)

    def crash(self) -> None:
        """SIGKILL of all that runs here, the supervisor first: as when the machine loses power.

        What lies in memory only is lost, too.
        """
        self.cluster.crash()
        for path in (self.paths.grant_file, self.paths.deadline_file):
            path.unlink(missing_ok=True)

    def freeze(self) -> set[int]:
        return self.machine.freeze()

    def thaw(self, pids: Iterable[int]) -> None:
        self.machine.thaw(pids)

    def is_dead(self) -> bool:
        return not processes_under(self.cluster.root)

    # its ways

    def cut_from_etcd(self, behaviour: Behaviour = Behaviour.STOP) -> None:
        for way in self.etcd_ways:
            way.behave(behaviour)

    def cut_from_nodes(self, behaviour: Behaviour = Behaviour.STOP) -> None:
        """Let nobody reach its node daemon, itself included."""
        assert self.node_way is not None, "the fleet has no ways"
        self.node_way.behave(behaviour)

    def heal(self) -> None:
        for way in (*self.etcd_ways, *filter(None, (self.node_way,))):
            way.behave(Behaviour.PASS)


def send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        if number is signal.SIGSTOP:
            stop(pid)
        else:
            os.kill(pid, number)


class _Fleet(Fleet):
    """Nodes whose settings name etcd."""

    def __init__(
        self, root: Path, count: int, tables: Callable[[str], str], *, listens_apart: bool, health_port: int
    ) -> None:
        self._tables = tables
        self._health_port = health_port
        super().__init__(root, count, listens_apart=listens_apart)

    def _settings(self, name: str, ip: str, cluster: str = "") -> str:
        own = f'{LEAN}[cluster]\nreplication = "etcd"\nnode_name = "{name}"\n{cluster}'
        noded = f'[noded]\naddress = "{ip}"\nport = {self.port}\n'
        return f'{own}{noded}[keeperd]\naddress = "{ip}"\nport = {self._health_port}\n{self._tables(name)}'


class LeaseFleet:
    """A context manager that leaves no process behind.

    Args:
        keeperd: more settings in [keeperd], and tables after it, as TOML.
        has_ways: whether proxies stand between the nodes, and between them and etcd.
    """

    def __init__(
        self, root: Path, etcd: Etcd, count: int = 3, *, ttl_s: float = TTL_S, keeperd: str = "", has_ways: bool = False
    ) -> None:
        self.etcd = etcd
        self.prefix = etcd.new_prefix()
        self.root = root
        names = [f"node{number}.test" for number in range(1, count + 1)]
        self._ways = {name: _etcd_ways(etcd) if has_ways else () for name in names}
        self.health_port = free_port()
        self._more = f"ttl_s = {ttl_s:g}\n{keeperd}"
        fleet = _Fleet(root, count - 1, self._tables, listens_apart=has_ways, health_port=self.health_port)
        first = self._first(fleet, has_ways)
        others = [self._other(node, has_ways) for node in fleet.nodes]
        self.candidates = {each.name: each for each in (first, *others)}
        name_certificates(first.paths, [each.machine for each in self])
        self._copy_configuration(first)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        for each in self:
            for way in (*each.etcd_ways, *filter(None, (each.node_way,))):
                self._stack.enter_context(way)
        return self

    def __exit__(self, *_: object) -> None:
        for each in self:
            each.cluster.crash()
            each.cluster.stop()
        self._stack.close()

    def __getitem__(self, name: str) -> Candidate:
        return self.candidates[name]

    def __iter__(self) -> Iterator[Candidate]:
        return iter(self.candidates.values())

    def up(self) -> None:
        """Start all nodes."""
        for each in self:
            each.up()

    def master(self) -> Candidate | None:
        """The node that may act as the master, if one may; its daemons may not serve yet."""
        return next((each for each in self if each.grant() is not None), None)

    def until_master(
        self, besides: Candidate | None = None, *, above: int = 0, timeout_s: float = _PATIENCE_S
    ) -> Candidate:
        """Wait until a node serves as the master.

        Args:
            besides: this one does not count.
            above: epoch that its mastership must exceed.
        """
        found: list[Candidate] = []

        def is_there() -> bool:
            for each in self:
                grant = each.grant()
                if each is not besides and grant is not None and grant.fence.epoch > above and each.serves():
                    found.append(each)
            return bool(found)

        what = "a master serves" if besides is None else f"a master serves besides {besides.name}"
        wait_until(is_there, what=what, timeout_s=timeout_s, state=self.states)
        return found[0]

    def states(self) -> dict[str, str]:
        """The last line of each keeperd's log, for messages."""
        return {each.name: each.cluster.log("keeperd")[-300:] for each in self}

    def until_same(self, timeout_s: float = _PATIENCE_S) -> None:
        """Wait until all nodes have queue, configuration and ssconf byte for byte as the master."""
        master = self.until_master()
        for each in self:
            wait_until(
                lambda at=each.paths: not unlike(at, master.paths),  # type: ignore[misc]
                what=f"{each.name} has the files of {master.name}",
                state=lambda at=each.paths: unlike(at, master.paths),  # type: ignore[misc]
                timeout_s=timeout_s,
            )

    def until_fit(self) -> None:
        """Wait until every node but the master could follow it: it was compared, and all that it lacks is in etcd."""
        wait_until(lambda: not self._unfit(), what="all candidates are fit", timeout_s=_PATIENCE_S, state=self._unfit)

    def _unfit(self) -> list[str]:
        keys = EtcdKeys(self.prefix)
        grants = {each.name: grant for each in self if (grant := each.grant()) is not None}
        if not grants:
            return ["no node is the master"]
        there = entries(self.etcd, self.prefix)
        epoch = max(grant.fence.epoch for grant in grants.values())
        return [
            f"{name}: compared in epoch {there.get(keys.synced(name), b'0').decode()} of {epoch}"
            for name in self.candidates
            if name not in grants and (keys.stale(name) in there or int(there.get(keys.synced(name), b"0")) < epoch)
        ]

    def heal(self) -> None:
        """Let all ways pass everything."""
        for each in self:
            each.heal()

    def _tables(self, name: str) -> str:
        """The rest of [keeperd], and what a node knows of etcd."""
        urls = [f"http://{way.place[0]}:{way.place[1]}" for way in self._ways[name]] or self.etcd.endpoints
        endpoints = ", ".join(f'"{url}"' for url in urls)
        return f'{self._more}\n[etcd]\nendpoints = [{endpoints}]\nprefix = "{self.prefix}"\n'

    def _first(self, fleet: Fleet, has_ways: bool) -> Candidate:
        # the first node of a fleet listens at the address that others call
        machine = Machine("node1.test", fleet.master)
        if not has_ways:
            return Candidate(machine)
        own = ("127.0.1.1", fleet.port)
        settings = (machine.cluster.root / "gantry.toml").read_text()
        listens = settings.replace(f'[noded]\naddress = "{HOST}"', f'[noded]\naddress = "{own[0]}"')
        machine.cluster.configure(listens)
        return Candidate(machine, self._ways["node1.test"], Proxy((HOST, fleet.port), own))

    def _other(self, node: FleetNode, has_ways: bool) -> Candidate:
        way = Proxy(node.place, node.own_place) if has_ways else None
        return Candidate(Machine(node.name, node.cluster), self._ways[node.name], way)

    def _copy_configuration(self, first: Candidate) -> None:
        """Let all nodes begin with what they would have after joining: the configuration, and ssconf."""
        content = first.paths.config_data.read_bytes()
        values = ssconf_values(decode_config(orjson.loads(content)))
        for each in self:
            each.paths.config_data.write_bytes(content)
            for key, lines in values.items():
                each.paths.ssconf_file(key).unlink(missing_ok=True)
                each.paths.ssconf_file(key).write_bytes(file_content(lines))


def _etcd_ways(etcd: Etcd) -> tuple[Proxy, ...]:
    return tuple(Proxy((HOST, 0), (HOST, member.port), seed) for seed, member in enumerate(etcd.members))
