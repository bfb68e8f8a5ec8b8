"""Everything at once, for long: `make soak MINUTES=30 SEED=1`.

Rounds of some seconds follow each other, each in a new installation and by a seed of its own: clients submit, cancel
and change things at random, while daemons and job processes are killed and stopped, the clock jumps, descriptors run
out and the disk is full. Then all harm ends, everything has to come to rest by itself, and is judged; once more
after a restart.

A round that fails is played again by `--round SEED`; what was done, when, is in its `story`.

Exit code 1: a promise was broken.
"""

import argparse
import contextlib
import os
import pickle
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import attrs

from tests.reliability.driver import Driver
from tests.reliability.farm import CannotStart, Farm, be_a_runner
from tests.reliability.ledger import Ledger
from tests.reliability.oracle import Rules
from tests.reliability.soak.harms import HARMS, Clock, Scene
from tests.reliability.soak.soakclient import Told
from tests.reliability.trial import judge_after_restart, judge_at_rest, make_installation

MODULE: Final = "tests.reliability.soak.soak"
CLIENTS: Final = 3
ROUND_S: Final = 20.0
# a client that waits for a job in vain says so before
CLIENT_PATIENCE_S: Final = 120.0
DISK: Final = "48m"
_CHECKOUT: Final = Path(__file__).resolve().parents[3]


@attrs.define
class Sums:
    """What was done in all rounds."""

    rounds: int = 0
    states: Counter[str] = attrs.Factory(Counter)
    harms: Counter[str] = attrs.Factory(Counter)
    failed: int = 0

    @property
    def kills(self) -> int:
        return sum(count for name, count in self.harms.items() if name.startswith("kill"))


class Round:
    """Some seconds of harm, and the judgement.

    Args:
        seed: decides what is done, in which order, and how long each harm lasts.
    """

    def __init__(self, root: Path, seed: str, seconds: float, *, has_own_disk: bool) -> None:
        make_installation(root)
        clock = Clock(root / "clock")
        self._chance = random.Random(seed)
        self.farm = Farm(root, lambda _: clock.rule())
        self._scene = Scene(self.farm, clock, self._chance, has_own_disk)
        self._seed, self._seconds = seed, seconds
        self._stop = root / "stop"
        # not on the disk that is filled: a line that is cut off there would tell nothing
        self._tally = root.parent.with_name(f"{root.parent.name}-tally")
        self._tally.unlink(missing_ok=True)
        # harms that have not passed: what ends each, and when
        self._present: list[tuple[float, Callable[[], None]]] = []
        self.story: list[str] = []
        self.harms: Counter[str] = Counter()
        self.states: Counter[str] = Counter()

    def play(self) -> list[str]:
        """Returns what is wrong."""
        self.farm.start()
        clients = [self._start_client(f"c{number}") for number in range(1, CLIENTS + 1)]
        try:
            self._torment()
            self._stop.touch()
            told = self._home(clients)
            return self._judge(told)
        finally:
            for client in clients:
                client.kill()
                client.wait()
            self._end_harms(time.monotonic() + 3600)
            self.farm.kill_everything()

    def _start_client(self, name: str) -> "subprocess.Popen[bytes]":
        words = [str(self.farm.root), name, f"{self._seed}-{name}", str(self._stop), str(self._tally)]
        return subprocess.Popen([sys.executable, "-m", "tests.reliability.soak.soakclient", *words], cwd=_CHECKOUT)

    def _torment(self) -> None:
        ends_at = time.monotonic() + self._seconds
        harms, weights = [harm for harm, _ in HARMS], [weight for _, weight in HARMS]
        while (now := time.monotonic()) < ends_at:
            self._end_harms(now)
            self._revive()
            time.sleep(self._chance.choice((0.0, 0.02, 0.1, 0.3)))
            what, end = self._chance.choices(harms, weights)[0](self._scene)
            self.harms[what] += 1
            self._say(what)
            if end is not None:
                self._present.append((time.monotonic() + self._chance.uniform(0.05, 2.0), end))
        self._end_harms(ends_at + 3600)
        self._scene.clock.jump(0.0)
        self._revive()

    def _end_harms(self, now: float) -> None:
        for due_at, end in [each for each in self._present if each[0] <= now]:
            end()
            self._present.remove((due_at, end))

    def _revive(self) -> None:
        try:
            self.farm.revive()
        except CannotStart as error:
            if not self._present:
                raise
            # without disk or descriptors; tried again when the harm has passed
            self._say(f"cannot start: {str(error)[:80]}")

    def _home(self, clients: "list[subprocess.Popen[bytes]]") -> list[Told]:
        """Wait for the clients, and keep the daemons alive meanwhile."""
        deadline = time.monotonic() + CLIENT_PATIENCE_S
        while any(client.poll() is None for client in clients):
            self._revive()
            time.sleep(0.05)
            if time.monotonic() > deadline:
                raise AssertionError(f"a client does not end within {CLIENT_PATIENCE_S:g} s")
        return [pickle.loads((self.farm.root / f"told-c{number}").read_bytes()) for number in range(1, CLIENTS + 1)]

    def _judge(self, told: list[Told]) -> list[str]:
        driver = Driver(self.farm, self._tally)
        driver.exchanges = [exchange for each in told for exchange in each.exchanges]
        found = [complaint for each in told for complaint in each.complaints]
        try:
            lines = set(driver.tally_lines())
            wanting = frozenset(token for each in told for token in each.rules.exclusive)
            # one that was killed has no end in the tally: nobody knows when it was over
            driver.rules = Rules(
                exclusive=frozenset(token for token in wanting if f"{token}-" in lines),
                after={token: before for each in told for token, before in each.rules.after.items()},
            )
            found += judge_at_rest(driver)
            found += judge_after_restart(driver)
            self.states.update(job.state for job in driver.view().jobs)
        finally:
            driver.close()
        self._say(f"{len(Ledger.of(driver.exchanges).jobs)} jobs were answered")
        return found

    def _say(self, text: str) -> None:
        self.story.append(f"{time.monotonic():.3f} {text}")


