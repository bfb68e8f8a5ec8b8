"""This Gantry beside an older one, a real Ganeti 3.0.2, or both, in alternating rounds of one run.

    python -m tests.bench beside [COMMIT] [--ganeti FOLDER] [--rounds N] [--parts WORD]

A machine that is shared is twice as fast in one minute as in the next. So all run at once, only one of them works at a
time, and they take turns, also in who is first. Where a process lies in memory makes a few percent, too, so all begin
anew after every two rounds. Told are medians, how many rounds this one has won, and the CPU of each process for one
call: the figure that a noisy neighbour changes least.

Each side is a process of its own, with the modules of its checkout, that sets up daemons and does what it is told:
a line `PART COUNT` of its input; the reply is a line of JSON. All use this interpreter with its packages, and the
folder of tests/bench of their own checkout; so COMMIT must have what `_parts` imports.

Ganeti's side runs in a machine that FOLDER keeps (`tests.reliability.ganeti.machines`), as root, with this checkout's
clients. Its owners of locks wait for a SIGHUP and ask then, its no-op job is a delay of a microsecond, and its rounds
have fewer jobs.
"""

import argparse
import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

# of each part: what is counted, and how many of it a round has
CALLS: Final = {
    "lock call, 1 connection": 600,
    "lock call, 4 connections": 1200,
    "hand-over of a lock": 600,
    "one job alone": 40,
    "job of a mass": 200,
}
GANETIS_CALLS: Final = {**CALLS, "one job alone": 8, "job of a mass": 24}
ROUNDS: Final = 8
# CPU a call up to which a process has nothing to do with a part
IDLE_US: Final = 3
# rounds of the same processes
_TURNS: Final = 2
_CHECKOUT: Final = Path(__file__).resolve().parents[2]
_DAEMONS: Final = ("wconfd", "forkserver", "luxid")
# place of the side that runs in Ganeti's machine
_IN_GANETI: Final = "ganeti"
# a round: microseconds of one call, by what: "wall", and processes
Round = Mapping[str, float]


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench beside")
    parser.add_argument("commit", nargs="?", help="an older Gantry")
    parser.add_argument("--ganeti", type=Path, metavar="FOLDER", help="a folder that keeps an installed Ganeti")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--parts", default="", metavar="WORD", help="only those with this word: lock, job")
    given = parser.parse_args(arguments)
    if not given.commit and not given.ganeti:
        parser.error("beside what? Name a commit, or the folder of a Ganeti, or both")
    with ExitStack() as stack:
        makers = list(_makers(stack, given.commit, given.ganeti))
        found: dict[str, list[list[Round]]] = {part: [] for part in CALLS if given.parts in part}
        for _ in range(given.rounds // _TURNS):
            with ExitStack() as turns:
                sides = [make(turns) for _, make in makers]
                for part in found:
                    found[part] += _alternate(sides, part)
    _show(found, [name for name, _ in makers])


def _makers(
    stack: ExitStack, commit: str | None, ganeti: Path | None
) -> Iterator[tuple[str, Callable[[ExitStack], "_Side"]]]:
    """How each side is called and made; this checkout's is the first."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gantry-beside-")))
    yield "now", lambda turns: _of_checkout(turns, _CHECKOUT, folder)
    if commit is not None:
        older = folder / "older"
        _git("worktree", "add", "--quiet", "--detach", str(older), commit)
        stack.callback(_git, "worktree", "remove", "--force", str(older))
        yield "then", lambda turns: _of_checkout(turns, older, folder)
    if ganeti is not None:
        from tests.bench.machines.ganeti import GanetisMachine

        machine = stack.enter_context(GanetisMachine(ganeti))

        def side(turns: ExitStack) -> _Side:
            machine.begin_anew()
            program = f"/opt/src/{Path(__file__).relative_to(_CHECKOUT)}"
            return _Side(turns, machine.command(program, _IN_GANETI), GANETIS_CALLS)

        yield "Ganeti", side


def _of_checkout(stack: ExitStack, checkout: Path, folder: Path) -> "_Side":
    root = stack.enter_context(tempfile.TemporaryDirectory(dir=folder))
    env = {**os.environ, "PYTHONPATH": str(checkout)}
    return _Side(stack, [sys.executable, "-P", __file__, root], CALLS, cwd=checkout, env=env)


def _alternate(sides: Sequence["_Side"], part: str) -> Iterator[list[Round]]:
    """Rounds of all sides, each with another one first."""
    for side in sides:
        side.run(part, side.calls[part] // 4)
    for turn in range(_TURNS):
        order = range(len(sides)) if turn % 2 else reversed(range(len(sides)))
        rounds = {at: sides[at].run(part, sides[at].calls[part]) for at in order}
        yield [rounds[at] for at in range(len(sides))]


def _show(found: Mapping[str, Sequence[Sequence[Round]]], names: Sequence[str]) -> None:
    from tests.bench.figures import show

    for part, rounds in found.items():
        for what in rounds[0][0]:
            mine = [each[0][what] for each in rounds]
            if statistics.median(mine) > IDLE_US:
                texts = []
                for at, name in enumerate(names):
                    theirs = [each[at].get(what, 0.0) for each in rounds]
                    if at and (usual := statistics.median(theirs)) > IDLE_US:
                        won = sum(own < other for own, other in zip(mine, theirs, strict=True))
                        share = statistics.median(mine) / usual
                        texts.append(f"{name} {usual:.0f}, {share:.2f} of it, {won} of {len(rounds)} rounds won")
                show(f"{part}: {what}", statistics.median(mine), "µs", "; ".join(texts))


def _git(*words: str) -> None:
    subprocess.run(["git", "-C", str(_CHECKOUT), *words], check=True)


class _Side:
    """Daemons, and who makes them work, in a process of its own.

    Args: calls: how many of each part a round has.
    """

    def __init__(self, stack: ExitStack, command: Sequence[str], calls: Mapping[str, int], **options: Any) -> None:
        self.calls = calls
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options)
        # its input ends, and so does it
        self._process = stack.enter_context(process)
        self._read()

    def run(self, part: str, count: int) -> Round:
        assert self._process.stdin is not None
        print(part, count, file=self._process.stdin, flush=True)
        found: Round = self._read()
        return found

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "a side has ended; its error is above"
        return json.loads(line)


# what follows is run by each side, with the modules of its checkout


def be_a_side(place: str) -> None:
    if place == _IN_GANETI:
        from tests.bench.machines.ganeti import Ganeti

        ganeti = Ganeti()
        _obey(ganeti, ganeti.parts(), ganeti.pids, lambda: ganeti.jobs_cpu_s() - _cpu_s(ganeti.pids["luxid"]))
        return
    from tests.support.cluster import Cluster

    with Cluster(Path(place)) as cluster:
        cluster.start(*_DAEMONS)
        pids = {name: cluster.daemons[name].pid for name in _DAEMONS}
        _obey(cluster, _parts(), pids, lambda: _ended_children_cpu_s(pids["forkserver"]))


def _parts() -> Mapping[str, Callable[[Any, int], object]]:
    from tests.bench.jobs import many_jobs, one_job
    from tests.bench.locks import hand_overs, lock_updates

    return {
        "lock call, 1 connection": functools.partial(lock_updates, connections=1),
        "lock call, 4 connections": functools.partial(lock_updates, connections=4),
        "hand-over of a lock": hand_overs,
        "one job alone": one_job,
        "job of a mass": many_jobs,
    }


def _obey(
    cluster: Any,
    parts: Mapping[str, Callable[[Any, int], object]],
    pids: Mapping[str, int],
    jobs_cpu_s: Callable[[], float],
) -> None:
    """Run parts as the input says, and tell what they have cost."""

    def used() -> dict[str, float]:
        return {
            "wall": time.perf_counter(),
            **{f"CPU of {name}": _cpu_s(pid) for name, pid in pids.items()},
            "CPU of job processes": jobs_cpu_s(),
        }

    _say({})
    for line in sys.stdin:
        part, _, number = line.strip().rpartition(" ")
        count, before = int(number), used()
        parts[part](cluster, count)
        _say({what: (after - before[what]) / count * 1e6 for what, after in used().items()})


def _cpu_s(pid: int) -> float:
    """Of a daemon with its threads, exactly."""
    return sum(int((task / "schedstat").read_text().split()[0]) for task in Path(f"/proc/{pid}/task").iterdir()) / 1e9


def _ended_children_cpu_s(pid: int) -> float:
    """Of the children of a daemon that have ended, by the kernel's ticks."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def _say(value: object) -> None:
    print(json.dumps(value), flush=True)


if __name__ == "__main__":
    be_a_side(sys.argv[1])
