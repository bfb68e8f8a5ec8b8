"""Three nodes in trouble: `python -m tests.reliability.chaos.chaos --seed 1 --jobs 300 --changes 100`.

A master and two candidates on 127.0.0.x. While clients change the queue and the configuration, node daemons, luxid and
wconfd are killed at random, and the candidates' network is cut by a proxy that stops, delays, resets, or answers
garbage.
Then all harm ends. The candidates' files must become the master's byte for byte, and all that was acknowledged must
be there: each job of each submission once, each archived job in the archive, the last value of the configuration.

Exit code 1: something is missing or differs.
"""

import argparse
import contextlib
import random
import sys
import tempfile
import time
from pathlib import Path

import attrs

from common.errors import GantryError
from protocol.wconfd.config import GetObject
from tests.reliability.chaos.harms import Harms
from tests.reliability.chaos.work import Client, Told
from tests.support.cluster import Cluster
from tests.support.machines.fleet import Fleet, files, queue_files, state_files
from tests.support.machines.proxy import Proxy
from tests.support.wait import wait_until

_NODES = 2
_REST_S = 300.0


@attrs.frozen
class Outcome:
    told: Told
    kills: int
    cuts: int
    changing_s: float
    # from the end of the harm until all jobs have ended, and from there until all files are equal
    ending_s: float
    equal_s: float
    complaints: tuple[str, ...]


def run(root: Path, seed: str, jobs: int, changes: int) -> Outcome:
    """Make these many changes under harm, and judge. Raises: AssertionError: it does not come to rest."""
    with contextlib.ExitStack() as stack:
        fleet = stack.enter_context(Fleet(root, _NODES, listens_apart=True))
        proxies = [stack.enter_context(Proxy(node.place, node.own_place)) for node in fleet.nodes]
        fleet.start()
        fleet.master.start("forkserver", "luxid")
        client = Client(fleet.master.paths, seed)
        began = time.monotonic()
        with Harms(fleet, proxies, seed) as harms:
            _work(client, harms, random.Random(seed), jobs, changes)
        ended = time.monotonic()
        client.end()
        wait_until(lambda: not client.open_jobs(), what="all jobs have ended", timeout_s=_REST_S)
        at_rest = time.monotonic()
        _until_equal(fleet)
        equal = time.monotonic()
        complaints = tuple(_complaints(fleet, client.told))
        kills, cuts = harms.count("kill"), harms.count("cut")
        return Outcome(client.told, kills, cuts, ended - began, at_rest - ended, equal - at_rest, complaints)


def _work(client: Client, harms: Harms, chance: random.Random, jobs: int, changes: int) -> None:
    acts = [client.change_queue] * jobs + [client.change_config] * changes
    chance.shuffle(acts)
    for act in acts:
        harms.may_strike()
        act()


def _until_equal(fleet: Fleet) -> None:
    def same() -> bool:
        here = _all_files(fleet.master)
        return all(_all_files(node.cluster) == here for node in fleet.nodes)

    def state() -> list[str]:
        here = _all_files(fleet.master)
        return [
            f"{node.name}: {name}"
            for node in fleet.nodes
            for name, content in sorted({**here, **_all_files(node.cluster)}.items())
            if here.get(name) != _all_files(node.cluster).get(name)
        ][:20]

    wait_until(same, what="the candidates have the files of the master", timeout_s=_REST_S, state=state)


def _all_files(cluster: Cluster) -> dict[str, bytes]:
    paths = cluster.paths
    return {
        **files(paths),
        **state_files(paths),
        **{f"queue/{name}": text for name, text in queue_files(paths).items()},
    }


def _complaints(fleet: Fleet, told: Told) -> list[str]:
    """What was acknowledged and is not there, on any of the nodes."""
    found = []
    ids = told.job_ids
    if len(set(ids)) != len(ids):
        found.append("a job belongs to two submissions")
    for place in (fleet.master, *(node.cluster for node in fleet.nodes)):
        for job_id in ids:
            is_archived = place.paths.archived_job_file(job_id).exists()
            if job_id in told.archived and not is_archived:
                found.append(f"job {job_id} is not in the archive of {place.root.name}")
            elif not is_archived and not place.paths.job_file(job_id).exists():
                found.append(f"job {job_id} is missing on {place.root.name}")
        # temporary files of a node daemon that was killed stay for an hour
        extra = sum(path.suffix != ".tmp" for path in place.paths.queue.rglob("job-*")) - len(ids)
        if extra:
            found.append(f"{place.root.name} has {extra} jobs more than were acknowledged")
    cluster = fleet.master.wconf(GetObject("cluster"))
    if told.config_changes and str(told.limit) not in str(cluster):
        found.append(f"the configuration does not have the last value, {told.limit}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--jobs", type=int, default=300, help="changes of the queue")
    parser.add_argument("--changes", type=int, default=100, help="changes of the configuration")
    parser.add_argument("--root", type=Path, help="kept; else a new folder that is removed")
    given = parser.parse_args()
    with contextlib.ExitStack() as stack:
        root = given.root or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="chaos-")))
        try:
            outcome = run(root, given.seed, given.jobs, given.changes)
        except (AssertionError, GantryError, OSError) as error:
            print(f"chaos: seed {given.seed}: {error}")
            return 1
    told = outcome.told
    print(
        f"chaos: seed {given.seed}: {told.job_changes} changes of the queue ({len(told.job_ids)} jobs, "
        f"{len(told.archived)} archived, {told.refused} refused), {told.config_changes} of the configuration in "
        f"{outcome.changing_s:.0f} s; {outcome.kills} kills, {outcome.cuts} cuts; all jobs ended after "
        f"{outcome.ending_s:.1f} s, all files equal after {outcome.equal_s:.1f} s more"
    )
    for complaint in outcome.complaints:
        print(f"chaos: {complaint}")
    return 1 if outcome.complaints else 0


if __name__ == "__main__":
    sys.exit(main())