def main(arguments: list[str]) -> int:
    given = _read(arguments)
    be_a_runner()
    sums = Sums()
    seeds = [given.round] if given.round else _seeds(given.seed, given.minutes)
    with _scratch() as (folder, has_own_disk):
        for seed in seeds:
            _play(folder / "root", seed, given.round_seconds, has_own_disk, sums)
    states = ", ".join(f"{count} {state}" for state, count in sorted(sums.states.items()))
    harms = sum(sums.harms.values())
    print(f"soak: {sums.rounds} rounds, {sums.kills} kills, {harms} harms, {states}, {sums.failed} rounds failed")
    for what, count in sums.harms.most_common():
        print(f"    {count:5} {what}")
    return 1 if sums.failed else 0


def _seeds(seed: int, minutes: float) -> Iterator[str]:
    ends_at = time.monotonic() + 60 * minutes
    number = 0
    while time.monotonic() < ends_at:
        number += 1
        yield f"{seed}.{number}"


def _play(root: Path, seed: str, seconds: float, has_own_disk: bool, sums: Sums) -> None:
    shutil.rmtree(root, ignore_errors=True)
    one = Round(root, seed, seconds, has_own_disk=has_own_disk)
    try:
        found = one.play()
    except (AssertionError, CannotStart) as error:
        found = [f"{type(error).__name__}: {error}"]
    sums.rounds += 1
    sums.harms.update(one.harms)
    sums.states.update(one.states)
    sums.failed += bool(found)
    harms, jobs = sum(one.harms.values()), sum(one.states.values())
    print(f"round {seed}: {harms} harms, {jobs} jobs, {'FAILED' if found else 'well'}", flush=True)
    if found:
        kept = Path(tempfile.mkdtemp(prefix="gantry-soak-failed-")) / "root"
        shutil.copytree(root, kept, ignore=shutil.ignore_patterns("socket", "filler", "ready-*"))
        (kept / "story").write_text("\n".join(one.story))
        for text in found[:20]:
            print(f"    {text}")
        print(f"    kept in {kept}; replay: {sys.executable} -m {MODULE} --round {seed}", flush=True)


@contextlib.contextmanager
def _scratch() -> Iterator[tuple[Path, bool]]:
    """A folder, and whether it is a file system of its own."""
    with tempfile.TemporaryDirectory(prefix="gantry-soak-") as folder:
        mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK},mode=755", "gantry-soak", folder]
        if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
            print("the disk cannot be filled here: only root can mount one")
            yield Path(folder), False
            return
        try:
            yield Path(folder), True
        finally:
            subprocess.run(["umount", "--lazy", folder], check=True)


def _read(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(MODULE, description="Everything at once, for long.")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--round", metavar="SEED", help="play this round alone")
    parser.add_argument("--round-seconds", type=float, default=ROUND_S)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
