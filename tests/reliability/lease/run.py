"""Masters that come and go under a lease: `make lease SEED=1 MINUTES=10`.

Three candidates and three members of etcd on loopback, with proxies on all ways between them. Five clients, each a
process, submit with keys, look, wait, cancel, and change filters, tags and limits; their jobs run on the master and on
nodes, each under a lock for itself. Meanwhile daemons, nodes and members of etcd are killed and stopped, ways are cut,
delayed, garbled, or lose the replies, disks are filled, and the mastership is moved.
Then all harm ends. All jobs have to end, all nodes to have the same files, no lock or dirty entry may be left,
and the history is judged (`violations`, `reigns`).

Exit code 1: a promise was broken; then the folder is kept.
"""

import argparse
import contextlib
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from common.errors import GantryError
from common.lease.records import EtcdKeys
from protocol.luxi.queries import QueryJobs
from protocol.wconfd.config import ReadConfig
from protocol.wconfd.locks import ListAllLocks, ListOrphanedLocks
from tests.reliability.lease.history import EndedJob, Notes, Rest, Submit, Told, Write, read_notes
from tests.reliability.lease.leaseclient import things_of
from tests.reliability.lease.ledgers import ledger_lines, token_of
from tests.reliability.lease.recorder import Recorder
from tests.reliability.lease.reigns import KeyChange, entries_left, reign_violations, reigns_of
from tests.reliability.lease.torments import HARMS, Scene, Struck, disk_of
from tests.reliability.lease.violations import violations
from tests.reliability.ledger import Outcome as LedgerOutcome
from tests.support.etcds.etcd import Etcd, needed_etcd
from tests.support.machines.following import Follower, NoReply
from tests.support.machines.leasefleet import LeaseFleet
from tests.support.wait import wait_until

CLIENTS: Final = 5
MEMBERS: Final = 3
DISK: Final = "64m"
# seconds
_REST_S: Final = 300.0
_LASTS_S: Final = (0.2, 9.0)
_PAUSES_S: Final = (0.0, 0.5, 2.0, 4.0)
_AGAIN_S: Final = 2.0
_AT_ONCE: Final = 2
_FINAL: Final = ("success", "error", "canceled")
_CHECKOUT: Final = Path(__file__).resolve().parents[3]


@attrs.define
class Outcome:
    complaints: list[str]
    harms: Counter[str]
    told: Sequence[Told] = ()
    jobs: Mapping[int, EndedJob] = attrs.Factory(dict)
    # words of the errors of jobs, without numbers
    errors: Counter[str] = attrs.Factory(Counter)
    reigns: int = 0
    changes: int = 0
    tormented_s: float = 0.0
    resting_s: float = 0.0


