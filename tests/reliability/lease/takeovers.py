"""How long there is no master, and that nothing is lost: `python -m tests.reliability.lease.takeovers --count 50`.

Three candidates under a lease of 5 s. Clients submit jobs all the time. Again and again the master is hurt: all
that runs on its node is killed (node), or its keeperd (keeperd), the whole node is stopped (stop), it is cut off from
etcd (cut), or an operator moves the mastership (switchover). Measured are the seconds from the harm until the next
mastership starts a job, and the longest time for which a client was not answered. Then every acknowledged job must be
there and have ended, none may have run twice, and after a switch-over none may have failed.

`--kinds node` is the measurement of the issue; `--kinds all --count 500` takes about four hours.

Exit code 1: a promise was broken.
"""

import argparse
import contextlib
import itertools
import random
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Self

import attrs

from common.errors import RemoteError
from common.ids import JobId
from protocol.luxi.jobs import SubmitJob
from protocol.luxi.queries import QueryJobs
from tests.reliability.lease.history import EndedJob, Rest, Submit, Told
from tests.reliability.lease.ledgers import command, ledger_lines, token_of
from tests.reliability.lease.violations import violations
from tests.reliability.ledger import Outcome
from tests.support.etcds.etcd import Etcd, needed_etcd
from tests.support.machines.following import Follower, NoReply
from tests.support.machines.leasefleet import TTL_S, Candidate, LeaseFleet
from tests.support.wait import wait_until

_MEMBERS: Final = 3
_CLIENTS: Final = 2
# between two submissions of a client, unless said otherwise; and the time that its jobs take
_PAUSE_S: Final = 0.1
_LASTS_S: Final = (0.0, 0.3)
_PATIENCE_S: Final = 90.0
# after which a client turns from a node that hangs to the next one
_ONE_S: Final = 2.0
_REST_S: Final = 300.0
# jobs that are acknowledged before each harm
_BEFORE: Final = 10
_FINAL: Final = ("success", "error", "canceled")


@attrs.frozen
class Step:
    kind: str
    # from the harm until a job was started by the next mastership
    without_s: float
    # longest time between two answers to one client
    pause_s: float
    failed: int

    def words(self) -> str:
        lost = f"; {self.failed} job{'' if self.failed == 1 else 's'} failed" if self.failed else ""
        return (
            f"{_HARMS[self.kind]}: the next master started a job after {self.without_s:.1f} s, a client waited "
            f"{self.pause_s:.1f} s at most{lost}"
        )


class Submitter:
    """A client that submits all the time; a context manager that ends it."""

    def __init__(self, fleet: LeaseFleet, folder: Path, name: str, lasts_s: float, pause_s: float) -> None:
        self._folder, self._name, self._lasts_s, self._pause_s = folder, name, lasts_s, pause_s
        self._follower = Follower([(each.name, each.paths) for each in fleet], one_s=_ONE_S)
        self._is_over = threading.Event()
        self._lock = threading.Condition()
        self.told: list[Told] = []
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def sure(self) -> list[Told]:
        with self._lock:
            return [told for told in self.told if told.is_sure]

    def until_more(self, count: int) -> None:
        """Wait until so many more submissions are acknowledged."""
        with self._lock:
            wanted = len(self.told) + count
            assert self._lock.wait_for(lambda: len(self.told) >= wanted, _REST_S), "no submission is acknowledged"

    def longest_pause_s(self, since: float) -> float:
        """Args: since: by `time.monotonic`."""
        ends = [told.ended / 1e9 for told in self.sure() if told.ended / 1e9 >= since]
        return max((after - before for before, after in itertools.pairwise([since, *ends])), default=0.0)

    def _run(self) -> None:
        for number in itertools.count():
            if self._is_over.wait(self._pause_s):
                return
            token = f"{self._name}.{number}"
            asked = Submit(token, (token,))
            # locks of its own: jobs of one client follow each other
            job = (command(self._folder, token, f"x{self._name}-{number % 5}", "", self._lasts_s),)
            told = self._send(asked, SubmitJob(job, token))
            with self._lock:
                self.told.append(told)
                self._lock.notify_all()

    def _send(self, asked: Submit, request: SubmitJob) -> Told:
        began = time.monotonic_ns()
        try:
            reply = self._follower.luxi(request, _PATIENCE_S)
        except NoReply:
            return Told(self._name, asked, began, time.monotonic_ns(), Outcome.UNKNOWN)
        except RemoteError as error:
            return Told(self._name, asked, began, time.monotonic_ns(), Outcome.REFUSED, str(error))
        return Told(self._name, asked, began, time.monotonic_ns(), Outcome.ANSWERED, (int(reply.value),), reply.by)


