"""Many node daemons in one thread: real TLS with a cluster's certificates, and replies as a test wants.

    with SimulatedNodes(paths, port, {"127.0.0.2": telling({"version": 3000000}), "127.0.0.3": silent}) as nodes:
        nodes["127.0.0.2"].bodies       # what it was asked

As a program it plays nodes for a measurement: `python -m tests.support.machines.simulated ROOT PORT COUNT HANGING`,
at 127.0.0.1 and so on, of which the last ones hang; it writes a line when they listen.
"""

import functools
import json
import ssl
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final, Self

import h11
import orjson
import trio

from common.paths import Paths
from tests.support.machines.nodedaemons import Behaviour, Seen, next_event

# facts as a recorded node told them (tests/data/noded/rpc-node2.jsonl)
RECORDED_FACTS: Final = {
    "memory_total": 24105,
    "memory_dom0": 137,
    "memory_free": 23117,
    "cpu_total": 2,
    "cpu_dom0": 2,
    "cpu_nodes": 1,
    "cpu_sockets": 1,
}
MASTER: Final = "node1.test"
NODE_INFO: Final = ["17f9c0d3-cf56-4beb-9d2e-47a3c41dd1e1", [], [RECORDED_FACTS]]

# makes the behaviour of a node, from what notes what the node has seen
Node = Callable[[Seen], Behaviour]
Payload = object | Callable[[], Awaitable[object]]


class SimulatedNodes:
    """A context manager. Args: nodes: address -> behaviour."""

    def __init__(self, paths: Paths, port: int, nodes: Mapping[str, Node]) -> None:
        self._context = server_context(paths)
        self._port = port
        self._nodes = nodes
        self._seen = {ip: Seen() for ip in nodes}
        self._thread = threading.Thread(target=trio.run, args=(self._serve,), daemon=True)
        self._listens = threading.Event()
        self._scope = trio.CancelScope()
        self._token: trio.lowlevel.TrioToken | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._listens.wait(60), "the nodes do not listen"
        return self

    def __exit__(self, *_: object) -> None:
        assert self._token is not None
        self._token.run_sync_soon(self._scope.cancel)
        self._thread.join()

    def __getitem__(self, ip: str) -> Seen:
        """What the node at this address has seen so far."""
        return self._seen[ip]

    async def _serve(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        with self._scope:
            async with trio.open_nursery() as nursery:
                for ip, node in self._nodes.items():
                    behave = functools.partial(_serve_one, node(self._seen[ip]), self._context, self._seen[ip])
                    (listener,) = await trio.open_tcp_listeners(self._port, host=ip)
                    nursery.start_soon(trio.serve_listeners, behave, [listener])
                self._listens.set()


async def _serve_one(behave: Behaviour, context: ssl.SSLContext, seen: Seen, tcp: trio.SocketStream) -> None:
    seen.connections += 1
    seen.connected += 1
    stream = trio.SSLStream(tcp, context, server_side=True, https_compatible=True)
    try:
        await stream.do_handshake()
        await behave(stream)
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass
    finally:
        seen.connected -= 1
        await trio.aclose_forcefully(stream)


def server_context(paths: Paths) -> ssl.SSLContext:
    """The context of a node daemon with the certificate of the cluster itself."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(paths.server_pem)
    context.load_verify_locations(paths.server_pem)
    return context


def telling(replies: Mapping[str, Payload]) -> Node:
    """Reply to each procedure with its payload, or with what the function returns; refuse all others.

    Asked for the master, a node names the one of a new cluster, so that the master's daemons may start.
    """
    every: Mapping[str, Payload] = {"master_node_name": MASTER, **replies}

    async def reply(procedure: str) -> bytes:
        if procedure not in every:
            return json.dumps([False, f"nothing is known of {procedure}"]).encode()
        payload = every[procedure]
        found = await payload() if callable(payload) else payload
        return json.dumps([True, found]).encode()

    return lambda seen: functools.partial(_converse, seen, reply)


# names the master, and never replies to a question about itself
silent: Final = telling({"node_info": trio.sleep_forever})


async def _converse(seen: Seen, reply: Callable[[str], Awaitable[bytes]], stream: trio.abc.Stream) -> None:
    http = h11.Connection(h11.SERVER)
    while isinstance(request := await next_event(stream, http), h11.Request):
        received = bytearray()
        while isinstance(event := await next_event(stream, http), h11.Data):
            received += event.data
        seen.requests.append(request)
        seen.bodies.append(bytes(received))
        procedure = request.target.decode().removeprefix("/")
        body = await _until_closed(stream, reply, procedure)
        if body is None:
            seen.given_up.append(procedure)
            return
        headers = [("Content-Length", str(len(body)))]
        parts = (h11.Response(status_code=200, headers=headers), h11.Data(data=body), h11.EndOfMessage())
        await stream.send_all(b"".join(http.send(part) or b"" for part in parts))
        http.start_next_cycle()


async def _until_closed(
    stream: trio.abc.Stream, reply: Callable[[str], Awaitable[bytes]], procedure: str
) -> bytes | None:
    """The reply; None: the caller has gone before."""
    body: bytes | None = None
    async with trio.open_nursery() as nursery:

        async def watch() -> None:
            # the callers send nothing before they have their reply
            await stream.receive_some()
            nursery.cancel_scope.cancel()

        nursery.start_soon(watch)
        body = await reply(procedure)
        nursery.cancel_scope.cancel()
    return body


def add_nodes(config_data: Path, nodes: Mapping[str, str], **values: object) -> None:
    """Add nodes to the configuration of a cluster of one. Args: nodes: name -> address; values: attributes of all."""
    config = orjson.loads(config_data.read_bytes())
    (first,) = config["nodes"].values()
    for name, ip in nodes.items():
        uuid = name.partition(".")[0]
        config["nodes"][uuid] = {**first, "uuid": uuid, "name": name, "primary_ip": ip, "secondary_ip": ip, **values}
    config_data.write_bytes(orjson.dumps(config))


def main(root: str, port: str, count: str, hanging: str) -> None:
    """Play nodes until the standard input ends."""
    living = int(count) - int(hanging)
    behaviours = [telling({"node_info": NODE_INFO})] * living + [silent] * int(hanging)
    nodes = {f"127.0.0.{number}": behaviour for number, behaviour in enumerate(behaviours, 1)}
    with SimulatedNodes(Paths.under_root(Path(root)), int(port), nodes):
        print("listening", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