class Run:
    """One run. Args: folder: for the ledger, the notes, the nodes and etcd."""

    def __init__(self, fleet: LeaseFleet, folder: Path, seed: str, *, has_disks: bool) -> None:
        self._fleet, self._folder, self._seed = fleet, folder, seed
        self._chance = random.Random(seed)
        self._scene = Scene(fleet, self._chance, has_disks)
        self._present: list[tuple[float, Struck]] = []
        self.harms: Counter[str] = Counter()
        self.story = (folder / "story").open("w", buffering=1)
        self._began = time.monotonic()
        nodes = {each.name: each.paths for each in fleet}
        (folder / "nodes").write_text("".join(f"{each.name} {each.cluster.root}\n" for each in fleet))
        self._follower = Follower(nodes.items())

    def play(self, seconds: float) -> Outcome:
        with Recorder(self._fleet.etcd, self._fleet.prefix) as recorder:
            self._fleet.up()
            self._fleet.until_master()
            self._note_beginning()
            clients = [self._client(f"c{number}") for number in range(CLIENTS)]
            try:
                self._torment(seconds, clients)
                tormented = time.monotonic()
                outcome = Outcome([], self.harms, tormented_s=tormented - self._began)
                self._come_to_rest(clients, outcome, recorder)
                outcome.resting_s = time.monotonic() - tormented
                self._judge(recorder.changes(), outcome)
                if recorder.gap:
                    outcome.complaints.append(recorder.gap)
            finally:
                for client in clients:
                    client.kill()
                    client.wait()
        return outcome

    def _note_beginning(self) -> None:
        """Note the values that nobody has written."""
        with Notes(self._folder / "told-start") as notes:
            for name, value in things_of(self._wconf(ReadConfig())).items():
                notes.add(Told("start", Write(name, value), 0, 0, LedgerOutcome.ANSWERED, by="nobody"))

    def _client(self, name: str) -> "subprocess.Popen[bytes]":
        words = [str(self._folder), name, f"{self._seed}-{name}"]
        errors = (self._folder / f"errors-{name}").open("wb")
        with errors:
            return subprocess.Popen(
                [sys.executable, "-m", "tests.reliability.lease.leaseclient", *words], cwd=_CHECKOUT, stderr=errors
            )

    # harm

    def _torment(self, seconds: float, clients: "list[subprocess.Popen[bytes]]") -> None:
        ends_at = time.monotonic() + seconds
        harms, weights = [harm for harm, _ in HARMS], [weight for _, weight in HARMS]
        while (now := time.monotonic()) < ends_at:
            self._end_harms(now)
            if len(self._present) < _AT_ONCE:
                self._strike(self._chance.choices(harms, weights)[0])
            time.sleep(self._chance.choice(_PAUSES_S))
            ended = [client.args for client in clients if client.poll() is not None]
            assert not ended, f"clients have ended: {ended}"
        self._fleet.heal()
        while self._present:
            self._end_harms(float("inf"))

    def _strike(self, harm: Any) -> None:
        struck: Struck = harm(self._scene)
        self.harms[struck.what] += 1
        self._say(struck.what)
        if struck.end is not None:
            self._present.append((time.monotonic() + self._chance.uniform(*_LASTS_S), struck))

    def _end_harms(self, now: float) -> None:
        for each in [each for each in self._present if each[0] <= now]:
            self._present.remove(each)
            assert each[1].end is not None
            try:
                each[1].end()
                self._say(f"end of: {each[1].what}")
            except AssertionError as error:
                # a node does not come up while another harm lasts
                self._say(f"no end of {each[1].what} yet: {str(error)[:200]}")
                self._present.append((time.monotonic() + _AGAIN_S, each[1]))

    def _say(self, text: str) -> None:
        master = self._fleet.master()
        at = f"{time.monotonic() - self._began:8.3f} {time.strftime('%H:%M:%S')}"
        self.story.write(f"{at} [{master.name if master else '-'}] {text}\n")

    # rest

    def _come_to_rest(self, clients: "list[subprocess.Popen[bytes]]", outcome: Outcome, recorder: Recorder) -> None:
        (self._folder / "stop").touch()
        self._fleet.until_master(timeout_s=_REST_S)
        wait_until(
            lambda: all(client.poll() is not None for client in clients), what="the clients end", timeout_s=_REST_S
        )
        for number, client in enumerate(clients):
            if client.returncode:
                text = (self._folder / f"errors-c{number}").read_text()[-3000:]
                outcome.complaints.append(f"client c{number} ended with {client.returncode}: {text}")
        wait_until(lambda: not self._open_jobs(), what="all jobs end", timeout_s=_REST_S, state=self._open_jobs)
        self._fleet.until_same(_REST_S)
        wait_until(lambda: not self._left(recorder), what="no lock or dirty entry is left", timeout_s=_REST_S,
                   state=lambda: self._left(recorder))  # fmt: skip

    def _open_jobs(self) -> dict[int, str]:
        rows = self._luxi(QueryJobs(None, ("id", "status")))
        return {row[0]: row[1] for row in rows if row[1] not in _FINAL}

    def _left(self, recorder: Recorder) -> list[str]:
        locks, orphans = self._wconf(ListAllLocks()), self._wconf(ListOrphanedLocks())
        return [*map(str, locks), *map(str, orphans), *entries_left(recorder.changes(), EtcdKeys(self._fleet.prefix))]

    def _luxi(self, request: Any) -> Any:
        return self._follower.luxi(request, _REST_S).value

    def _wconf(self, request: Any) -> Any:
        return self._follower.wconf(request, _REST_S).value

    # judgement

    def _judge(self, changes: Sequence[KeyChange], outcome: Outcome) -> None:
        outcome.told = [told for path in sorted(self._folder.glob("told-*")) for told in read_notes(path)]
        outcome.jobs = dict(self._jobs(outcome.errors))
        keys = EtcdKeys(self._fleet.prefix)
        rest = Rest(outcome.jobs, self._things(outcome.told))
        outcome.complaints += violations(outcome.told, ledger_lines(self._folder), rest)
        outcome.complaints += reign_violations(changes, keys, acknowledged(outcome.told, keys))
        outcome.reigns, outcome.changes = len(reigns_of(changes, keys)), len(changes)

    def _jobs(self, errors: Counter[str]) -> Iterator[tuple[int, EndedJob]]:
        rows = self._luxi(QueryJobs(None, ("id", "status", "ops", "opresult")))
        for job_id, state, ops, results in rows:
            if state == "error":
                errors[_words(results[0])] += 1
            yield job_id, EndedJob(state, token_of(ops[0]))

    def _things(self, history: Sequence[Told]) -> dict[str, object]:
        there = things_of(self._wconf(ReadConfig()))
        written = {name for told in history if (name := getattr(told.asked, "name", None))}
        return {name: there.get(name) for name in written}


