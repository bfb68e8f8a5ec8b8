"""Real daemons under a folder of their own, for the tests that start, kill and restart them.

cluster = Cluster(tmp_path)           # makes a one-node cluster, starts nothing
cluster.start("wconfd", "forkserver", "luxid")
cluster.luxi(CancelJob(JobId(7)))
cluster.kill("luxid")                 # SIGKILL, and wait until it is gone
cluster.crash()                       # SIGKILL of everything, as when the machine loses power
cluster.stop()                        # everything, jobs included
"""

import contextlib
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar
from weakref import WeakSet

import orjson

from common.clusterinit import create_cluster
from common.daemons import daemon_named, start_order
from common.ids import JobId
from common.jsontext import ascii_json
from common.paths import Paths
from common.settingsfile import load_settings
from common.system.processes import Process, descendants, holders, is_living, send_all
from common.wire import unstructure
from protocol.blocking import BlockingClient
from protocol.luxi.jobs import Accepted, OpInput, Refused, SubmitJob, SubmitManyJobs
from protocol.luxi.queries import QueryJobs
from protocol.messages import Request
from tests.support.daemons.preloaded import start_daemon
from tests.support.forks.forked import Forked
from tests.support.leftovers import kill_all_under
from tests.support.wait import PATIENCE_S, wait_until

R = TypeVar("R")
Daemon = subprocess.Popen[bytes] | Forked
CHECKOUT = Path(__file__).resolve().parents[2]
ALL = tuple(daemon.name for daemon in start_order())
FINAL = ("success", "error", "canceled")


