"""An etcd of three members for a demo: real ones, on loopback, with data in a folder of their own."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self

from protocol.etcd.member import BROKEN_RELEASES

_PATIENCE_S = 60.0
# seconds; a member has to reply within them
_REPLY_S = 2.0
_INSTALL = """\
this demo needs etcd 3.4, or 3.5.3 or later, and there is none. Install Debian's (its service need not run):
    apt-get install etcd-server"""


def find_etcd() -> str:
    """The path of a program whose release Gantry accepts, in PATH or beside Python.

    Raises: SystemExit: there is none; the message says what was found, and what to install.
    """
    refused = []
    for path in _places():
        release = _release(path)
        if release and release not in BROKEN_RELEASES:
            return path
        why = f"release {release}, which may lose data when it crashes" if release else "no etcd"
        refused.append(f"\nnot used: {path} is {why}")
    raise SystemExit(_INSTALL + "".join(refused))


def _places() -> Iterator[str]:
    folders = (*os.environ.get("PATH", os.defpath).split(os.pathsep), str(Path(sys.executable).parent))
    found = (shutil.which("etcd", path=folder) for folder in folders)
    yield from dict.fromkeys(path for path in found if path is not None)


def _release(path: str) -> str:
    """Such as 3.4.23; empty: it does not say."""
    try:
        told = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    match = re.search(r"etcd Version: (\S+)", told.stdout)
    return match.group(1) if match else ""


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
            # with what it has started: the program in .venv/bin may only be one that starts another
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
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
