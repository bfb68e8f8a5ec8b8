"""This Gantry beside an older one, in alternating rounds of one run: `python -m tests.bench beside COMMIT [ROUNDS]`.

A machine that is shared is twice as fast in one minute as in the next. So both run at once, only one of them works at a
time, and they take turns, also in who is first. Where a process lies in memory makes a few percent, too, so both begin
anew after every two rounds. Told are medians, how many rounds this one has won, and the CPU of each process for one
call: the figure that a noisy neighbour changes least.

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
from collections.abc import Callable, Iterator, Mapping
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
# rounds of the same processes
_TURNS: Final = 2
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
        found: dict[str, list[tuple[Round, Round]]] = {part: [] for part in CALLS}
        for number in range(rounds // _TURNS):
            with ExitStack() as pair:
                now, then = (_Side(pair, at, folder / f"{number}{at.name}") for at in (_CHECKOUT, older))
                for part, count in CALLS.items():
                    found[part] += _alternate(now, then, part, count)
    for part, pairs in found.items():
        for what in pairs[0][0]:
            now_us, then_us = (statistics.median(each[side][what] for each in pairs) for side in (0, 1))
            # without it the process has nothing to do with the part
            if then_us:
                won = sum(mine[what] < other[what] for mine, other in pairs)
                text = f"{then_us:.0f} then, {now_us / then_us:.2f} of it; {won} of {len(pairs)} rounds won"
                show(f"{part}: {what}", now_us, "µs", text)


def _alternate(now: "_Side", then: "_Side", part: str, count: int) -> Iterator[tuple[Round, Round]]:
    """Rounds of both sides, each with another one first."""
    for side in (now, then):
        side.run(part, count // 4)
    for turn in range(_TURNS):
        if turn % 2:
            mine = now.run(part, count)
            yield mine, then.run(part, count)
        else:
            other = then.run(part, count)
            yield now.run(part, count), other


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
