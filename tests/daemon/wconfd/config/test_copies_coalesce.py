"""Only the latest configuration is sent, and a slow node delays no other (noded.md 8)."""

import itertools
from pathlib import Path

import attrs
import orjson
import pytest
import trio

from common.clusterinit import create_cluster
from common.objects.codec import decode_config
from common.objects.kinds import NodeUuid
from common.settingsfile import load_settings
from daemons.wconfd.core.config.configstate import ConfigState
from daemons.wconfd.distribution import ConfigChange
from daemons.wconfd.nodes.nodesdistribution import distributing_to_nodes
from protocol.noded.call import read_request
from protocol.noded.files import UploadFileSingle
from tests.support.machines.nodedaemons import Behaviour, MadeUpCluster, Seen, replying, serve

pytestmark = pytest.mark.trio


def slow(seen: Seen, may_go: trio.Event) -> Behaviour:
    """Reply as a node daemon does, but only from a moment on."""
    behave = replying(seen, b"[true, null]\n")

    async def wait(stream: trio.abc.Stream) -> None:
        seen.note()
        await may_go.wait()
        await behave(stream)

    return wait


def serials(seen: Seen) -> list[int]:
    """The serial numbers of the configurations that came."""
    uploads = [
        read_request(UploadFileSingle, body)
        for request, body in zip(seen.requests, seen.bodies, strict=True)
        if request.target == b"/upload_file_single"
    ]
    return [orjson.loads(upload.content.data)["serial_no"] for upload in uploads]


async def test_changes_that_come_while_a_node_is_slow_share_one_upload(tmp_path: Path, nursery: trio.Nursery) -> None:
    (tmp_path / "lib").mkdir()
    cluster, seen, may_go = MadeUpCluster(tmp_path / "lib"), Seen(), trio.Event()
    address = await serve(nursery, slow(seen, may_go), cluster.server_context(), seen)
    (tmp_path / "gantry.toml").write_text(f'[cluster]\nreplication = "nodes"\n[noded]\nport = {address.port}\n')
    settings = load_settings(tmp_path)
    create_cluster(settings.paths, "cluster.test", "node1.test")
    config = decode_config(orjson.loads(settings.paths.config_data.read_bytes()))
    (master,) = config.nodes.values()
    other = attrs.evolve(master, uuid="n2", name="node2.test", primary_ip="127.0.0.1")
    config = attrs.evolve(config, nodes={**config.nodes, NodeUuid("n2"): other})
    states = [ConfigState.of(attrs.evolve(config, serial_no=number)) for number in range(1, 21)]

    async with distributing_to_nodes(settings) as way:
        for before, after in itertools.pairwise(states):
            way.after(ConfigChange(before=before, after=after, note_before=b"", note=b""))
            if after is states[3]:
                # the first call is under way
                await seen.until(lambda: seen.connections == 1)
        may_go.set()
        left_out = await way.spread(states[-1])

    assert left_out == frozenset()
    assert serials(seen)[-1] == 20
    assert len(serials(seen)) <= 2
