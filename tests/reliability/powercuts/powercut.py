"""A run that was recorded, and the states in which a power cut may leave its disk; each can be rebuilt and judged."""

import contextlib
import hashlib
import os
import pickle
import random
import re
import shutil
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import attrs

from common.paths import Paths
from tests.reliability.driver import Driver, NoRest
from tests.reliability.farm import SETTINGS, CannotStart, Farm
from tests.reliability.ledger import Exchange, Ledger, answered
from tests.reliability.oracle import Rules, judge, judge_rest
from tests.reliability.powercuts.disk import Disk, Operation, Tree
from tests.reliability.powercuts.recording import RecordingGate, between_operations, read_log
from tests.reliability.scenarios import SCENARIOS
from tests.reliability.syscalls import files_under, set_gate
from tests.reliability.trial import judge_files, make_installation, rubbish

# beginning of the names of files on which nothing rests: SQLite writes them, not synced, and they are made anew
_DERIVED: Final = "history.sqlite"
_JOB: Final = re.compile(r"/queue/(?:archive/\d+/)?job-(\d+)$")


@attrs.frozen
class Recording:
    """All that a run changed on its disk, and all that its client was told, in order."""

    scenario: str
    # contents have it in them: a state can only be rebuilt there
    root: Path
    tree: Mapping[str, bytes | None]
    # of the files of the beginning
    nodes: Mapping[str, int]
    operations: Sequence[Operation]
    exchanges: Sequence[Exchange]
    tally: bytes
    rules: Rules
    # what was changed and is not among the operations
    escaped: tuple[str, ...] = ()
    # name -> content: the index of the history as its run has left it, and the jobs in it
    index: Mapping[str, bytes] = attrs.Factory(dict)
    indexed: frozenset[int] = frozenset()


@attrs.frozen
class Cut:
    """A state in which the power may leave the disk."""

    recording: Recording
    # of operations
    after: int
    name: str
    tree: Tree
    # of exchanges
    answers: int
    # bytes
    tally: int

    @property
    def key(self) -> bytes:
        """Of two cuts with one key one is enough."""
        digest = hashlib.sha256(repr((self.answers, self.tally)).encode())
        for path, content in self.tree.items():
            digest.update(repr((path, content)).encode())
        return digest.digest()

    @property
    def ledger(self) -> Ledger:
        return Ledger.of(answered(self.recording.exchanges, self.answers))

    @property
    def tally_lines(self) -> list[str]:
        return self.recording.tally[: self.tally].decode().splitlines()

    def __str__(self) -> str:
        last = self.recording.operations[self.after - 1]
        place = f"{last.role} {last.what} {os.path.basename(last.path)} {os.path.basename(last.target)}".rstrip()
        return f"{self.recording.scenario} after operation {self.after} ({place}), {self.answers} answers: {self.name}"


def record(root: Path, scenario: str) -> Recording:
    """Run a scenario at `root`, which is removed first, and write everything down."""
    make_installation(root)
    paths = Paths.under_root(root)
    log, tally = root / "recording", root / "tally"
    tally.touch()
    tree = _tree_of(paths.data)
    nodes = {path: os.stat(path).st_ino for path in tree}
    client = os.getpid()
    farm = Farm(
        root, lambda name: set_gate(RecordingGate(root, name, log, tally, client)), partial(between_operations, log)
    )
    driver = Driver(farm, tally)
    try:
        farm.start()
        SCENARIOS[scenario](driver)
        exchanges = tuple(driver.exchanges)
        driver.rest()
    finally:
        farm.kill_everything()
        driver.close()
    operations = tuple(read_log(log))
    recording = Recording(scenario, root, tree, nodes, operations, exchanges, tally.read_bytes(), driver.rules)
    escaped = _escaped(recording)
    index = {path.name: path.read_bytes() for path in sorted(paths.data.glob(f"{_DERIVED}*"))}
    with contextlib.closing(sqlite3.connect(paths.history)) as connection:
        indexed = frozenset(row[0] for row in connection.execute("SELECT id FROM jobs"))
    return attrs.evolve(recording, escaped=escaped, index=index, indexed=indexed)


def _tree_of(folder: Path) -> dict[str, bytes | None]:
    tree: dict[str, bytes | None] = {str(path): None for path in (folder, *folder.rglob("*")) if path.is_dir()}
    return tree | {str(path): path.read_bytes() for path in files_under(folder)}


