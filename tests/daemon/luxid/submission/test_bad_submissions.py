"""Submissions that cannot be read are answered as any unreadable request: a plain text, and the end (luxid.md 1.4)."""

import socket
from typing import Any

import orjson
import pytest

from protocol.framing import ETX
from tests.daemon.luxid.ops import delay, dummy
from tests.support.cluster import Cluster
from tests.support.wait import PATIENCE_S


class RawClient:
    """A connection on which bytes are sent and read as they are."""

    def __init__(self, cluster: Cluster) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(cluster.paths.query_socket))
        self.sock.settimeout(PATIENCE_S)

    def ask(self, message: dict[str, Any]) -> Any:
        self.sock.sendall(orjson.dumps(message) + ETX)
        data = b""
        while not data.endswith(ETX):
            data += self.sock.recv(65536)
        return orjson.loads(data[:-1])

    def is_closed(self) -> bool:
        """Whether the server closes the connection."""
        return self.sock.recv(1) == b""


BAD_JOBS = [
    [{"OP_ID": "OP_NO_SUCH"}],
    [{"duration": 1}],
    [delay(1, colour="blue")],
    [delay("x")],  # type: ignore[arg-type]
    [dummy(), delay(1, priority=5)],
    [delay(1, depends=[[-1, None]])],
]


@pytest.mark.parametrize("method", ["SubmitJob", "SubmitManyJobs", "SubmitJobToDrainedQueue"])
def test_an_opcode_that_cannot_be_read_ends_the_connection(cluster: Cluster, method: str) -> None:
    for job in BAD_JOBS:
        client = RawClient(cluster)
        reply = client.ask({"method": method, "args": [[[dummy()], job] if method == "SubmitManyJobs" else job]})

        assert reply["success"] is False
        assert isinstance(reply["result"], str)
        assert client.is_closed()
        client.sock.close()
    assert cluster.paths.serial_file.read_text() == "0\n"


def test_a_dependency_on_nothing_is_an_error_of_the_call_alone(cluster: Cluster) -> None:
    """luxid.md 5.4, 13 (BUG-4)."""
    client = RawClient(cluster)
    many = {"method": "SubmitManyJobs", "args": [[[delay(1, depends=[[-1, []]])]]]}
    one = {"method": "SubmitJob", "args": [[delay(1, depends=[[-1, []]])]]}

    assert client.ask(one)["result"][0] == "GenericError"
    [[is_taken, why]] = client.ask(many)["result"]
    assert (is_taken, "points before the submission" in why) == (False, True)
    assert client.ask({"method": "SubmitJob", "args": [[dummy()]]})["result"] == 1
    client.sock.close()


def test_json_rpc_keeps_its_one_shape_and_its_connection(cluster: Cluster) -> None:
    client = RawClient(cluster)
    message = {"jsonrpc": "2.0", "id": 1, "method": "SubmitJob", "params": [[{"OP_ID": "OP_NO_SUCH"}]]}

    assert client.ask(message)["error"]["data"]["code"] == "invalid"
    assert client.ask(message)["id"] == 1
    client.sock.close()
