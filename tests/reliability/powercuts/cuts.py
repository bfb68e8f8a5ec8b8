"""Power cuts: `python -m tests.reliability.powercuts.cuts`, or `make cuts`.

Each scenario is run once and recorded; then its disk is rebuilt as a power cut may leave it, at each point, and
judged: all by the daemons' own loaders, some by starting the daemons there.

    --scenario NAME     one of them, or several
    --sample N          at most so many cuts of each scenario, chosen by the seed
    --daemons N         so many of them with daemons
    --seed S
    --replay FILE       one cut that was kept

Exit code 1: a promise was broken; the cut is kept, and the command that judges it again is printed with it.
"""

import argparse
import logging
import os
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.reliability.faults.faults import scratch
from tests.reliability.syscalls import wrap_system_calls

if TYPE_CHECKING:
    from tests.reliability.powercuts.powercut import Cut

MODULE = "tests.reliability.powercuts.cuts"
# of one scenario, violations that are told one by one
MOST_TOLD = 8


def main(arguments: list[str]) -> int:
    given = _read(arguments)
    wrap_system_calls()
    from tests.reliability.farm import be_a_runner

    be_a_runner()
    # the loaders log what they repair
    logging.disable(logging.CRITICAL)
    if given.replay:
        return _replay(given.replay)
    with tempfile.TemporaryDirectory(prefix="gantry-cuts-", dir=scratch()) as folder:
        return _campaign(Path(folder) / "root", given)


def _campaign(root: Path, given: argparse.Namespace) -> int:
    from tests.reliability.powercuts.powercut import cuts_of, judge_cut, judge_cut_by_daemons, record
    from tests.reliability.scenarios import SCENARIOS

    began = time.monotonic()
    judged = with_daemons = failed = 0
    for name in given.scenario or SCENARIOS:
        chance = random.Random(given.seed)
        logging.disable(logging.NOTSET)
        recording = record(root, name)
        logging.disable(logging.CRITICAL)
        if recording.escaped:
            print(f"VIOLATION: {name}: not recorded: {recording.escaped}")
            failed += 1
        cuts = list(cuts_of(recording, chance))
        total = len(cuts)
        if given.sample is not None and given.sample < total:
            cuts = chance.sample(cuts, given.sample)
        broken = 0
        for cut in cuts:
            broken += _report(cut, judge_cut(cut), is_told=broken < MOST_TOLD)
        logging.disable(logging.NOTSET)
        started = chance.sample(cuts, min(given.daemons, len(cuts)))
        for cut in started:
            broken += _report(cut, judge_cut_by_daemons(cut), is_told=broken < MOST_TOLD)
        judged, with_daemons, failed = judged + len(cuts), with_daemons + len(started), failed + broken
        print(
            f"{name}: {len(recording.operations)} operations, {total} cuts, {len(cuts)} judged, "
            f"{len(started)} with daemons, {broken} failed",
            flush=True,
        )
    took_s = time.monotonic() - began
    print(f"cuts: {judged} judged, {with_daemons} of them with daemons, {failed} with violations, {took_s:.0f} s")
    return 1 if failed else 0


def _replay(path: Path) -> int:
    from tests.reliability.powercuts.powercut import judge_cut, judge_cut_by_daemons, read_cut

    cut = read_cut(path)
    for place, operation in enumerate(cut.recording.operations[: cut.after], 1):
        print(place, operation.role, operation.what, operation.path, operation.target, operation.content[:200])
    for path_, content in cut.tree.items():
        print(path_, "folder" if content is None else content[:300])
    print("tally", cut.tally_lines, cut.ledger)
    broken = _report(cut, judge_cut(cut), is_told=True)
    logging.disable(logging.NOTSET)
    broken += _report(cut, judge_cut_by_daemons(cut), is_told=True)
    print(f"{broken} of 2 judgements found violations")
    return 1 if broken else 0


def _report(cut: "Cut", violations: list[str], *, is_told: bool) -> int:
    from tests.reliability.powercuts.powercut import keep

    if not violations:
        return 0
    if is_told:
        path = keep(cut, Path(tempfile.gettempdir()) / f"gantry-cuts-{os.getuid()}")
        print(f"VIOLATION: {cut}")
        for text in dict.fromkeys(violations):
            print(f"    {text}")
        print(f"    replay: {sys.executable} -m {MODULE} --replay {path}", flush=True)
    return 1


def _read(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(MODULE, description="The power is cut at each point of a run.")
    parser.add_argument("--scenario", action="append", default=[], help="one of them; may be repeated")
    parser.add_argument("--sample", type=int, help="at most so many cuts of each scenario, chosen by the seed")
    parser.add_argument("--daemons", type=int, default=10, help="so many of them with daemons")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--replay", type=Path, metavar="FILE", help="one cut that was kept")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