def _escaped(recording: Recording) -> tuple[str, ...]:
    """Where the model, after all operations, differs from what there is."""
    disk = Disk(recording.tree, orders=True)
    disk.know(recording.nodes)
    for operation in recording.operations:
        disk.play(operation)
    there, known = _tree_of(recording.root / "lib"), disk.now()
    missed = [
        path
        for path in {*there, *known}
        if there.get(path, 0) != known.get(path, 0) and not Path(path).name.startswith(_DERIVED)
    ]
    opened = [operation.path for operation in recording.operations if operation.what == "escaped"]
    if (marks := sum(operation.what == "answer" for operation in recording.operations)) < len(recording.exchanges):
        opened.append(f"{len(recording.exchanges) - marks} answers")
    return (*sorted(missed), *opened)


def cuts_of(recording: Recording, chance: random.Random) -> Iterator[Cut]:
    """All cuts of a recording that differ, for both kinds of disk."""
    seen: set[bytes] = set()
    for orders in (True, False):
        for cut in _cuts(recording, orders, chance):
            if (key := cut.key) not in seen:
                seen.add(key)
                yield cut


def _cuts(recording: Recording, orders: bool, chance: random.Random) -> Iterator[Cut]:
    disk = Disk(recording.tree, orders=orders)
    disk.know(recording.nodes)
    kind = "ordered" if orders else "unordered"
    answers = 0
    operations = recording.operations
    for place, operation in enumerate(operations, 1):
        # what a command did until the next operation is known to have happened
        tally = operations[place].tally if place < len(operations) else len(recording.tally)
        parts = [operation]
        if operation.what == "write" and operation.synced:
            # it may be cut in the middle
            parts = [attrs.evolve(operation, synced=False), Operation("sync", operation.path, node=operation.node)]
        answers += operation.what == "answer"
        for part in parts:
            disk.play(part)
            for name, tree in disk.states(chance):
                yield Cut(recording, place, f"{kind}, {name}", tree, answers, tally)


def judge_cut(cut: Cut) -> list[str]:
    """What is wrong with the files, as the daemons' loaders see them."""
    paths = rebuild(cut)
    return judge_files(cut.ledger, paths, cut.tally_lines, cut.recording.rules)


def judge_cut_by_daemons(cut: Cut) -> list[str]:
    """What is wrong once the daemons have been started there and all has come to rest."""
    paths = rebuild(cut)
    for name, content in _index_of(cut).items():
        (paths.data / name).write_bytes(content)
    farm = Farm(cut.recording.root, lambda name: None)
    driver = Driver(farm, farm.root / "tally")
    driver.rules = cut.recording.rules
    ledger = cut.ledger
    # who held them died with the machine
    ledger.locks.clear()
    try:
        farm.start()
        view = driver.rest()
        tally = driver.tally_lines()
        return [
            *judge(ledger, view, tally, cut.recording.rules),
            *judge_rest(ledger, view, tally),
            *rubbish(farm.paths),
        ]
    except (CannotStart, NoRest) as error:
        return [str(error)]
    finally:
        farm.kill_everything()
        driver.close()


def _index_of(cut: Cut) -> Mapping[str, bytes]:
    """What there may be of the index of the history, which is not synced; by the cut's key."""
    chance = random.Random(cut.key)
    index = dict(cut.recording.index)
    jobs = {int(found[1]) for path in cut.tree if (found := _JOB.search(path))} | cut.ledger.removed
    if not index or not cut.recording.indexed <= jobs:
        # it was never so with these jobs
        return {}
    name = chance.choice(sorted(index))
    content = index[name]
    at = chance.randrange(len(content) + 1) // 4096 * 4096
    index[name] = chance.choice((content, content[:at], content[:at] + bytes(4096) + content[at + 4096 :], b""))
    return index


def rebuild(cut: Cut) -> Paths:
    """Put the tree in its place; what does not survive a loss of power is gone."""
    root = cut.recording.root
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    (root / "gantry.toml").write_text(SETTINGS)
    (root / "tally").write_bytes(cut.recording.tally[: cut.tally])
    for path, content in cut.tree.items():
        if content is None:
            os.makedirs(path, exist_ok=True)
        else:
            with open(path, "wb", buffering=0) as file:
                file.write(content)
    paths = Paths.under_root(root)
    paths.make_folders()
    return paths


def keep(cut: Cut, folder: Path) -> Path:
    """Write a cut into a file, to be judged again."""
    folder.mkdir(exist_ok=True, parents=True)
    path = folder / f"{cut.recording.scenario}-{cut.key.hex()[:12]}-{int(time.time())}"
    path.write_bytes(pickle.dumps(cut))
    return path


def read_cut(path: Path) -> Cut:
    cut = pickle.loads(path.read_bytes())
    assert isinstance(cut, Cut)
    return cut
