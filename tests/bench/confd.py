"""confd: answers a second, by one client that waits for each and by several that do not; CPU of an answer.

The configuration has the given number of nodes and of instances.
"""

import socket
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from protocol.confd.questions import Argument, ConfdRequest, Question, seal
from tests.bench.figures import median, show
from tests.support.machines.confdpeers import ConfdCluster
from tests.support.machines.confds import KEY

NODES: Final = 100
INSTANCES: Final = 1000
COUNT: Final = 5000
# requests that are under way at once
AT_ONCE: Final = 16
_CASES: Final[tuple[tuple[str, Question, Argument], ...]] = (
    ("ping", Question.PING, None),
    ("role of a node", Question.NODE_ROLE, "node7.test"),
    (f"addresses of {NODES} nodes", Question.NODE_IPS, None),
    ("disks of an instance", Question.INSTANCE_DISKS, "inst7.test"),
)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="gantry-bench-") as scratch, ConfdCluster(Path(scratch)) as confd:
        _grow(confd.document)
        confd.write()
        confd.start()
        pid = confd.cluster.daemons["confd"].pid
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.connect((confd.peer.host, confd.peer.port))
            sock.settimeout(10)
            for what, question, argument in _CASES:
                datagram = seal(KEY, ConfdRequest(question, "r", argument).to_text(), str(int(time.time())))
                rate = median(lambda asked=datagram: _rate(sock, asked, 1))  # type: ignore[misc]
                before = _cpu_s(pid)
                many = median(lambda asked=datagram: _rate(sock, asked, AT_ONCE))  # type: ignore[misc]
                spent = (_cpu_s(pid) - before) / (3 * COUNT)
                show(f"confd: {what}, one after the other", rate, "/s")
                show(f"confd: {what}, {AT_ONCE} at once", many, "/s", f"{spent * 1e6:.0f} us CPU of confd each")


def _rate(sock: socket.socket, datagram: bytes, at_once: int) -> float:
    began = time.perf_counter()
    for _ in range(at_once):
        sock.send(datagram)
    for number in range(COUNT):
        sock.recv(65536)
        if number < COUNT - at_once:
            sock.send(datagram)
    return COUNT / (time.perf_counter() - began)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def _grow(document: dict[str, Any]) -> None:
    nodes, instances = document["nodes"], document["instances"]
    node, instance = next(iter(nodes.values())), next(iter(instances.values()))
    for number in range(len(nodes), NODES):
        nodes[f"n{number}"] = {**node, "uuid": f"n{number}", "name": f"node{number}.test", "master_candidate": False}
    for number in range(len(instances), INSTANCES):
        own = {"uuid": f"i{number}", "name": f"inst{number}.test", "nics": []}
        instances[f"i{number}"] = {**instance, **own}
