"""Move the master again and again while clients submit: `make moves MOVES=10 SEED=1`.

Three nodes on 127.0.0.x, each with its daemons under a real supervisor. Clients submit jobs to the master all the time
and remember what was acknowledged. At random all processes of the master's machine are killed at once, or all are
stopped and go on after the move, or it lives. Another node becomes the master by `gnt-cluster master-failover`; the old
one is started again if it died. At the end each acknowledged job must be there, and end; no id may be given twice; and
all nodes must have the same queue and configuration, byte for byte.

Exit code 1: a promise was broken.
"""

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import attrs

from common.daemons import MASTER_DAEMONS
from common.system.running import find_daemon
from protocol.luxi.queries import QueryJobs
from tests.daemon.luxid.ops import delay, dummy
from tests.support.machines.fleet import files
from tests.support.machines.movablemaster import Machine, MovableMaster, unlike
from tests.support.machines.submitting import Submitter
from tests.support.wait import wait_until

NODES = 3
# what becomes of the old master's machine
DIES, HANGS, LIVES = HARMS = ("dies", "hangs", "lives")
# jobs that are acknowledged between two moves
JOBS = 30
# seconds that some jobs take, so that some run when the master goes
LASTING_S = 0.5


@attrs.frozen
class Done:
    """One move."""

    old: str
    new: str
    harm: str
    # seconds of the command, and from the harm, or the command's begin, to the first job that the new master takes
    command_s: float
    without_master_s: float


def move(machines: MovableMaster, clients: Sequence[Submitter], old: Machine, new: Machine, harm: str) -> Done:
    began = time.monotonic()
    if harm == DIES:
        old.cluster.crash()
    frozen = old.freeze() if harm == HANGS else set()
    called = time.monotonic()
    new = machines.move_to(new)
    command_s = time.monotonic() - called
    # clients may still speak with it
    old.thaw(frozen)
    for client in clients:
        client.turn_to(new)
        client.until_acknowledged(1)
    done = Done(old.name, new.name, harm, command_s, time.monotonic() - began)
    if harm == DIES:
        up = old.up()
        assert up.code == 0, up
    # before the next move, whose vote needs nodes that agree
    wait_until(lambda: files(old.paths) == files(new.paths), what=f"{old.name} is a good candidate again")
    return done


def judge(machines: MovableMaster, master: Machine, clients: Sequence[Submitter]) -> tuple[list[str], Counter[str]]:
    """The broken promises, and how the acknowledged jobs ended."""
    broken: list[str] = []
    ids = [each.job_id for client in clients for each in client.acknowledged]
    twice = [job_id for job_id, count in Counter(ids).items() if count > 1]
    if twice:
        broken.append(f"ids given twice: {twice}")
    there = {row[0] for row in master.cluster.luxi(QueryJobs(None, ("id",)))}
    lost = sorted(set(ids) - there)
    if lost:
        broken.append(f"{len(lost)} acknowledged jobs are lost: {lost[:10]}")
    states = Counter(master.cluster.wait(*sorted(set(ids) & there)))
    for machine in machines:
        if machine is not master:
            broken += remains(machine, master)
    return broken, states


def remains(machine: Machine, master: Machine) -> list[str]:
    """In what a node differs from the master after a while; the master's daemons that run there."""

    with suppress(AssertionError):
        wait_until(lambda: not unlike(machine.paths, master.paths), what="the copies are equal")
    left = [name for name in MASTER_DAEMONS if find_daemon(machine.paths, name)]
    return [
        *(f"{machine.name} differs in {name}" for name in unlike(machine.paths, master.paths)),
        *(f"{name} runs on {machine.name}, which is not the master" for name in left),
    ]


def run(root: Path, moves: int, seed: int, harms: Sequence[str]) -> int:
    chance = random.Random(seed)
    done: list[Done] = []
    with MovableMaster(root, NODES) as machines, ExitStack() as stack:
        machines.up()
        master = next(iter(machines))
        ops = (dummy(), delay(LASTING_S))
        clients = [stack.enter_context(Submitter(master, op)) for op in ops]
        for _ in range(moves):
            clients[0].until_acknowledged(JOBS)
            new = chance.choice([machine for machine in machines if machine is not master])
            done.append(move(machines, clients, master, new, chance.choice(harms)))
            print(done[-1], flush=True)
            master = machines[done[-1].new]
        clients[0].until_acknowledged(JOBS)
        for client in clients:
            client.end()
        broken, states = judge(machines, master, clients)
        tell(done, clients, states)
    for text in broken:
        print(f"BROKEN: {text}")
    return 1 if broken else 0


def tell(done: Sequence[Done], clients: Sequence[Submitter], states: Counter[str]) -> None:
    for harm in HARMS:
        some = [each for each in done if each.harm == harm]
        if some:
            command = statistics.median(each.command_s for each in some)
            without = [each.without_master_s for each in some]
            print(
                f"{len(some)} moves, the master {harm}: command {command:.1f} s (median), "
                f"without a master {statistics.median(without):.1f} s (median), {max(without):.1f} s (longest)"
            )
    print(f"{sum(len(client.acknowledged) for client in clients)} jobs acknowledged, in the end {dict(states)}")
    print(f"{sum(client.refused for client in clients)} submissions were refused while there was no master")


def main() -> int:
    parser = argparse.ArgumentParser(description="Move the master again and again while clients submit.")
    parser.add_argument("--moves", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--harm", choices=HARMS, help="only this one")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gantry-moves-") as folder:
        return run(Path(folder), given.moves, given.seed, [given.harm] if given.harm else HARMS)


if __name__ == "__main__":
    sys.exit(main())
