"""The same HTTP server with nothing behind it: what a request costs before rapid has done anything.

python -m tests.bench.bare.webserver SOCKET PORT CERTIFICATE
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import trio

from common.featuresettings import RapidSettings
from daemons.rapid.transport.certificate import FileIdentity
from protocol.http.connections import Connections, open_listener
from protocol.unixsocket import listen
from tests.support.machines.nodes import HOST
from tests.support.wait import wait_until

HELLO: Final = b'{"hello": "world"}\n'


async def hello(scope: Any, receive: Any, send: Any) -> None:
    while (await receive()).get("more_body"):
        pass
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(HELLO)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": HELLO, "more_body": False})


async def serve(path: Path, port: int, certificate: Path) -> None:
    rules = RapidSettings()
    with open_listener(HOST, port, where="the arguments") as network, listen(path, 0o600, 256) as local:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(Connections(hello, FileIdentity(certificate), rules).serve, network)
            nursery.start_soon(Connections(hello, None, rules).serve, local)


@contextmanager
def bare_server(path: Path, port: int, certificate: Path) -> Iterator[int]:
    """Run it in a process of its own; gives its pid."""
    command = [sys.executable, "-m", "tests.bench.bare.webserver", str(path), str(port), str(certificate)]
    process = subprocess.Popen(command)
    try:
        wait_until(path.exists, what="the bare server listens", state=process.poll)
        yield process.pid
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    trio.run(serve, Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
