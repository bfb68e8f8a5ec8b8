"""make demo-cluster: three machines on one, from an empty folder over the loss of the master to a proof."""

import hashlib
import json
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import attrs

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from stage import DIM, PLAIN, quietly, say, show, show_claims  # noqa: E402  # found by the path set above

# files that each machine has of its own
_OWN_FILES = ("lock", "version")
_PATIENCE_S = 60.0


@attrs.frozen
class Machine:
    """A folder and an address of its own."""

    name: str
    address: str
    root: Path

    @property
    def data(self) -> Path:
        return self.root / "lib"

    def settle(self, port: int, join_port: int) -> None:
        """Write its settings. On a machine of its own it needs no address, no name and no ports."""
        self.root.mkdir(mode=0o700)
        (self.root / "gantry.toml").write_text(
            f'[cluster]\nreplication = "nodes"\nnode_name = "{self.name}"\n'
            f'[noded]\naddress = "{self.address}"\nport = {port}\njoin_port = {join_port}\n'
        )

    def show(self, *command: str, check: bool = True) -> None:
        os.environ["GANTRY_ROOT"] = str(self.root)
        show(*command, check=check, where=f"{self.name} ")

    def ask(self, *command: str) -> str:
        os.environ["GANTRY_ROOT"] = str(self.root)
        return quietly(*command)

    def lose_power(self) -> None:
        """End all its processes at once."""
        for pid in _processes_of(self.root):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue

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


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="gantry-demo-") as scratch, ExitStack() as ending:
        one, two, three = machines = _machines(Path(scratch))
        for machine in machines:
            ending.callback(machine.lose_power)
            ending.callback(machine.ask, "gantry", "down")
        return demo(one, two, three)


def demo(one: Machine, two: Machine, three: Machine) -> int:
    began = time.monotonic()
    say(f"Three machines on this one: {one.address}, {two.address} and {three.address}, a folder each")
    one.show("gantry", "up", "--detach")

    say("Two commands for each machine that joins: a token for one use, and the join")
    for joining in (two, three):
        command = _token(one)
        print(f"{DIM}{one.name} $ gnt-cluster join-token{PLAIN}\n{' '.join(command)[:76]}...")
        joining.show(*command)
    one.show("gnt-node", "list", "-o", "name,pip,role,mtotal,mfree")

    say("Jobs run here, and every change is on all three machines")
    acknowledged = [_submit(one, "sh", "-c", f"echo {number}; sleep 0.{number}") for number in range(1, 9)]
    print(f"jobs {acknowledged[0]} to {acknowledged[-1]}")
    one.ask("gnt-job", "wait", *map(str, acknowledged))
    _show_sums(one, two, three)

    say("A machine loses its power, and jobs go on; the master knows what it lacks")
    three.lose_power()
    acknowledged += [_submit(one, "echo", f"without {three.name}") for _ in range(3)]
    one.ask("gnt-job", "wait", *map(str, acknowledged))
    one.show("gantry", "status")
    three.show("gantry", "up", "--detach")
    _show_sums(one, two, three)

    say("The master loses its power, while a job runs and another waits for it")
    running = _submit(one, "sleep", "600")
    queued = _submit(one, "echo", "what waited has run", after=f"{running}:success,error")
    _until(lambda: _status(one, running) == "running", "the job runs")
    acknowledged += [running, queued]
    one.lose_power()
    two.show("gnt-cluster", "master-failover", "--yes-do-it", check=False)
    two.ask("gnt-job", "wait", str(queued))
    two.show("gnt-job", "list", str(running), str(queued))

    say("The old master comes back: it asks the others, and is a candidate like them")
    one.show("gantry", "up", "--detach", check=False)
    _show_sums(two, one, three)

    say("Proof")
    return _end(one, two, three, acknowledged, (running, queued), began)


def _end(
    one: Machine, two: Machine, three: Machine, acknowledged: list[int], moved: tuple[int, int], began: float
) -> int:
    running, queued = moved
    statuses = {number: _status(two, number) for number in acknowledged}
    done = sum(status == "success" for status in statuses.values())
    output = two.ask("gnt-job", "output", str(queued)).strip()
    claims = [
        (None not in statuses.values(), f"all {len(acknowledged)} acknowledged jobs are in the new master's queue"),
        (done == len(acknowledged) - 1, f"{done} of them succeeded"),
        (statuses[running] == "error", f"job {running} ran on the lost machine: it ended as an error, and told so"),
        (output.endswith("what waited has run"), f"job {queued} waited there, and has run on {two.name}"),
        (one.sums() == two.sums() == three.sums(), "queue and configuration are the same on all three, byte for byte"),
    ]
    proved = show_claims(claims)
    two.show("gnt-cluster", "verify", check=False)
    for machine in (one, three, two):
        machine.ask("gantry", "down")
    print(f"\n{time.monotonic() - began:.1f} s in all")
    return 0 if proved else 1


def _machines(folder: Path) -> list[Machine]:
    port, join_port = _free_ports(2)
    found = [Machine(f"node{number}", f"127.0.0.{number}", folder / f"node{number}") for number in (1, 2, 3)]
    for machine in found:
        machine.settle(port, join_port)
    return found


def _token(master: Machine) -> list[str]:
    """The command that lets a machine join."""
    told = json.loads(master.ask("gnt-cluster", "join-token", "--output", "json"))
    return str(told["command"]).split()


def _submit(machine: Machine, *argv: str, after: str | None = None) -> int:
    options = [] if after is None else ["--after", after]
    return int(machine.ask("gnt-job", "run", *options, "--", *argv).split()[-1])


def _status(machine: Machine, job_id: int) -> str | None:
    listed = machine.ask("gnt-job", "list", "--output", "json", "-o", "status", str(job_id))
    return str(json.loads(listed)[0]["status"]) if listed else None


def _show_sums(master: Machine, *others: Machine) -> None:
    """Wait until the machines have the same files, and show the checksum of each machine's."""
    _until(lambda: all(other.sums() == master.sums() for other in others), "all machines have the same files")
    for machine in (master, *others):
        sums = machine.sums()
        whole = hashlib.sha256(json.dumps(sums, sort_keys=True).encode()).hexdigest()
        print(f"{machine.name}  {len(sums):3} files of queue and configuration  {whole[:32]}")


def _until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not holds():
        if time.monotonic() > deadline:
            raise SystemExit(f"this took more than {_PATIENCE_S:g} s: {what}")
        time.sleep(0.1)


def _processes_of(root: Path) -> set[int]:
    """The daemons of this root, and all that they have started."""
    parents, found = {}, set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ") + b" "
        except OSError:
            continue
        if f"--root {root} ".encode() in command:
            found.add(int(entry.name))
    while children := {pid for pid, parent in parents.items() if parent in found and pid not in found}:
        found |= children
    return found


def _free_ports(count: int) -> list[int]:
    with ExitStack() as held:
        probes = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [probe.getsockname()[1] for probe in probes]


if __name__ == "__main__":
    sys.exit(main())
