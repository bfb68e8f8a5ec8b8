"""One run of a scenario with one fault, judged: while it runs, at rest, and after a restart of everything."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import attrs

from common.clusterinit import create_cluster
from common.errors import GantryError
from common.paths import Paths
from tests.reliability.driver import Driver, NoRest
from tests.reliability.farm import SETTINGS, CannotStart, Farm
from tests.reliability.faults.faultplan import Board, Fault, FaultGate, Point
from tests.reliability.ledger import Ledger
from tests.reliability.oracle import Rules, judge, judge_rest
from tests.reliability.scenarios import SCENARIOS
from tests.reliability.syscalls import set_gate
from tests.reliability.views import leftovers, view_of_files

# longer than wconfd takes to sweep the livelocks
_SETTLED_S: Final = 10.0
_CRASHES: Final = ("Traceback", "connection.crashed")


@attrs.frozen
class Verdict:
    """What came of a run."""

    violations: tuple[str, ...]
    # (role, call) -> how often it was made
    counts: dict[tuple[str, str], int]
    struck: bool
    # where it struck
    note: str
    # daemons that ended, and how often
    ends: dict[str, int]


def try_fault(root: Path, scenario: str, fault: Fault | None) -> Verdict:
    """Run a scenario in a new installation at `root`, which is removed first; the fault strikes once."""
    make_installation(root)
    board = Board(root / "board")
    note = root / "struck"
    farm = Farm(root, lambda name: set_gate(FaultGate(root, name, board, fault, note)))
    driver = Driver(farm, root / "tally")
    driver.take_rules(no_job_hurt=fault is None or not fault.hurts_a_job)
    violations: list[str] = []
    try:
        farm.start()
        board.arm()
        violations += _told(lambda: _play(driver, scenario))
        struck = board.has_struck
        counts = board.points()
        board.disarm()
        violations += judge_at_rest(driver)
        violations += driver.internal_errors
        violations += judge_after_restart(driver)
        violations += _crashes(farm.paths)
    except CannotStart as error:
        violations.append(str(error))
        struck, counts = board.has_struck, board.points()
    finally:
        farm.kill_everything()
        driver.close()
        board.close()
    where = note.read_text() if note.exists() else ""
    return Verdict(tuple(dict.fromkeys(violations)), counts, struck, where, farm.ends)


def points_of(counts: dict[tuple[str, str], int]) -> list[Point]:
    """Every call that a run has made."""
    return [Point(role, call, number) for (role, call), most in counts.items() for number in range(1, most + 1)]


def make_installation(root: Path) -> None:
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    (root / "gantry.toml").write_text(SETTINGS)
    create_cluster(Paths.under_root(root), "cluster.test", "node1.test")


def judge_files(ledger: Ledger, paths: Paths, tally: list[str], rules: Rules) -> list[str]:
    """What is wrong with the files of daemons that do not run; their start begins with this look, too."""
    try:
        view = view_of_files(paths)
    except (GantryError, OSError, ValueError) as error:
        return [f"nothing would start on these files: {type(error).__name__}: {error}"]
    return judge(ledger, view, tally, rules)


def rubbish(paths: Paths) -> list[str]:
    """What a start has not removed; a file that is being written just now is waited for."""
    deadline = time.monotonic() + _SETTLED_S
    while (found := leftovers(paths)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return [f"left after a restart: {name}" for name in found]


def _play(driver: Driver, scenario: str) -> None:
    SCENARIOS[scenario](driver)


def _told(run: Callable[[], None]) -> list[str]:
    try:
        run()
    except NoRest as error:
        return [str(error)]
    return []


def judge_at_rest(driver: Driver) -> list[str]:
    try:
        view = driver.rest()
    except NoRest as error:
        return [str(error)]
    ledger, tally = Ledger.of(driver.exchanges), driver.tally_lines()
    return [*judge(ledger, view, tally, driver.rules), *judge_rest(ledger, view, tally, driver.rules)]


def judge_after_restart(driver: Driver) -> list[str]:
    """Nothing is other than before, in the files and in what is served; and no rubbish is left."""
    farm = driver.farm
    farm.kill_everything()
    ledger, tally = Ledger.of(driver.exchanges), driver.tally_lines()
    found = judge_files(ledger, farm.paths, tally, driver.rules)
    farm.start()
    try:
        view = driver.rest()
    except NoRest as error:
        return [*found, f"after a restart: {error}"]
    tally = driver.tally_lines()
    after = [*judge(ledger, view, tally, driver.rules), *judge_rest(ledger, view, tally, driver.rules)]
    found += [f"after a restart: {each}" for each in after]
    return found + rubbish(farm.paths)


def _crashes(paths: Paths) -> list[str]:
    found = []
    for path in sorted(paths.log.glob("*.log")):
        lines = path.read_text(errors="replace").splitlines()
        for place, line in enumerate(lines):
            if any(word in line for word in _CRASHES):
                last = next((text for text in lines[place + 1 :] if text and not text.startswith((" ", "\t"))), "")
                found.append(f"{path.name} has a crash: {line[:200]} / {last[:200]}")
                break
    return found
