"""make demo-cluster: three machines on one, from an empty folder over the loss of machines to a proof.

python -P deploy/demo/machines.py
"""

import json
import signal
import socket
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import attrs  # noqa: E402  # as all below
from machine import Machine, show_sums, until  # noqa: E402  # found by the path set above
from stage import DIM, PLAIN, say, show_claims  # noqa: E402
from tally import Tally, at_once, claims, is_whole  # noqa: E402

# steps of a command, of a fifth of a second each
SHORT, MIDDLING, LONG = 3, 7, 30


def main() -> int:
    # so that nothing is left behind then, either
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="gantry-demo-") as scratch, ExitStack() as ending:
        machines = _machines(Path(scratch))
        for machine in machines:
            ending.callback(machine.lose_power)
            ending.callback(machine.ask, "gantry", "down")
        tally = Tally(Path(scratch))
        tally.set_up()
        return Demo(*machines, tally).run()


@attrs.define
class Demo:
    """The story, and the jobs that it has so far."""

    one: Machine
    two: Machine
    three: Machine
    tally: Tally
    # of each command that ended by itself: whether its output is whole
    whole: dict[int, bool] = attrs.field(factory=dict)
    acknowledged: list[int] = attrs.field(factory=list)

    @property
    def nodes(self) -> list[str]:
        return [self.one.name, self.two.name, self.three.name]

    def run(self) -> int:
        began = time.monotonic()
        self.gather()
        in_turn = self.run_on_all()
        lost = self.lose_a_node()
        moved = self.move_the_master()
        say("Proof")
        proved = show_claims(self.claims(in_turn, lost, moved))
        self.two.show("gnt-cluster", "verify", check=False)
        for machine in (self.one, self.three, self.two):
            machine.ask("gantry", "down")
        print(f"\n{time.monotonic() - began:.1f} s in all")
        return 0 if proved else 1

    def gather(self) -> None:
        one = self.one
        say(f"Three machines on this one: {one.address}, {self.two.address}, {self.three.address}, a folder each")
        one.show("gantry", "up", "--detach")
        say("Two commands for each machine that joins: a token for one use, and the join")
        for joining in (self.two, self.three):
            told = json.loads(one.ask("gnt-cluster", "join-token", "--output", "json"))
            print(f"{DIM}{one.name} $ gnt-cluster join-token{PLAIN}\n{str(told['command'])[:76]}...")
            joining.show(*str(told["command"]).split())
        one.show("gnt-node", "list", "-o", "name,pip,role,mtotal,mfree")

    def run_on_all(self) -> list[int]:
        """A command on each node, one after the other."""
        say("A command on every node, at most one at a time")
        before = self._last_id()
        self.one.show("gnt-job", "run", "--each-node", "--at-most", "1", "--wait", "--", self.tally.work, str(SHORT))
        job_ids = list(range(before + 1, before + 4))
        self.acknowledged += job_ids
        for node, job_id in zip(self.nodes, job_ids, strict=True):
            self._read_output(self.one, job_id, node, SHORT)
        return job_ids

    def lose_a_node(self) -> tuple[list[int], int]:
        """As before, but a machine loses its power in the middle; returns the jobs, and one that wants its lock."""
        say(f"Once more, and {self.two.name} loses its power in the middle: the rest goes on")
        job_ids = self.one.submit("--each-node", "--at-most", "1", "--", self.tally.work, str(MIDDLING))
        self.acknowledged += job_ids
        until(lambda: self.tally.has_begun(self.two.name, job_ids[1]), f"the command runs on {self.two.name}")
        self.two.lose_power()
        self.tally.note_loss(self.two.name, time.time())
        claim = self._claim(self.one, self.two.name)
        self.one.show("gnt-job", "watch", *map(str, job_ids), check=False)
        say(f"Its command may still run: the lock is kept until {self.two.name} is back")
        self.one.show("gantry", "orphaned-locks")
        self.one.show("gnt-job", "why", str(claim))
        self.two.show("gantry", "up", "--detach")
        self.one.ask("gnt-job", "wait", str(claim))
        self.one.show("gnt-job", "list", "-o", "id,status,time,node", str(job_ids[1]), str(claim))
        for place in (0, 2):
            self._read_output(self.one, job_ids[place], self.nodes[place], MIDDLING)
        return job_ids, claim

    def move_the_master(self) -> list[int]:
        """The master loses its power while commands run; returns their jobs, and one that wants a lock of theirs."""
        say("The master loses its power while commands run; another one is named by hand")
        show_sums(self.one, self.two, self.three)
        on = ("--node", self.two.name, "--node", self.three.name)
        job_ids = self.one.submit(*on, "--", self.tally.work, str(LONG))
        self.acknowledged += job_ids
        for node, job_id in zip(self.nodes[1:], job_ids, strict=True):
            until(lambda node=node, job_id=job_id: self.tally.has_begun(node, job_id), f"it runs on {node}")  # type: ignore[misc]
        self.one.lose_power()
        self.two.show("gnt-cluster", "master-failover", "--yes-do-it", check=False)
        claim = self._claim(self.two, self.three.name)
        self.two.show("gnt-job", "watch", *map(str, job_ids), check=False)
        self.two.ask("gnt-job", "wait", str(claim))
        for node, job_id in zip(self.nodes[1:], job_ids, strict=True):
            self._read_output(self.two, job_id, node, LONG)
        say("The old master comes back: it asks the others, and is a candidate like them")
        self.one.show("gantry", "up", "--detach", check=False)
        show_sums(self.two, self.one, self.three)
        return [*job_ids, claim]

    def claims(self, in_turn: list[int], lost: tuple[list[int], int], moved: list[int]) -> list[tuple[bool, str]]:
        """What must hold, each with whether it does."""
        states = {job_id: self.two.status(job_id) for job_id in self.acknowledged}
        lost_job = lost[0][1]
        done = [job_id for job_id, state in states.items() if state == "success"]
        torn = [job_id for job_id, is_so in self.whole.items() if not is_so]
        most = max(at_once(self.tally, self.nodes, in_turn), at_once(self.tally, self.nodes, [lost[0][0], lost[0][2]]))
        return [
            (None not in states.values(), f"all {len(states)} acknowledged jobs are in the new master's queue"),
            (states[lost_job] == "error", f"job {lost_job} was lost with its machine: it failed, and told so"),
            (
                len(done) == len(states) - 1,
                f"all {len(done)} others succeeded, {moved[0]} and {moved[1]} as the new master's",
            ),
            (most == 1, "where at most one was to run at a time, no two ran at once"),
            *claims(self.tally, self.nodes),
            (
                all(self.whole.values()),
                f"the outputs of all {len(self.whole)} commands that ended are whole{_but(torn)}",
            ),
            (
                self.one.sums() == self.two.sums() == self.three.sums(),
                "queue and configuration are the same on all three, byte for byte",
            ),
        ]

    def _claim(self, master: Machine, node: str) -> int:
        """A job that wants the lock of a node for itself."""
        (job_id,) = master.submit("--node", node, "--lock", f"node/{node}", "--", self.tally.claim, node)
        self.acknowledged.append(job_id)
        return job_id

    def _read_output(self, master: Machine, job_id: int, node: str, steps: int) -> None:
        self.whole[job_id] = is_whole(master.ask("gnt-job", "output", str(job_id)), node, steps)

    def _last_id(self) -> int:
        listed = self.one.ask("gnt-job", "list", "--output", "json", "-o", "id")
        return max((row["id"] for row in json.loads(listed)), default=0) if listed else 0


def _but(wrong: list[int]) -> str:
    return f", but those of {', '.join(map(str, wrong))}" if wrong else ""


def _machines(folder: Path) -> tuple[Machine, Machine, Machine]:
    ports = _free_ports(4)
    one, two, three = (Machine(f"node{n}", f"127.0.0.{n}", folder / f"node{n}") for n in (1, 2, 3))
    for machine in (one, two, three):
        machine.settle(*ports)
    return one, two, three


def _free_ports(count: int) -> list[int]:
    with ExitStack() as held:
        probes = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [probe.getsockname()[1] for probe in probes]


if __name__ == "__main__":
    sys.exit(main())
