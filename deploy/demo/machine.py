"""A machine of the demo: a folder and an address of its own, and what an operator does there."""

import contextlib
import hashlib
import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs
from stage import quietly, show, show_command

# files that each machine has of its own
_OWN_FILES = ("lock", "version")
_PATIENCE_S = 60.0
# seconds until a command on a machine that is silent counts as lost; the usual five minutes would be a long demo
_LOST_S = 2


@attrs.frozen
class Machine:
    name: str
    address: str
    root: Path

    @property
    def data(self) -> Path:
        return self.root / "lib"

    def settle(
        self,
        port: int,
        join_port: int,
        confd_port: int,
        mond_port: int,
        *,
        replication: str = "nodes",
        tables: str = "",
    ) -> None:
        """Write its settings. On a machine of its own it needs no address, no name and no ports.

        Args: tables: more of them, as TOML.
        """
        self.root.mkdir(mode=0o700)
        (self.root / "gantry.toml").write_text(
            f'[cluster]\nreplication = "{replication}"\nnode_name = "{self.name}"\n'
            f'[noded]\naddress = "{self.address}"\nport = {port}\njoin_port = {join_port}\n'
            f"[confd]\nport = {confd_port}\n[mond]\nport = {mond_port}\n[jobproc]\nlost_node_s = {_LOST_S}\n"
            f"{tables}"
        )

    def show(self, *command: str, check: bool = True) -> None:
        os.environ["GANTRY_ROOT"] = str(self.root)
        show(*command, check=check, where=f"{self.name} ")

    def ask(self, *command: str) -> str:
        os.environ["GANTRY_ROOT"] = str(self.root)
        return quietly(*command)

    def submit(self, *words: str) -> list[int]:
        """Submit by `gnt-job run`; return the ids."""
        show_command("gnt-job", "run", *words, where=f"{self.name} ")
        told = json.loads(self.ask("gnt-job", "run", "--output", "json", *words))
        job_ids = [row["id"] for row in told] if isinstance(told, list) else [told]
        # flushed, as what the commands print comes by another way
        print(f"job {job_ids[0]}" if len(job_ids) == 1 else f"jobs {job_ids[0]} to {job_ids[-1]}", flush=True)
        return job_ids

    def fields(self, job_ids: Sequence[int], *names: str) -> list[dict[str, object]]:
        """The values of these fields, for each job."""
        found = self.ask("gnt-job", "list", "--output", "json", "-o", ",".join(names), *map(str, job_ids))
        rows: list[dict[str, object]] = json.loads(found) if found else []
        return rows

    def status(self, job_id: int) -> object:
        """The state of a job; None: that cannot be told."""
        return next((row["status"] for row in self.fields([job_id], "status")), None)

    def lose_power(self) -> None:
        """End all its processes at once, those of the commands that run there, too."""
        _end_all(f"--root {self.root} ")

    def sums(self) -> dict[str, str]:
        """Checksums of the queue, of its archive and of the configuration, by name."""
        files = [path for path in (self.data / "queue").rglob("*") if path.is_file() and path.suffix != ".tmp"]
        shared = [path for path in files if path.name not in _OWN_FILES]
        config = self.data / "config.data"
        found = {}
        for path in (*shared, *([config] if config.exists() else [])):
            try:
                found[str(path.relative_to(self.data))] = hashlib.sha256(path.read_bytes()).hexdigest()
            except FileNotFoundError:
                # moved meanwhile
                continue
        return found


def show_sums(master: Machine, *others: Machine) -> None:
    """Wait until the machines have the same files, and show the checksum of each machine's."""
    until(lambda: all(other.sums() == master.sums() for other in others), "all machines have the same files")
    for machine in (master, *others):
        sums = machine.sums()
        whole = hashlib.sha256(json.dumps(sums, sort_keys=True).encode()).hexdigest()
        print(f"{machine.name}  {len(sums):3} files of queue and configuration  {whole[:32]}")


def until(holds: Callable[[], bool], what: str) -> None:
    """Wait until this holds."""
    deadline = time.monotonic() + _PATIENCE_S
    while not holds():
        if time.monotonic() > deadline:
            raise SystemExit(f"this took more than {_PATIENCE_S:g} s: {what}")
        time.sleep(0.1)


def end_all_under(folder: Path) -> None:
    """End all processes that name this folder in their command line, and what they have started."""
    _end_all(str(folder))


def _end_all(words: str) -> None:
    """End the processes with these words in their command line, and what they have started, until none is left."""
    # a supervisor may start one more before it ends itself
    while pids := _processes_with(words):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _processes_with(words: str) -> set[int]:
    """The processes that have these words in their command line, and all that they have started."""
    parents, found = {}, set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ") + b" "
        except OSError:
            continue
        if words.encode() in command:
            found.add(int(entry.name))
    while children := {pid for pid, parent in parents.items() if parent in found and pid not in found}:
        found |= children
    return found
