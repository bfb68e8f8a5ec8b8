"""A master and nodes on one machine, each with a root and an address of its own, and the certificates of one cluster.

with Fleet(tmp_path, 2) as fleet:     # node1.test is the master, node2.test and node3.test are candidates
    fleet.start()                     # noded on all, wconfd on the master
"""

import contextlib
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import attrs

from common.nodes.certificates import make_missing, make_node_certificate, write_certificate
from common.paths import Paths
from protocol.wconfd.changes import UpdateCluster, UpdateNode
from protocol.wconfd.config import GetObject, ReadConfig
from tests.support.cluster import Cluster
from tests.support.machines.nodes import LEAN, NOW
from tests.support.machines.simulated import add_nodes
from tests.support.sockets.ports import free_port
from tests.support.stopping import stop
from tests.support.wait import wait_until


@attrs.frozen
class FleetNode:
    """A node beside the master; new: it has certificates, and nothing else of the cluster."""

    name: str
    ip: str
    cluster: Cluster
    port: int
    # where its daemon listens, if a proxy has the node's address
    own_ip: str

    @property
    def place(self) -> tuple[str, int]:
        """Where the master calls it."""
        return self.ip, self.port

    @property
    def own_place(self) -> tuple[str, int]:
        return self.own_ip, self.port

    @property
    def paths(self) -> Paths:
        return self.cluster.paths

    def start(self) -> None:
        self.cluster.start("noded")

    def be_of_ganeti(self, is_so: bool = True) -> None:
        """Let the node daemons that are started from now on know no calls of ours."""
        self.cluster.modules = {"noded": "tests.support.machines.ganetinoded"} if is_so else {}

    def kill(self) -> None:
        self.cluster.kill("noded", signal.SIGKILL)

    def freeze(self) -> None:
        stop(self.cluster.daemons["noded"].pid)

    def thaw(self) -> None:
        self.cluster.daemons["noded"].send_signal(signal.SIGCONT)


@attrs.frozen
class Ended:
    """How a job of one opcode has ended."""

    status: str
    result: Any
    # texts of its log
    log: tuple[str, ...]

    @property
    def refusal(self) -> str:
        """The text of its error."""
        assert self.status == "error", self
        return str(self.result[1][0])


