"""A real fork server under a fresh root, and luxid's part of starting a job, played by the test."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import orjson

from common.durable.atomicfile import write_file
from common.ids import JobId
from common.paths import Paths
from common.queue.jobfile import decode_job, encode_job
from common.queue.jobs import Job, JobOp, JobState
from common.queue.sidefiles import add_lines, read_all_lines
from common.system.livelock import is_alive, process_of
from protocol.framing import Framer, pack
from tests.support.daemons.preloaded import start_daemon
from tests.support.fakes.wconfd import FakeWconfd
from tests.support.forks.forked import Forked
from tests.support.wait import PATIENCE_S, wait_until

CHECKOUT = Path(__file__).resolve().parents[3]
MODULE = "daemons.jobproc.forkserver.main"


class Control:
    """A control connection to the fork server."""

    def __init__(self, path: Path) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE_S)
        self.sock.connect(str(path))
        self._framer = Framer()
        self._whole: list[Any] = []

    def send(self, payload: bytes, *fds: int) -> None:
        socket.send_fds(self.sock, [pack(payload)], fds)

    def start(self, job_id: int) -> socket.socket:
        """Ask for a process of this job; the returned socket leads to it."""
        ours, theirs = socket.socketpair()
        ours.settimeout(PATIENCE_S)
        with theirs:
            self.send(orjson.dumps({"jsonrpc": "2.0", "method": "startJob", "params": [job_id]}), theirs.fileno())
        return ours

    def reply(self) -> Any:
        """The next message."""
        return self._next()

    def is_closed(self) -> bool:
        """Whether the fork server has closed the connection; waits until it does or says something."""
        try:
            return self.sock.recv(1) == b""
        except ConnectionResetError:
            return True

    def _next(self) -> Any:
        while not self._whole:
            data = self.sock.recv(65536)
            if not data:
                raise EOFError("the fork server closed the connection")
            self._whole += map(orjson.loads, self._framer.feed(data))
        return self._whole.pop(0)


@attrs.define
class Started:
    """A job process that was started."""

    job_id: int
    pid: int
    livelock: str
    sock: socket.socket


class JobHost:
    """A root folder with a fork server, a fake wconfd and the files of jobs."""

    def __init__(self, root: Path, settings: str = "") -> None:
        self.root = root
        self.paths = Paths.under_root(root)
        self.paths.make_folders()
        (root / "gantry.toml").write_text(settings)
        self.wconfd = FakeWconfd(self.paths.wconfd_socket)
        self.wconfd.start()
        self.server: subprocess.Popen[bytes] | Forked | None = None
        # words before the server's command, such as a shell that changes its surroundings
        self.prefix: tuple[str, ...] = ()
        self._control: Control | None = None
        self._pids: list[int] = []
        self._sockets: list[socket.socket] = []

    def start_server(self, **env: str) -> None:
        """Start the fork server and wait until it is ready; as a program, if its surroundings are to be others."""
        address = self.root / "ready"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready:
            ready.bind(str(address))
            ready.settimeout(PATIENCE_S)
            start = self.spawn_server if self.prefix or env else self._fork_server
            self.server = start(NOTIFY_SOCKET=str(address), **env)
            assert b"READY=1" in ready.recv(4096)
        address.unlink()

    def _fork_server(self, **env: str) -> Forked:
        with (self.root / "stderr-forkserver").open("wb") as errors:
            environment = {**os.environ, **env, "PYTHONPATH": str(CHECKOUT)}
            return start_daemon(MODULE, ["--root", str(self.root)], environment, errors.fileno())

    def spawn_server(self, *options: str, **env: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [
                *self.prefix,
                sys.executable,
                "-P",
                "-m",
                MODULE,
                "--root",
                str(self.root),
                *options,
            ],
            env={**os.environ, **env, "PYTHONPATH": f"{CHECKOUT}:{env.get('PYTHONPATH', '')}"},
            stderr=subprocess.PIPE,
        )

    @property
    def control(self) -> Control:
        if self._control is None:
            self._control = Control(self.paths.forkserver_socket)
        return self._control

    def reconnect(self) -> None:
        if self._control is not None:
            self._control.sock.close()
        self._control = None

    def write_job(self, job_id: int, *ops: dict[str, Any], **first: Any) -> None:
        """Write a queued job; `first` changes fields of its first opcode, such as `priority`."""
        jobops = [JobOp(op) for op in ops]
        jobops[0] = attrs.evolve(jobops[0], **first)
        write_file(self.paths.job_file(job_id), encode_job(Job(JobId(job_id), tuple(jobops))))

    def fork(self, job_id: int) -> Started:
        """Start a process and read its livelock; it waits for the go-ahead then."""
        ours = self.control.start(job_id)
        self._sockets.append(ours)
        livelock = read_message(ours).decode()
        pid = process_of(livelock)
        assert pid is not None
        self._pids.append(pid)
        return Started(job_id, pid, livelock, ours)

    def wait_exit(self, pid: int) -> None:
        """Wait until a job process has ended and the fork server has reaped it."""
        wait_until(lambda: not Path(f"/proc/{pid}").exists(), what=f"process {pid} has ended")

    def go(self, started: Started, secrets: Sequence[Any] = ()) -> Started:
        """Give the go-ahead and the secrets."""
        started.sock.sendall(pack(b"") + pack(orjson.dumps(list(secrets))))
        assert started.sock.recv(1) == b""
        started.sock.close()
        return started

    def start(self, job_id: int, *ops: dict[str, Any], **first: Any) -> Started:
        """Write a job and start it."""
        self.write_job(job_id, *ops, **first)
        return self.go(self.fork(job_id))

    def run(self, job_id: int, *ops: dict[str, Any]) -> Job:
        """Write a job, start it, wait for the end of its process; the job as it is then."""
        self.wait_exit(self.start(job_id, *ops).pid)
        return self.job(job_id)

    def job(self, job_id: int) -> Job:
        """The job as its file says, with the log lines that lie beside it."""
        # these first: they may go into the file meanwhile
        lines = read_all_lines(self.paths.job_log(job_id))
        path = self.paths.job_file(job_id)
        return add_lines(decode_job(path.read_bytes(), path.name), lines)

    def states(self, job_id: int) -> list[str]:
        return [op.state.value for op in self.job(job_id).ops]

    def wait_state(self, job_id: int, state: JobState) -> None:
        wait_until(
            lambda: self.job(job_id).state is state,
            what=f"job {job_id} is {state.value}",
            state=lambda: self.states(job_id),
        )

    def wait_dead(self, livelock: str) -> None:
        wait_until(lambda: not is_alive(livelock), what=f"{livelock} is dead")

    def log(self) -> str:
        return self.paths.log_file("forkserver").read_text()

    def close(self) -> None:
        for pid in self._pids:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        if self.server is not None:
            self.server.kill()
            self.server.wait()
            if isinstance(self.server, subprocess.Popen) and self.server.stderr is not None:
                self.server.stderr.close()
        self.reconnect()
        for sock in self._sockets:
            sock.close()
        self.wconfd.stop()


def read_message(sock: socket.socket) -> bytes:
    """The next message, read byte by byte so that nothing of the one after it is lost."""
    data = b""
    while (byte := sock.recv(1)) != b"\x03":
        if not byte:
            raise EOFError("the job process closed the socket")
        data += byte
    return data
