"""What reached a real Ganeti's node daemon gets the same replies from ours (vectors/noded)."""

import json
from pathlib import Path

import pytest

from common.paths import Paths
from protocol.noded.call import read_request
from protocol.noded.files import WriteSsconfFiles
from protocol.noded.procedures import REFUSED
from protocol.noded.statefiles import JobqueueUpdate
from tests.support.machines.noded import recorded_calls
from tests.support.machines.nodes import Node

# facts of a machine
OF_THE_MACHINE = ("node_info",)
# ours has no such bridge, and no hypervisor or operating system
NOT_HERE = {"bridges_exist", *REFUSED}


@pytest.fixture
def node(idle: Node) -> Node:
    # as Ganeti's virtual clusters have their folders
    data = idle.root / "var" / "lib" / "ganeti"
    data.parent.mkdir(parents=True)
    idle.paths.data.rename(data)
    settings = idle.root / "gantry.toml"
    idle.cluster.configure(f'{settings.read_text()}[paths]\ndata = "{data}"\n')
    idle.cluster.paths = idle.paths = Paths(data, idle.paths.run, idle.paths.log)
    idle.start()
    return idle


def test_recorded_requests_get_the_recorded_replies(node: Node) -> None:
    last: dict[str, bytes] = {}
    for call in recorded_calls():
        status, body = node.send(call.procedure, call.request)
        reply, recorded = json.loads(body), json.loads(call.reply)

        assert status == 200
        if call.procedure in OF_THE_MACHINE:
            assert _shape(reply) == _shape(recorded)
        elif call.procedure in NOT_HERE or not recorded[0]:
            assert reply[0] is False
            assert isinstance(reply[1], str)
        else:
            assert body == call.reply
        if call.procedure == WriteSsconfFiles.METHOD:
            # the candidates are those of that cluster now
            assert node.send("version", b"[]")[0] == 403
            node.set_candidates(node.client_pem)
        if call.procedure == JobqueueUpdate.METHOD:
            update = read_request(JobqueueUpdate, call.request)
            last[Path(update.file_name).name] = update.content.data

    assert last.keys() >= {"serial", "job-4", "job-8"}
    assert {name: (node.paths.queue / name).read_bytes() for name in last} == last
    assert json.loads(node.paths.config_data.read_bytes())["serial_no"] > 1
    assert not node.paths.drain_file.exists()
    assert node.paths.ssconf_file("cluster_tags").read_text() == "foo\n"


def _shape(reply: object) -> object:
    """A reply without its numbers and texts."""
    if isinstance(reply, dict):
        return {key: _shape(value) for key, value in reply.items()}
    return [_shape(value) for value in reply] if isinstance(reply, list) else type(reply)
