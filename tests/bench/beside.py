"""This Gantry beside an older one, in alternating rounds of one run: `python -m tests.bench beside COMMIT [ROUNDS]`.

A machine that is shared is twice as fast in one minute as in the next. So both run at once, only one of them works at a
time, and they take turns, also in who is first. Told are medians, how many rounds this one has won, and the CPU of each
process for one call: the figure that a noisy neighbour changes least.

Each side is a process of its own, with the modules of its checkout, that sets up daemons and does what it is told:
a line `PART COUNT` of its input; the reply is a line of JSON. Both use this interpreter with its packages, and the
folder of tests/bench of its own checkout; so COMMIT must have what `_parts` imports.
"""

import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
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
ROUNDS: Final = 8
_CHECKOUT: Final = Path(__file__).resolve().parents[2]
_DAEMONS: Final = ("wconfd", "forkserver", "luxid")
# a round: microseconds of one call, by what: "wall", and processes
Round = Mapping[str, float]


def main(commit: str, rounds: int = ROUNDS) -> None:
    from tests.bench.figures import show

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gantry-beside-")))
        older = folder / "older"
        _git("worktree", "add", "--quiet", "--detach", str(older), commit)
        stack.callback(_git, "worktree", "remove", "--force", str(older))
        sides = [_Side(stack, checkout, folder / name) for name, checkout in (("now", _CHECKOUT), ("then", older))]
        for part, count in CALLS.items():
            found = _alternate(sides, part, count, rounds)
            for what in found[0][0]:
                now, then = ([each[what] for each in side] for side in found)
                if not statistics.median(then):
                    # a process that has nothing to do with it
                    continue
                won = sum(mine < other for mine, other in zip(now, then, strict=True))
                ratio = statistics.median(now) / statistics.median(then)
                text = f"{statistics.median(then):.0f} then, {ratio:.2f} of it; {won} of {rounds} rounds won"
                show(f"{part}: {what}", statistics.median(now), "µs", text)


def _alternate(sides: Sequence["_Side"], part: str, count: int, rounds: int) -> Sequence[Sequence[Round]]:
    """The rounds of each side."""
    for side in sides:
        side.run(part, count // 4)
    found: list[list[Round]] = [[], []]
    for number in range(rounds):
        for place in (0, 1) if number % 2 else (1, 0):
            found[place].append(sides[place].run(part, count))
    return found


def _git(*words: str) -> None:
    subprocess.run(["git", "-C", str(_CHECKOUT), *words], check=True)


class _Side:
    """The daemons of one checkout, in a process of their own."""

    def __init__(self, stack: ExitStack, checkout: Path, root: Path) -> None:
        process = subprocess.Popen(
            [sys.executable, "-P", __file__, str(root)],
            cwd=checkout,
            env={**os.environ, "PYTHONPATH": str(checkout)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
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


def be_a_side(root: Path) -> None:
    from tests.support.cluster import Cluster

    with Cluster(root) as cluster:
        cluster.start(*_DAEMONS)
        _say({})
        for line in sys.stdin:
            part, _, count = line.strip().rpartition(" ")
            _say(_measure(cluster, _parts()[part], int(count)))


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


def _measure(cluster: Any, part: Callable[[Any, int], object], count: int) -> Round:
    pids = {name: cluster.daemons[name].pid for name in _DAEMONS}
    before, began = {name: _cpu_s(pid) for name, pid in pids.items()}, time.perf_counter()
    part(cluster, count)
    spent = {"wall": time.perf_counter() - began}
    spent |= {f"CPU of {name}": _cpu_s(pid) - before[name] for name, pid in pids.items()}
    return {what: seconds / count * 1e6 for what, seconds in spent.items()}


def _cpu_s(pid: int) -> float:
    """Of a daemon with its threads, exactly, and of its children that have ended, by the kernel's ticks."""
    own = sum(int((task / "schedstat").read_text().split()[0]) for task in Path(f"/proc/{pid}/task").iterdir())
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return own / 1e9 + (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def _say(value: object) -> None:
    print(json.dumps(value), flush=True)


if __name__ == "__main__":
    be_a_side(Path(sys.argv[1]))