class Measurement:
    """Hurts the master again and again."""

    def __init__(self, fleet: LeaseFleet, folder: Path, submitters: Sequence[Submitter]) -> None:
        self._fleet, self._folder, self._submitters = fleet, folder, submitters
        self._follower = Follower([(each.name, each.paths) for each in fleet])
        self.steps: list[Step] = []

    def hurt(self, kind: str) -> Step:
        master = self._fleet.until_master()
        grant = master.grant()
        epoch = 0 if grant is None else grant.fence.epoch
        for submitter in self._submitters:
            submitter.until_more(_BEFORE)
        known = set(self._jobs())
        at, wall = time.monotonic(), time.time()
        end = _KINDS[kind](master)
        self._fleet.until_master(above=epoch)
        end()
        for submitter in self._submitters:
            submitter.until_more(2)
        without_s = self._first_start(wall) - wall
        self._fleet.until_fit()
        self._until_ended()
        failed = sum(job.state == "error" for job_id, job in self._jobs().items() if job_id not in known)
        pause_s = max(submitter.longest_pause_s(at) for submitter in self._submitters)
        self.steps.append(Step(kind, without_s, pause_s, failed))
        return self.steps[-1]

    def complaints(self) -> list[str]:
        history = [told for submitter in self._submitters for told in submitter.told]
        found = violations(history, ledger_lines(self._folder), Rest(self._jobs()))
        for step in self.steps:
            if step.kind == "switchover" and step.failed:
                found.append(f"{step.failed} jobs failed in a planned switch-over")
        return found

    def _first_start(self, harm: float) -> float:
        """When the next mastership started its first job: at the end of the longest time without a start since then."""
        newest = {submitter.sure()[-1].asked for submitter in self._submitters}
        tokens = {asked.key for asked in newest if isinstance(asked, Submit)}

        def has_started() -> bool:
            return bool(tokens & {line.token for line in ledger_lines(self._folder)})

        wait_until(has_started, what="the next master starts a job", timeout_s=_REST_S)
        starts = sorted(line.at for line in ledger_lines(self._folder) if line.event == "enter" and line.at > harm)
        return max(itertools.pairwise([harm, *starts]), key=lambda pair: pair[1] - pair[0])[1]

    def _until_ended(self) -> None:
        """Wait until all jobs that are there now have ended."""
        ids = tuple(JobId(job_id) for job_id in self._jobs())

        def open_jobs() -> list[object]:
            rows = self._follower.luxi(QueryJobs(ids, ("id", "status")), _REST_S).value
            return [row[0] for row in rows if row[1] not in _FINAL]

        wait_until(lambda: not open_jobs(), what="all jobs end", timeout_s=_REST_S, state=open_jobs)

    def _jobs(self) -> dict[int, EndedJob]:
        rows = self._follower.luxi(QueryJobs(None, ("id", "status", "ops")), _REST_S).value
        return {int(str(row[0])): EndedJob(str(row[1]), token_of(_first(row[2]))) for row in rows}


def _first(ops: object) -> object:
    assert isinstance(ops, list), ops
    return ops[0]


# kinds of harm: each strikes, and returns what ends it