def _words(result: Any) -> str:
    """The text of an error, without what differs from job to job."""
    text = result if isinstance(result, str) else result[1][0]
    return re.sub(r"[\w/.:-]*\d[\w/.:-]*", "N", str(text))[:120]


def acknowledged(history: Sequence[Told], keys: EtcdKeys) -> dict[str, str]:
    """Key in etcd of each job -> the node that acknowledged it first."""
    found: dict[str, str] = {}
    for told in sorted(history, key=lambda each: each.ended):
        if isinstance(told.asked, Submit) and told.is_sure and isinstance(told.answer, tuple):
            for job_id in told.answer:
                found.setdefault(f"{keys.dirty}queue/job-{job_id}", told.by)
    return found


@contextlib.contextmanager
def disks(fleet: LeaseFleet) -> Iterator[bool]:
    """A file system for each node, where this user may make one; says whether."""
    mounted: list[Path] = []
    try:
        for each in fleet:
            root = each.cluster.root
            content = root.with_name(f"{root.name}-before")
            if os.geteuid() != 0:
                break
            shutil.copytree(root, content, symlinks=True)
            if subprocess.run(disk_of(each.cluster, DISK), capture_output=True, check=False).returncode != 0:
                break
            mounted.append(root)
            shutil.copytree(content, root, symlinks=True, dirs_exist_ok=True)
        yield bool(mounted)
    finally:
        for root in mounted:
            subprocess.run(["umount", "--lazy", root], check=True)


def run(folder: Path, seed: str, seconds: float) -> Outcome:
    binary = needed_etcd()
    with Etcd(folder / "etcd", MEMBERS, binary=binary) as etcd:
        fleet = LeaseFleet(folder, etcd, has_ways=True)
        with disks(fleet) as has_disks, fleet:
            one = Run(fleet, folder, seed, has_disks=has_disks)
            try:
                return one.play(seconds)
            except (AssertionError, GantryError, NoReply, OSError) as error:
                return Outcome([f"{type(error).__name__}: {error}"], one.harms)
            finally:
                one.story.close()
                if has_disks:
                    _keep_logs(fleet, folder)


def _keep_logs(fleet: LeaseFleet, folder: Path) -> None:
    """What lies on the nodes' own disks, for whoever looks into a failure."""
    for each in fleet:
        kept = folder / "kept" / each.name
        ignored = shutil.ignore_patterns("socket", "filler", "ready-*", "livelocks")
        with contextlib.suppress(shutil.Error):
            shutil.copytree(each.cluster.root, kept, ignore=ignored, dirs_exist_ok=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", default="1")
    parser.add_argument(
        "--minutes", type=float, default=2.0, help="time of harm; starting and coming to rest add to it"
    )
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="gantry-lease-"))
    outcome = run(folder, given.seed, 60 * given.minutes)
    tell(given.seed, outcome)
    if outcome.complaints:
        (folder / "complaints").write_text("\n".join(outcome.complaints))
        print(f"lease: kept in {folder}; play it again: make lease SEED={given.seed} MINUTES={given.minutes:g}")
        return 1
    shutil.rmtree(folder)
    return 0


def tell(seed: str, outcome: Outcome) -> None:
    states = ", ".join(f"{count} {name}" for name, count in Counter(job.state for job in outcome.jobs.values()).items())
    sure = sum(told.is_sure for told in outcome.told)
    print(
        f"lease: seed {seed}: {sum(outcome.harms.values())} harms in {outcome.tormented_s:.0f} s, "
        f"{outcome.reigns} masterships, {sure} of {len(outcome.told)} exchanges answered, {len(outcome.jobs)} jobs "
        f"({states}), {outcome.changes} changes in etcd; at rest {outcome.resting_s:.0f} s after the last harm; "
        f"{len(outcome.complaints)} promises broken"
    )
    for what, count in outcome.harms.most_common():
        print(f"    {count:5} {what}")
    for words, count in outcome.errors.most_common():
        print(f"    {count:5} jobs: {words}")
    for complaint in outcome.complaints[:40]:
        print(f"lease: {complaint}")


if __name__ == "__main__":
    sys.exit(main())
