"""Commands on nodes in trouble: `python -m tests.reliability.commands.campaign --seed 1 --jobs 200`.

A master and two nodes on 127.0.0.x run the commands of many jobs, each under a lock of its own. Meanwhile node daemons,
job processes, luxid and wconfd are killed at random, jobs are killed, and the network of nodes is cut by a proxy that
stops, delays, resets, or answers garbage.
Then all harm ends. Each job must have ended, in the state that the end of its command says; no command may have run
twice, or while another one had its lock; the output must be whole; and no lock may be left.

Exit code 1: something is wrong.
"""

import argparse
import contextlib
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import attrs

from common.commands.output import pieces_of
from common.errors import GantryError, RemoteError
from common.ids import JobId
from protocol.blocking import BlockingClient
from protocol.luxi.jobs import CancelJob, SubmitJob
from protocol.luxi.queries import QueryJobs
from protocol.wconfd.locks import ListAllLocks, ListOrphanedLocks
from tests.reliability.chaos.harms import Harms
from tests.reliability.commands.tallied import Tallies, Work
from tests.support.machines.fleet import Fleet
from tests.support.machines.proxy import Proxy
from tests.support.wait import wait_until

_NODES: Final = 2
_REST_S: Final = 300.0
# a daemon that is killed again and again needs long to reply
_PATIENCE_S: Final = 300.0
_GUARDED: Final = 12
_KILLED_SHARE: Final = 0.05
_FINAL: Final = ("success", "error", "canceled")


@attrs.define
class Outcome:
    jobs: int
    states: Counter[str]
    harms: Counter[str]
    working_s: float
    ending_s: float
    complaints: tuple[str, ...]


class Campaign:
    """Args: folder: for the tallies. seed: decides what is run where."""

    def __init__(self, fleet: Fleet, folder: Path, seed: str) -> None:
        self._fleet = fleet
        self._folder = folder
        self._chance = random.Random(seed)
        self.jobs: dict[JobId, Work] = {}
        self.killed: set[JobId] = set()

    def submit(self) -> None:
        """Submit one command; perhaps kill an earlier job."""
        nodes = ("node1.test", *(node.name for node in self._fleet.nodes))
        work = Work(
            tag=f"c{len(self.jobs)}",
            node=self._chance.choice(nodes),
            guarded=f"x{self._chance.randrange(_GUARDED)}",
            lines=self._chance.choice((0, 1, 5, 40)),
            pause=self._chance.choice((0.0, 0.01, 0.05)),
            exit_code=self._chance.choice((0, 0, 0, 3)),
        )
        key = f"key-{work.tag}"
        job_id = self._luxi(SubmitJob((work.opcode(self._folder),), key))
        self.jobs[job_id] = work
        if self._chance.random() < _KILLED_SHARE:
            victim = self._chance.choice(list(self.jobs))
            self._luxi(CancelJob(victim, kill=True))
            self.killed.add(victim)

    def open_jobs(self) -> dict[JobId, str]:
        """The jobs that have not ended, with their states."""
        return {job_id: status for job_id, status in self._states().items() if status not in _FINAL}

    def _states(self) -> dict[JobId, str]:
        rows = self._luxi(QueryJobs(tuple(self.jobs), ("id", "status")))
        return {JobId(row[0]): str(row[1]) for row in rows}

    def states(self) -> Counter[str]:
        return Counter(self._states().values())

    def complaints(self) -> Iterator[str]:
        tallies, master = Tallies(self._folder), self._fleet.master
        for job_id, work in self.jobs.items():
            status, results = master.job(job_id, "status", "opresult")
            if status == "canceled" and job_id not in self.killed:
                yield f"job {job_id} ({work.tag}): nobody has killed it, and it is canceled"
            output = _output(master.paths.output_file(job_id))
            for complaint in tallies.complaints(work, status, _has_begun(results[0]), output):
                yield f"job {job_id} ({work.tag}, {status}): {complaint}; {results[0]!r:.300}"
        if orphans := master.wconf(ListOrphanedLocks()):
            yield f"there are orphaned locks: {orphans}"
        if locks := master.wconf(ListAllLocks()):
            yield f"locks are held: {locks}"

    def _luxi(self, request: Any) -> Any:
        """Call luxid, again while it has no configuration because wconfd is away, too."""
        replies: list[Any] = []

        def answered() -> bool:
            with BlockingClient(self._fleet.master.paths.query_socket) as client:
                try:
                    replies.append(client.call_retrying(request, timeout_s=_PATIENCE_S))
                except RemoteError as error:
                    if "cannot read the configuration from wconfd" not in error.message:
                        raise
                    return False
            return True

        wait_until(answered, what=f"luxid answers {request.METHOD}", timeout_s=_PATIENCE_S)
        return replies[0]


def _output(base: Path) -> bytes:
    return b"".join(Path(f"{base}.{offset:020d}").read_bytes() for offset in pieces_of(base))


def _has_begun(result: object) -> bool:
    """False: the job says that its program was not started, or its process died while it waited for its locks."""
    return not any(said in str(result) for said in ("'has_begun': False", "died before the job ended"))


def run(root: Path, seed: str, jobs: int) -> Outcome:
    """Run these many jobs under harm, and judge. Raises: AssertionError: it does not come to rest."""
    folder = root / "tallies"
    folder.mkdir(parents=True)
    with contextlib.ExitStack() as stack:
        fleet = stack.enter_context(Fleet(root, _NODES, listens_apart=True))
        proxies = [stack.enter_context(Proxy(node.place, node.own_place)) for node in fleet.nodes]
        fleet.start()
        fleet.master.start("forkserver", "luxid")
        campaign = Campaign(fleet, folder, seed)
        began = time.monotonic()
        with Harms(fleet, proxies, seed, kills_jobs=True) as harms:
            for _ in range(jobs):
                harms.may_strike()
                campaign.submit()
        ended = time.monotonic()
        wait_until(lambda: not campaign.open_jobs(), what="all jobs have ended", timeout_s=_REST_S,
                   state=campaign.open_jobs)  # fmt: skip
        wait_until(lambda: not fleet.master.wconf(ListAllLocks()), what="all locks are free", timeout_s=_REST_S,
                   state=lambda: fleet.master.wconf(ListOrphanedLocks()))  # fmt: skip
        rested = time.monotonic()
        complaints = tuple(campaign.complaints())
        return Outcome(jobs, campaign.states(), harms.done, ended - began, rested - ended, complaints)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--root", type=Path, help="kept; else a new folder that is removed")
    given = parser.parse_args()
    with contextlib.ExitStack() as stack:
        root = given.root or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="commands-")))
        try:
            outcome = run(root, given.seed, given.jobs)
        except (AssertionError, GantryError, OSError) as error:
            print(f"commands: seed {given.seed}: {error}")
            return 1
    states = ", ".join(f"{count} {name}" for name, count in sorted(outcome.states.items()))
    harms = ", ".join(f"{count} {name}" for name, count in sorted(outcome.harms.items()))
    print(
        f"commands: seed {given.seed}: {outcome.jobs} jobs on three nodes ({states}) in {outcome.working_s:.0f} s; "
        f"{sum(outcome.harms.values())} harms ({harms}); at rest {outcome.ending_s:.1f} s after the last one"
    )
    for complaint in outcome.complaints:
        print(f"commands: {complaint}")
    return 1 if outcome.complaints else 0


if __name__ == "__main__":
    sys.exit(main())