class Fleet:
    """A context manager that leaves no process behind.

    Args:
        cluster: more of the master's settings in [cluster], as TOML.
        listens_apart: whether daemons of nodes listen at 127.0.1.x, so that proxies may have the nodes' addresses.
        kind: of all machines.
    """

    def __init__(
        self,
        root: Path,
        count: int,
        *,
        cluster: str = "",
        listens_apart: bool = False,
        kind: type[Cluster] = Cluster,
    ) -> None:
        self._kind = kind
        self._own_net = "127.0.1" if listens_apart else "127.0.0"
        self._port = free_port()
        self.master = kind(root / "n1", settings=self._settings("node1.test", "127.0.0.1", cluster))
        make_missing(self.master.paths, "node1.test")
        self._root = root
        self.nodes = [self._node(number) for number in range(2, count + 2)]
        add_nodes(self.master.paths.config_data, {node.name: node.ip for node in self.nodes})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes:
            if "noded" in node.cluster.daemons:
                node.thaw()
            node.cluster.stop()
        self.master.stop()

    def start(self) -> None:
        for node in self.nodes:
            node.start()
        # its own vote counts too
        self.master.start("noded", "wconfd")

    def change_node(self, node: FleetNode, **values: object) -> None:
        """Change attributes of a node in the configuration; returns when wconfd does."""
        found: Mapping[str, Any] = self.master.wconf(GetObject("node", node.name))
        assert self.master.wconf(UpdateNode({**found, **values}))

    def carry_out(self, op_id: str, **parameters: object) -> Ended:
        """Carry out an opcode by a job; its job daemons must be running."""
        job_id = self.master.submit({"OP_ID": op_id, **parameters})
        self.master.wait(job_id)
        status, (result,), (log,) = self.master.job(job_id, "status", "opresult", "oplog")
        return Ended(status, result, tuple(entry[3] for entry in log))

    def start_node(self) -> FleetNode:
        """As `new_node`, with its daemon."""
        node = self.new_node()
        node.start()
        return node

    def nodes_by_name(self) -> dict[str, dict[str, Any]]:
        config: Any = self.master.wconf(ReadConfig())
        return {node["name"]: node for node in config["nodes"].values()}

    def certificates(self) -> dict[str, str]:
        """Digests by the names of the nodes."""
        config: Any = self.master.wconf(ReadConfig())
        certificates = config["cluster"]["candidate_certs"]
        return {config["nodes"][uuid]["name"]: digest for uuid, digest in certificates.items()}

    def set_pool_size(self, size: int) -> None:
        config: Any = self.master.wconf(ReadConfig())
        assert self.master.wconf(UpdateCluster({**config["cluster"], "candidate_pool_size": size}))

    def files_of_master(self) -> dict[str, bytes]:
        return files(self.master.paths)

    def until_same(self, *nodes: FleetNode) -> None:
        """Wait until these candidates have config.data and ssconf byte for byte as the master."""
        for node in nodes:
            wait_until(
                lambda at=node.paths: files(at) == self.files_of_master(),  # type: ignore[misc]
                what=f"{node.name} has the files of the master",
                state=lambda at=node.paths: differing(files(at), self.files_of_master()),  # type: ignore[misc]
            )

    def until_same_queue(self, *nodes: FleetNode) -> None:
        """Wait until these nodes have the queue byte for byte as the master."""
        for node in nodes:
            wait_until(
                lambda at=node.paths: queue_files(at) == queue_files(self.master.paths),  # type: ignore[misc]
                what=f"{node.name} has the queue of the master",
                state=lambda at=node.paths: differing(queue_files(at), queue_files(self.master.paths)),  # type: ignore[misc]
            )

    def until_same_state(self, *nodes: FleetNode) -> None:
        """Wait until these nodes have our files beside the queue byte for byte as the master."""
        for node in nodes:
            wait_until(
                lambda at=node.paths: state_files(at) == state_files(self.master.paths),  # type: ignore[misc]
                what=f"{node.name} has the state of the master",
                state=lambda at=node.paths: differing(state_files(at), state_files(self.master.paths)),  # type: ignore[misc]
            )

    @property
    def port(self) -> int:
        """Port of all node daemons."""
        return self._port

    def _settings(self, name: str, ip: str, cluster: str = "") -> str:
        own = f'{LEAN}[cluster]\nreplication = "nodes"\nnode_name = "{name}"\n{cluster}'
        return f'{own}[noded]\naddress = "{ip}"\nport = {self._port}\n'

    def new_node(self) -> FleetNode:
        """One more node, which has certificates; the cluster does not know it yet."""
        self.nodes.append(self._node(len(self.nodes) + 2))
        return self.nodes[-1]

    def _node(self, number: int) -> FleetNode:
        name, ip = f"node{number}.test", f"127.0.0.{number}"
        own_ip = f"{self._own_net}.{number}"
        cluster = self._kind(self._root / f"n{number}", settings=self._settings(name, own_ip))
        node = FleetNode(name, ip, cluster, self._port, own_ip)
        for path in (node.paths.config_data, *node.paths.data.glob("ssconf_*")):
            path.unlink()
        server_pem = self.master.paths.server_pem.read_bytes()
        write_certificate(node.paths.server_pem, server_pem)
        write_certificate(node.paths.client_pem, make_node_certificate(server_pem, name, NOW))
        return node


def state_files(paths: Paths) -> dict[str, bytes]:
    """The contents of the files of ours that candidates get, by name in the folder of data."""
    found = {}
    for path in (*paths.submissions.iterdir(), *paths.waits.iterdir()):
        with contextlib.suppress(FileNotFoundError):
            if path.suffix != ".tmp":
                found[str(path.relative_to(paths.data))] = path.read_bytes()
    return found


def files(paths: Paths) -> dict[str, bytes]:
    """The contents of config.data and of ssconf."""
    found = {}
    for path in (*paths.data.glob("ssconf_*"), paths.config_data):
        # one that is being written may be gone
        with contextlib.suppress(FileNotFoundError):
            if path.suffix not in (".new", ".tmp"):
                found[path.name] = path.read_bytes()
    return found


def queue_files(paths: Paths) -> dict[str, bytes]:
    """The contents of all files of a queue but its lock and version, which each node makes, by name in its folder."""
    found = {}
    for path in paths.queue.rglob("*"):
        # a file may be moved meanwhile
        with contextlib.suppress(FileNotFoundError):
            if path.is_file() and path.name not in ("lock", "version") and path.suffix != ".tmp":
                found[str(path.relative_to(paths.queue))] = path.read_bytes()
    return found


def differing(one: Mapping[str, bytes], other: Mapping[str, bytes]) -> list[str]:
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
