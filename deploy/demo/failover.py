"""make demo-failover: the master is killed while a plan runs; another node follows, and the plan completes.

python -P deploy/demo/failover.py

Three machines on this one, a real etcd of three members, and a plan of commands on nodes. In the middle all processes
of the master's machine are killed with SIGKILL. The proof at the end is from what the commands wrote down themselves.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import attrs  # noqa: E402  # as all below
from etcdmembers import EtcdMembers, free_ports  # noqa: E402  # found by the path set above
from failoverplan import LiveView, Step, as_jobs, plan_for  # noqa: E402
from machine import Machine, end_all_under, show_sums, until  # noqa: E402
from stage import DIM, PLAIN, say, show_claims, show_command  # noqa: E402
from tally import Entry, Tally, claims, is_whole  # noqa: E402

from common.errors import GantryError  # noqa: E402
from common.paths import Paths  # noqa: E402
from protocol.blocking import BlockingClient  # noqa: E402
from protocol.luxi.queries import QueryJobs  # noqa: E402

# seconds; the shortest lease that a real cluster may have
TTL_S = 5.0
# length of a command, in fifths of a second
STEPS = 9
# seconds between two looks at the plan
_LOOK_S = 0.2
_PATIENCE_S = 180.0
_FINAL = ("success", "error", "canceled")


def main() -> int:
    # so that nothing is left behind then, either
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        with _scratch() as folder, EtcdMembers(folder) as etcd, ExitStack() as ending:
            machines = _machines(folder, etcd)
            for machine in machines:
                ending.callback(machine.lose_power)
            return Demo(*machines, etcd, Tally(folder)).run()
    except subprocess.CalledProcessError as error:
        print(f"'{' '.join(error.cmd)}' failed, and the demo ends", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted; nothing is left behind", file=sys.stderr)
        return 130


@contextmanager
def _scratch() -> Iterator[Path]:
    """A folder that is removed at the end, with all processes that know its name."""
    with tempfile.TemporaryDirectory(prefix="gantry-demo-", ignore_cleanup_errors=True) as scratch:
        try:
            yield Path(scratch)
        finally:
            # a second Ctrl-C must not leave half of it
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            end_all_under(Path(scratch))


def _machines(folder: Path, etcd: EtcdMembers) -> tuple[Machine, Machine, Machine]:
    *ports, health = free_ports(5)
    endpoints = json.dumps(etcd.urls)
    tables = f"[etcd]\nendpoints = {endpoints}\n[keeperd]\nttl_s = {TTL_S}\nport = {health}\n"
    one, two, three = (Machine(f"node{n}", f"127.0.0.{n}", folder / f"node{n}") for n in (1, 2, 3))
    for machine in (one, two, three):
        machine.settle(*ports, replication="etcd", tables=tables)
    return one, two, three


@attrs.frozen
class Gap:
    """For how long nobody was the master."""

    # seconds from the kill until the next master replies, and until its first command begins
    until_master_s: float
    until_work_s: float


@attrs.define
class Demo:
    """The story, and what it has learnt so far."""

    one: Machine
    two: Machine
    three: Machine
    etcd: EtcdMembers
    tally: Tally
    steps: list[Step] = attrs.field(init=False)

    @property
    def machines(self) -> list[Machine]:
        return [self.one, self.two, self.three]

    def run(self) -> int:
        began = time.monotonic()
        self.tally.set_up()
        self.gather()
        job_ids = self.submit()
        view = LiveView(self.steps, job_ids)
        self.watch_until(view, self._is_in_the_middle)
        before = self.epoch(self.one)
        killed_at = self.kill(self.one)
        ended = {entry.job_id for entry in self.entries() if entry.what == "end" and entry.at < killed_at}
        gap = self.watch_the_gap(view, killed_at)
        self.watch_until(view, lambda: all(view.states.get(job_id) in _FINAL for job_id in job_ids))
        master = self.master()
        assert master is not None
        later = self.bring_back(master)
        say("Proof")
        proved = show_claims(self.claims(master, job_ids, later, before, ended))
        print(
            f"\nThe gap: {gap.until_master_s:.1f} s from the kill until the next master replied,\n"
            f"{gap.until_work_s:.1f} s until it began a command; the lease is {TTL_S:g} s.\n"
            f"Output is not replicated: that of the {len(ended)} jobs that had ended lies on {self.one.name} only."
        )
        for machine in self.machines:
            machine.ask("gantry", "down")
        print(f"\n{time.monotonic() - began:.1f} s in all")
        return 0 if proved else 1

    def gather(self) -> None:
        one = self.one
        say(f"An etcd {self.etcd.release} of three members, and three machines on this one, a folder each")
        one.show("gantry", "up", "--detach")
        until(lambda: self.master() is one, "the first machine has won its first campaign")
        say("Two commands for each machine that joins: a token for one use, and the join")
        for joining in (self.two, self.three):
            told = json.loads(one.ask("gnt-cluster", "join-token", "--output", "json"))
            print(f"{DIM}{one.name} $ gnt-cluster join-token{PLAIN}\n{str(told['command'])[:76]}...", flush=True)
            joining.show(*str(told["command"]).split())
        until(lambda: self._could_follow(one), "every machine could follow the master")
        say(f"Who is the master, and who could follow it; the lease is {TTL_S:g} s")
        one.show("gantry", "cluster")

    def submit(self) -> list[int]:
        nodes = [self.two.name, self.three.name]
        self.steps = plan_for(nodes)
        say(f"The plan: {len(self.steps)} chained jobs, commands on {' and '.join(nodes)}, which the master follows")
        file = self.tally.folder / "plan.json"
        file.write_text(json.dumps(as_jobs(self.steps, self.tally.work, STEPS)))
        show_command("gnt-job", "submit", file.name, where=f"{self.one.name} ")
        job_ids = [answer[1] for answer in json.loads(self.one.ask("gnt-job", "submit", "--output", "json", str(file)))]
        print(f"jobs {job_ids[0]} to {job_ids[-1]}: acknowledged by most members of etcd", flush=True)
        return job_ids

    def kill(self, machine: Machine) -> float:
        """Return when all its processes had ended."""
        say(f"kill -9 of all processes of {machine.name}, the master; commands on the others run on")
        machine.lose_power()
        killed_at = time.time()
        self.tally.note_loss(machine.name, killed_at)
        return killed_at

    def watch_the_gap(self, view: LiveView, killed_at: float) -> Gap:
        """Wait for the next master, and for the first command that it begins."""
        while self.master() is None:
            self._check_patience(killed_at)
            view.show(None, f"no node is the master for {time.time() - killed_at:.1f} s")
            time.sleep(_LOOK_S)
        replied_at = time.time()

        def begun() -> list[float]:
            # what the old master had sent to a node may begin a moment later; a lease does not end so soon
            since = killed_at + TTL_S / 2
            return [entry.at for entry in self.entries() if entry.what == "begin" and entry.at > since]

        self.watch_until(view, lambda: bool(begun()))
        return Gap(replied_at - killed_at, min(begun()) - killed_at)

    def watch_until(self, view: LiveView, holds: Callable[[], bool]) -> None:
        """Show the plan until this holds."""
        began = time.time()
        while True:
            master = self.master()
            states = None if master is None else _states(master, view.job_ids)
            head = "no node is the master" if master is None else f"the master is {master.name}"
            view.show(states, head)
            if holds():
                return
            self._check_patience(began)
            time.sleep(_LOOK_S)

    def bring_back(self, master: Machine) -> list[int]:
        say(f"Jobs of the new master, {master.name}: their ids go on where the old one's ended")
        later = [master.submit("--node", node.name, "--", self.tally.work, "1")[0] for node in (self.two, self.three)]
        master.ask("gnt-job", "wait", *map(str, later))
        say(f"{self.one.name} comes back: it follows, and gets what it missed")
        self.one.show("gantry", "up", "--detach")
        show_sums(master, *(machine for machine in self.machines if machine is not master))
        until(lambda: self._could_follow(master), f"{self.one.name} could follow the master again")
        master.show("gantry", "cluster")
        return later

    def claims(
        self, master: Machine, job_ids: list[int], later: list[int], before: int, ended: set[int]
    ) -> list[tuple[bool, str]]:
        """What must hold, each with whether it does."""
        states = _states(master, [*job_ids, *later]) or {}
        followed = {job_id: step for job_id, step in zip(job_ids, self.steps, strict=True) if job_id not in ended}
        torn = [job_id for job_id, step in followed.items() if not self._is_whole(master, job_id, step)]
        nodes = [self.two.name, self.three.name]
        all_ids = [*job_ids, *later]
        failed = [job_id for job_id in all_ids if states.get(job_id) != "success"]
        after = self.epoch(master)
        return [
            (len(states) == len(all_ids), f"all {len(all_ids)} acknowledged jobs are in the new master's queue"),
            (not failed, f"all of them succeeded, those too that ran when the master died{_but(failed)}"),
            next(claims(self.tally, nodes)),
            (not torn, f"outputs are whole of the {len(followed)} jobs that the new master followed{_but(torn)}"),
            (self._is_in_order(job_ids), "no command began before those that it waits for had ended"),
            (len(set(all_ids)) == len(all_ids) and min(later) > max(job_ids), "ids are unique, and go on rising"),
            (after > before, f"the epoch rose from {before} to {after}: what the old master still sends is refused"),
            (
                self.one.sums() == self.two.sums() == self.three.sums(),
                "queue and configuration are the same on all three, byte for byte",
            ),
        ]

    # what it looks at

    def master(self) -> Machine | None:
        """The machine whose luxid replies."""
        return next((machine for machine in self.machines if _states(machine, []) is not None), None)

    def epoch(self, machine: Machine) -> int:
        return int(json.loads(machine.ask("gantry", "cluster", "--output", "json"))["epoch"])

    def entries(self) -> list[Entry]:
        """What all commands have written down."""
        return [entry for machine in self.machines for entry in self.tally.read(machine.name)]

    def _could_follow(self, master: Machine) -> bool:
        """Whether all others are fit to be the master, and lack nothing."""
        told = master.ask("gantry", "cluster", "--output", "json")
        members = json.loads(told)["members"] if told else []
        others = [member for member in members if member["name"] != master.name]
        return len(others) == 2 and all(
            member["role"] == "replica" and member["copies"] == "fresh" for member in others
        )

    def _is_in_the_middle(self) -> bool:
        """Whether some commands have ended, and one runs on each node."""
        entries = {node.name: self.tally.read(node.name) for node in (self.two, self.three)}
        ended = sum(entry.what == "end" for found in entries.values() for entry in found)
        return ended >= 3 and all(found and found[-1].what == "begin" for found in entries.values())

    def _is_in_order(self, job_ids: Sequence[int]) -> bool:
        entries = self.entries()
        begun = {entry.job_id: entry.at for entry in entries if entry.what == "begin"}
        ended = {entry.job_id: entry.at for entry in entries if entry.what == "end"}
        never = float("inf")
        return all(
            ended.get(job_ids[after], never) <= begun.get(job_ids[place], never)
            for place, step in enumerate(self.steps)
            for after in step.after
        )

    def _is_whole(self, master: Machine, job_id: int, step: Step) -> bool:
        return is_whole(master.ask("gnt-job", "output", str(job_id)), step.node, STEPS)

    def _check_patience(self, since: float) -> None:
        if time.time() - since > _PATIENCE_S:
            raise SystemExit(f"this took more than {_PATIENCE_S:g} s; the logs are in {self.one.root.parent}")


def _states(machine: Machine, job_ids: Sequence[int]) -> dict[int, str] | None:
    """The states of these jobs, as the master here tells them; None: it is none, or does not reply."""
    with contextlib.suppress(GantryError, OSError):
        path = Paths.under_root(machine.root).query_socket
        with BlockingClient(path, connect_timeout_s=0, daemon="luxid") as luxid:
            rows = luxid.call(QueryJobs(tuple(job_ids), ("id", "status")), timeout_s=2.0)
        return {int(str(row[0])): str(row[1]) for row in rows}
    return None


def _but(wrong: list[int]) -> str:
    return f", but those of {', '.join(map(str, wrong))}" if wrong else ""


if __name__ == "__main__":
    os.environ.pop("GANTRY_ROOT", None)
    sys.exit(main())