def _kill_node(master: Candidate) -> Callable[[], None]:
    master.crash()
    return master.up


def _kill_keeperd(master: Candidate) -> Callable[[], None]:
    master.kill("keeperd")
    return lambda: None


def _stop(master: Candidate) -> Callable[[], None]:
    pids = master.freeze()
    return lambda: master.thaw(pids)


def _cut(master: Candidate) -> Callable[[], None]:
    master.cut_from_etcd()
    return master.heal


def _switch_over(master: Candidate) -> Callable[[], None]:
    done = master.gantry("cluster", "switchover", "--limit", "2m")
    assert done.code == 0, done
    return lambda: None


_KINDS: Final = {"node": _kill_node, "keeperd": _kill_keeperd, "stop": _stop, "cut": _cut, "switchover": _switch_over}
# what was done, for people
_HARMS: Final = {
    "node": "all processes of the master's node killed",
    "keeperd": "the master's keeperd killed",
    "stop": "the master's node stopped",
    "cut": "the master cut off from etcd",
    "switchover": "the mastership moved by an operator",
}


def run(folder: Path, kinds: Sequence[str], count: int, seed: str, ttl_s: float, pause_s: float) -> int:
    chance = random.Random(seed)
    binary = needed_etcd()
    with contextlib.ExitStack() as stack:
        etcd = stack.enter_context(Etcd(folder / "etcd", _MEMBERS, binary=binary))
        fleet = stack.enter_context(LeaseFleet(folder, etcd, ttl_s=ttl_s, has_ways="cut" in kinds))
        fleet.up()
        fleet.until_master()
        submitters = [
            Submitter(fleet, folder, f"c{number}", _LASTS_S[number % len(_LASTS_S)], pause_s)
            for number in range(_CLIENTS)
        ]
        one = Measurement(fleet, folder, submitters)
        with contextlib.ExitStack() as clients:
            for submitter in submitters:
                clients.enter_context(submitter)
            for number in range(count):
                # all kinds in turn, in an order by the seed
                kind = kinds[number % len(kinds)] if number < len(kinds) else chance.choice(kinds)
                step = one.hurt(kind)
                print(f"takeovers: {number + 1} of {count}, {step.words()}", flush=True)
        one._until_ended()
        complaints = one.complaints()
        tell(one.steps, submitters, complaints, ttl_s)
    return 1 if complaints else 0


def tell(steps: Sequence[Step], submitters: Sequence[Submitter], complaints: Sequence[str], ttl_s: float) -> None:
    for kind in _KINDS:
        some = [step for step in steps if step.kind == kind]
        if some:
            without = [step.without_s for step in some]
            pauses = [step.pause_s for step in some]
            print(
                f"takeovers: {len(some)} x {kind}, lease {ttl_s:g} s: next master starts a job after "
                f"{statistics.median(without):.1f} s (median), {max(without):.1f} s (worst); a client waited "
                f"{statistics.median(pauses):.1f} s (median), {max(pauses):.1f} s (worst); "
                f"{sum(step.failed for step in some)} jobs failed"
            )
    outcomes = Counter(told.outcome.value for submitter in submitters for told in submitter.told)
    print(f"takeovers: submissions {dict(outcomes)}; {len(complaints)} promises broken")
    for complaint in complaints[:40]:
        print(f"takeovers: {complaint}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--kinds", default="node", help=f"with commas, of {', '.join(_KINDS)}; or all")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--ttl", type=float, default=TTL_S, help="seconds of the lease")
    parser.add_argument("--pause", type=float, default=_PAUSE_S, help="seconds between two submissions of a client")
    given = parser.parse_args()
    kinds = list(_KINDS) if given.kinds == "all" else given.kinds.split(",")
    folder = Path(tempfile.mkdtemp(prefix="gantry-takeovers-"))
    code = run(folder, kinds, given.count, given.seed, given.ttl, given.pause)
    if code:
        print(f"takeovers: kept in {folder}")
        return code
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