class Cluster:
    """One installation; a context manager that leaves no process behind."""

    # whether daemons are forked from a process that has loaded their code: the tests' way; benchmarks start programs
    FORKS: ClassVar[bool] = False
    # those that are in use
    made: ClassVar["WeakSet[Cluster]"] = WeakSet()

    def __init__(self, root: Path, *, settings: str = "", descriptors: int | None = None) -> None:
        # at most so many for each daemon, and for what it starts; None: as the test has
        self._descriptors = descriptors
        self.root = root
        self.paths = Paths.under_root(root)
        self.daemons: dict[str, Daemon] = {}
        # modules that are run instead of a daemon's own, by its name
        self.modules: dict[str, str] = {}
        # options with which a daemon is started, by its name
        self.options: dict[str, tuple[str, ...]] = {}
        # seconds that the start of a daemon may take
        self.patience_s = PATIENCE_S
        self._clients: dict[Path, BlockingClient] = {}
        self.made.add(self)
        root.mkdir(parents=True, exist_ok=True)
        self.configure(settings)
        if not self.paths.config_data.exists():
            limit = load_settings(root).luxid.max_running_jobs
            create_cluster(self.paths, "cluster.test", "node1.test", max_running_jobs=limit)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def configure(self, settings: str) -> None:
        """Write the settings file, for the daemons that are started from now on."""
        (self.root / "gantry.toml").write_text(settings)

    def start(self, *names: str) -> None:
        """Start daemons (all, if none is named), one after the other, each until it is ready."""
        for name in names or ALL:
            self.daemons[name] = self._start_one(name)

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """Send a signal to a daemon and wait until it is gone."""
        daemon = self.daemons.pop(name)
        daemon.send_signal(number)
        daemon.wait(PATIENCE_S)

    def restart(self, name: str, number: int = signal.SIGKILL) -> None:
        """End a daemon by a signal and start it again."""
        self.kill(name, number)
        self.start(name)

    def kill_group(self, pid: int) -> None:
        """SIGKILL of a job process with everything that it started, and wait until they are gone."""
        assert pid > 0, "group 0 is that of the test itself"
        kill_tree(pid)
        wait_until(lambda: not _members(pid), what=f"process group {pid} is gone", state=lambda: _members(pid))

    def crash(self) -> None:
        """SIGKILL of all daemons, job processes and commands, until none is left."""
        kill_all_under(self.root)
        for daemon in self.daemons.values():
            daemon.wait(PATIENCE_S)
        self.daemons.clear()

    def stop(self) -> None:
        """End all daemons and every job process."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()
        for name in reversed(list(self.daemons)):
            self.kill(name, signal.SIGTERM)
        for pid in self.job_pids():
            kill_tree(pid)
        for live in self.paths.node_commands.glob("*.live"):
            for process in holders(str(live)):
                kill_tree(process.pid)

    def luxi(self, request: Request[R]) -> R:
        """Call luxid; waits for it to come back if it is being restarted."""
        return self._client(self.paths.query_socket).call_retrying(request)

    def luxi_wire(self, request: Request[R]) -> Any:
        """The same, with the reply as it goes over the wire."""
        return orjson.loads(ascii_json(unstructure(self.luxi(request))))

    def wconf_wire(self, request: Request[R]) -> Any:
        """The same of wconfd."""
        return orjson.loads(ascii_json(unstructure(self.wconf(request))))

    def wconf(self, request: Request[R]) -> R:
        """Call wconfd; waits for it to come back if it is being restarted."""
        return self._client(self.paths.wconfd_socket).call_retrying(request)

    def submit(self, *ops: OpInput) -> JobId:
        return self.luxi(SubmitJob(ops))

    def submit_many(self, *jobs: tuple[OpInput, ...]) -> list[JobId]:
        answers = self.luxi(SubmitManyJobs(jobs))
        refused = [answer for answer in answers if isinstance(answer, Refused)]
        assert not refused, refused
        return [answer.job_id for answer in answers if isinstance(answer, Accepted)]

    def job(self, job_id: int, *fields: str) -> tuple[Any, ...]:
        """The values of these fields of a job."""
        return self.luxi(QueryJobs((JobId(job_id),), fields))[0]

    def status(self, job_id: int) -> str:
        return str(self.job(job_id, "status")[0])

    def wait(self, *job_ids: int, status: str | None = None) -> list[str]:
        """Wait until the jobs are final, or all have `status`; answers what they then are."""

        def there() -> bool:
            return all(state in (FINAL if status is None else (status,)) for state in self._states(job_ids))

        wanted = status or "final"
        wait_until(there, what=f"jobs {job_ids} are {wanted}", state=lambda: self._states(job_ids))
        return self._states(job_ids)

    def job_pids(self) -> Iterator[int]:
        """Pids of the job processes that live, by their livelocks, and by what the files of jobs say."""
        from common.queue.jobfile import decode_job
        from common.system.livelock import is_alive, livelocks_of_jobs, process_of

        found: set[int] = set()
        # one that waits for its locks has written nothing yet
        with contextlib.suppress(OSError):
            found.update(pid for path in livelocks_of_jobs(self.paths.livelocks).values() if (pid := process_of(path)))
        for path in self.paths.queue.glob("job-*"):
            with contextlib.suppress(Exception):
                job = decode_job(path.read_bytes(), path.name)
                if job.process_id and job.livelock and is_alive(job.livelock):
                    found.add(job.process_id)
        yield from found

    def log(self, name: str) -> str:
        """What a daemon has logged so far."""
        path = self.paths.log_file(name)
        return path.read_text() if path.exists() else ""

    def _states(self, job_ids: tuple[int, ...]) -> list[str]:
        return [str(row[0]) for row in self.luxi(QueryJobs(tuple(map(JobId, job_ids)), ("status",)))]

    def _client(self, path: Path) -> BlockingClient:
        if path not in self._clients:
            self._clients[path] = BlockingClient(path)
        return self._clients[path]

    def _start_one(self, name: str) -> Daemon:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready:
            address = self.root / f"ready-{name}"
            address.unlink(missing_ok=True)
            ready.bind(str(address))
            ready.settimeout(0.1)
            # a file, since the job processes keep it open when the fork server is gone
            env = {**os.environ, "PYTHONPATH": str(CHECKOUT), "NOTIFY_SOCKET": str(address)}
            with self._errors(name).open("wb") as errors:
                daemon = self._launch(name, env, errors.fileno())
            wait_until(
                lambda: daemon.poll() is not None or _says_ready(ready),
                what=f"{name} is ready",
                timeout_s=self.patience_s,
            )
        if daemon.returncode is not None:
            text = self._errors(name).read_text()
            raise AssertionError(f"{name} ended with {daemon.returncode}: {text}\n{self.log(name)[-2000:]}")
        return daemon

    def _launch(self, name: str, env: Mapping[str, str], errors: int) -> Daemon:
        arguments = ["--root", str(self.root), *self.options.get(name, ())]
        if self.FORKS and name not in self.modules:
            return start_daemon(daemon_named(name).module, arguments, env, errors, limit=self._descriptors)
        module = self.modules.get(name, daemon_named(name).module)
        return subprocess.Popen(
            [sys.executable, "-P", "-m", module, *arguments],
            env=env,
            stderr=errors,
            preexec_fn=self._limit if self._descriptors else None,
        )

    def _limit(self) -> None:
        assert self._descriptors
        resource.setrlimit(resource.RLIMIT_NOFILE, (self._descriptors, self._descriptors))

    def _errors(self, name: str) -> Path:
        return self.root / f"stderr-{name}"


def kill_tree(pid: int) -> None:
    """SIGKILL of a job process and of all that it started.

    A process group is not enough: a supervisor leaves that of its job process, and the command joins it later. The
    supervisor holds the livelock from its fork on, and outlives the command.
    """
    livelocks = [path for path in _open_files(pid) if "/livelocks/" in path]
    found = descendants(pid)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)

    def kill_all() -> bool:
        nonlocal found
        supervisors = frozenset[Process]().union(*map(holders, livelocks))
        found |= supervisors | descendants(*(process.pid for process in supervisors | found))
        send_all(found, signal.SIGKILL)
        return not any(map(is_living, found))

    wait_until(kill_all, what=f"nothing is left of what process {pid} started", state=lambda: found)


def _open_files(pid: int) -> list[str]:
    try:
        return [os.readlink(fd) for fd in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return []


def _members(group: int) -> list[int]:
    """The living processes of a process group; zombies are not living."""
    members = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            state, _, found = Path("/proc", name, "stat").read_text().rpartition(")")[2].split()[:3]
            if int(found) == group and state != "Z":
                members.append(int(name))
    return members


def _says_ready(ready: socket.socket) -> bool:
    try:
        return b"READY=1" in ready.recv(4096)
    except TimeoutError:
        return False
