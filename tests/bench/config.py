"""Readers of small and large configurations, through a real wconfd; `python -m tests.bench config`.

The time includes what the client takes to read the answer; beside it, the time until all bytes of the answer are there,
and what it takes to write and read the same JSON without a daemon.
"""

import gc
import socket
import tempfile
from pathlib import Path

import attrs
import orjson

from common.objects.codec import decode_config, encode_config
from common.objects.config import Config
from common.objects.kinds import DiskUuid, InstanceUuid
from protocol.framing import MAX_REPLY, Framer
from protocol.wconfd.config import GetObject, ReadConfig
from tests.bench.conversations import prepared
from tests.bench.figures import median_ms, show
from tests.support.cluster import Cluster
from tests.support.configs import disk, instance

# instances with their disks, from the configuration of a new cluster to a fleet
INSTANCES = (8, 145, 1_550, 6_200)
READS = 30
_CHUNK = 65536
_NIC = {
    "mac": "aa:00:00:00:00:01",
    "ip": "192.0.2.7",
    "nicparams": {"mode": "bridged", "link": "br0"},
    "network": None,
    "uuid": "0a1b2c3d-0000-4000-8000-000000000000",
}


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="gantry-bench-") as scratch:
        for count in INSTANCES:
            measure(Path(scratch) / f"instances{count}", count)


def measure(root: Path, instances: int) -> None:
    with Cluster(root) as cluster:
        path = cluster.paths.config_data
        content = encode_config(_grown(decode_config(orjson.loads(path.read_bytes())), instances)).content
        path.write_bytes(content)
        cluster.start("wconfd")
        answer = cluster.wconf_wire(ReadConfig())
        assert len(answer["instances"]) == instances
        size = f"{len(content) / 1024:.0f} KiB"
        # what is there by now belongs to the benchmark, no client would go through it again and again
        gc.collect()
        gc.freeze()
        bare = median_ms(lambda: orjson.loads(orjson.dumps(answer)), READS)
        bytes_only = _bytes_ms(cluster)
        whole = median_ms(lambda: cluster.wconf(ReadConfig()), READS)
        one = median_ms(lambda: cluster.wconf(GetObject("instance", "i0")), READS)
        show(f"readConfig of {size}", whole, "ms", f"bytes {bytes_only:.2f} ms; bare JSON {bare:.2f} ms")
        show(f"getObject of one instance of {size}", one, "ms")


def _bytes_ms(cluster: Cluster) -> float:
    """Median milliseconds until the whole answer has come, unread."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.connect(str(cluster.paths.wconfd_socket))
        framer, call = Framer(MAX_REPLY), prepared(ReadConfig())

        def read() -> None:
            sock.sendall(call)
            while not list(framer.feed(sock.recv(_CHUNK))):
                pass

        return median_ms(read, READS)


def _grown(config: Config, instances: int) -> Config:
    (node,) = config.nodes
    numbers = range(instances)
    return attrs.evolve(
        config,
        instances={
            InstanceUuid(f"i{number}"): instance(f"i{number}", primary_node=node, disks=[f"d{number}"], nics=[_NIC])
            for number in numbers
        },
        disks={DiskUuid(f"d{number}"): disk(f"d{number}", nodes=[node]) for number in numbers},
    )
