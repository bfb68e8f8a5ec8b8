"""Every system call fails once: `python -m tests.reliability.faults.faults`, or `make faults`.

Each scenario is run once to count its calls, and then once for each call and each way to fail.

    --scenario NAME     one of them, or several
    --sample N          so many runs of all that there are, chosen by the seed
    --seed S
    --replay SCENARIO FAULT     one run: 'submit luxid:fsync:2:EIO'

Exit code 1: a promise was broken; logs and files are kept, and the command that replays the run is printed with it.
"""

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from tests.reliability.faults.faultplan import FAULTS_OF, Fault
from tests.reliability.syscalls import wrap_system_calls

if TYPE_CHECKING:
    from tests.reliability.trial import Verdict

MODULE = "tests.reliability.faults.faults"


def main(arguments: list[str]) -> int:
    given = _read(arguments)
    # before trio is imported, which keeps the methods of sockets that it finds
    wrap_system_calls()
    from tests.reliability.farm import be_a_runner

    be_a_runner()
    with tempfile.TemporaryDirectory(prefix="gantry-faults-", dir=scratch()) as folder:
        root = Path(folder) / "root"
        if given.replay:
            return _replay(root, *given.replay)
        return _campaign(root, given.scenario, given.sample, given.seed)


def scratch() -> Path:
    """A folder in memory, where there is one: to be kind to the disk."""
    memory = Path("/dev/shm")
    return memory if os.access(memory, os.W_OK) else Path(tempfile.gettempdir())


def _campaign(root: Path, names: list[str], sample: int | None, seed: int) -> int:
    from tests.reliability.scenarios import SCENARIOS
    from tests.reliability.trial import points_of, try_fault

    began = time.monotonic()
    runs: list[tuple[str, Fault]] = []
    point_count = failed = 0
    for name in names or SCENARIOS:
        plain = try_fault(root, name, None)
        failed += _report(root, name, None, plain)
        points = points_of(plain.counts)
        point_count += len(points)
        runs += [(name, Fault(point, kind)) for point in points for kind in FAULTS_OF[point.call]]
        print(f"{name}: {len(points)} points: {_counts(plain)}", flush=True)
    total = len(runs)
    if sample is not None and sample < total:
        runs = random.Random(seed).sample(runs, sample)
    struck = 0
    ends: Counter[str] = Counter()
    for place, (name, fault) in enumerate(runs, 1):
        started = time.monotonic()
        verdict = try_fault(root, name, fault)
        struck += verdict.struck
        ends.update(verdict.ends)
        failed += _report(root, name, fault, verdict)
        if (took_s := time.monotonic() - started) > 10:
            print(f"slow: {name} {fault} took {took_s:.0f} s", flush=True)
        if place % 50 == 0:
            print(f"{place} of {len(runs)} runs, {struck} struck, {failed} failed", flush=True)
    print(
        f"faults: {point_count} points, {total} faults at them, {len(runs)} runs, {struck} struck, "
        f"daemons ended {sum(ends.values())} times, {failed} runs with violations, {time.monotonic() - began:.0f} s"
    )
    return 1 if failed else 0


def _replay(root: Path, name: str, text: str) -> int:
    from tests.reliability.trial import try_fault

    fault = None if text == "none" else Fault.read(text)
    verdict = try_fault(root, name, fault)
    print(f"{name} {fault}: struck={verdict.struck} {verdict.note} ends={verdict.ends}")
    for log in sorted((root / "log").glob("*.log")):
        print(f"--- {log.name}\n{log.read_text(errors='replace')[-6000:]}")
    return 1 if _report(root, name, fault, verdict) else 0


def _report(root: Path, name: str, fault: Fault | None, verdict: "Verdict") -> int:
    """Tell what is wrong; returns the number of runs with violations: 0 or 1."""
    if not verdict.violations:
        return 0
    print(f"VIOLATION: {name} {fault} at {verdict.note}")
    for text in verdict.violations:
        print(f"    {text}")
    kept = Path(tempfile.gettempdir()) / f"gantry-faults-{os.getuid()}" / f"{name}-{fault}"
    for folder in ("log", "lib"):
        shutil.copytree(root / folder, kept / folder, dirs_exist_ok=True)
    print(f"    kept: {kept}")
    print(f"    replay: {Path(sys.executable)} -m {MODULE} --replay {name} {fault or 'none'}", flush=True)
    return 1


def _counts(verdict: "Verdict") -> str:
    return ", ".join(f"{role} {call} {count}" for (role, call), count in verdict.counts.items() if count)


def _read(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(MODULE, description="Every system call fails once.")
    parser.add_argument("--scenario", action="append", default=[], help="one of them; may be repeated")
    parser.add_argument("--sample", type=int, help="so many runs, chosen by the seed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--replay", nargs=2, metavar=("SCENARIO", "FAULT"), help="one run")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
