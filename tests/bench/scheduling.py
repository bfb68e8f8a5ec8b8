"""What one scheduling event costs luxid's core, with few and with many queued jobs; no disk, no processes.

An event is the end of a running job and the choice of the next, the arrival of a job, a change of the locks that a
running job holds, or all that a job brings with it: its start, two such changes, its end. Another chain of filter
rules is applied in slices: what all of them cost, and the longest one; those that touch none are by the names of
opcodes, or by reasons, for which each job is looked at.
`python -m tests.bench.scheduling [COUNT ...]`, or `python -m tests.bench scheduling`.
"""

import gc
import random
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from common.ids import JobId
from common.locks import LockMode, parse_lock
from common.objects.filter import FilterRule
from common.queue.jobs import Job, JobOp, JobState
from daemons.luxid.core.queue.jobqueue import JobQueue
from tests.bench.results import note
from tests.support.filterrules import filter_rule

COUNTS = (1_000, 100_000)
RUNNING = 50
EVENTS = 3_000
_NOW_S = 1_800_000_000


def main(counts: tuple[int, ...] = COUNTS) -> None:
    print(f"{'queued':>9} {'event':22} {'median µs':>10} {'p99 µs':>10} {'touched':>8} {'MiB':>7}")
    for count in counts:
        measure(count)


def measure(count: int) -> None:
    before = _resident_mib()
    draw = random.Random(7)
    queue = JobQueue(RUNNING, RUNNING, lambda _: None)
    ops = [_opcode(draw, count) for _ in range(count)]
    jobs = [_job(number, op, draw) for number, op in enumerate(ops, 1)]
    queue.add_all(jobs)
    gc.collect()
    gc.freeze()
    for job_id in queue.decide(_NOW_S).start:
        queue.started(job_id)
    used = _resident_mib() - before

    events: dict[str, Callable[[int], None]] = {
        "end, next start": lambda step: _end_one(queue, draw, step),
        "arrival": lambda step: _arrive(queue, draw, count, step),
        "locks changed": lambda step: _change_locks(queue, draw, step),
        "all of a job": lambda step: _live(queue, draw, step),
    }
    for name, event in events.items():
        _show(count, name, queue, event, used)
    _show_chains(count, queue)


def _show_chains(count: int, queue: JobQueue) -> None:
    print(f"{'queued':>9} {'new chain':22} {'all ms':>10} {'longest ms':>10} {'judged':>8} {'until a start ms':>17}")
    none = _rule("PAUSE", ["opcode", ["==", "OP_ID", "OP_NODE_ADD"]])
    by_reason = _rule("PAUSE", ["reason", ["=~", "reason", "maintenance of rack 5"]])
    chains = {"none, by opcode": [none], "none, by reason": [none, by_reason], "all": [_rule("PAUSE")]}
    for name, rules in chains.items():
        for said, chain in ((name, rules), (f"{name}, taken back", [])):
            queue.end(min(queue.running()), JobState.SUCCESS)
            _show_chain(count, said, queue, chain)


def _show_chain(count: int, name: str, queue: JobQueue, rules: list[FilterRule]) -> None:
    judged, until_start, begun = queue.judged, None, time.process_time()
    queue.install_rules(rules)
    spent = [time.process_time() - begun]
    is_unfinished = True
    while is_unfinished:
        slice_begun = time.process_time()
        decisions = queue.decide(_NOW_S)
        spent.append(time.process_time() - slice_begun)
        is_unfinished = decisions.is_unfinished
        if decisions.start and until_start is None:
            until_start = sum(spent)
        for job_id in decisions.start:
            queue.started(job_id)
    note(f"new chain: {name}, {count:,} queued", sum(spent) * 1e3, "ms", f"longest slice {max(spent) * 1e3:.1f} ms")
    started = f"{until_start * 1e3:17.1f}" if until_start is not None else f"{'-':>17}"
    print(
        f"{count:9} {name:22} {sum(spent) * 1e3:10.1f} {max(spent) * 1e3:10.1f} {queue.judged - judged:8} {started}",
        flush=True,
    )


def _rule(action: str, *predicates: Any) -> FilterRule:
    return filter_rule(
        watermark=JobId(0), priority=0, predicates=predicates, action=action, reason_trail=(), uuid=str(predicates)
    )


def _show(count: int, name: str, queue: JobQueue, event: Callable[[int], None], used: float) -> None:
    spent = []
    touched = queue.touched
    for step in range(EVENTS if count > EVENTS else EVENTS // 6):
        begun = time.perf_counter()
        event(step)
        spent.append((time.perf_counter() - begun) * 1e6)
    each = (queue.touched - touched) / len(spent)
    p99 = statistics.quantiles(spent, n=100)[98]
    middle = statistics.median(spent)
    print(f"{count:9} {name:22} {middle:10.1f} {p99:10.1f} {each:8.1f} {used:7.0f}", flush=True)
    note(f"{name}, {count:,} queued", middle, "µs", f"99 of 100 within {p99:.0f} µs; {each:.1f} jobs touched")


def _end_one(queue: JobQueue, draw: random.Random, step: int) -> None:
    queue.end(draw.choice(tuple(queue.running())), JobState.SUCCESS)
    for job_id in queue.decide(_NOW_S + step).start:
        queue.started(job_id)


def _arrive(queue: JobQueue, draw: random.Random, count: int, step: int) -> None:
    queue.add(_job(count + step + 1, _opcode(draw, count), draw))
    queue.decide(_NOW_S + step)


def _change_locks(queue: JobQueue, draw: random.Random, step: int) -> None:
    held = {parse_lock(f"node/n{draw.randrange(200)}"): LockMode.EXCLUSIVE}
    queue.set_locks(draw.choice(tuple(queue.running())), held)
    queue.decide(_NOW_S + step)


def _live(queue: JobQueue, draw: random.Random, step: int) -> None:
    job_id = draw.choice(tuple(queue.running()))
    queue.set_locks(job_id, {parse_lock(f"node/n{draw.randrange(200)}"): LockMode.EXCLUSIVE})
    queue.decide(_NOW_S + step)
    queue.set_locks(job_id, {})
    queue.decide(_NOW_S + step)
    _end_one(queue, draw, step)


def _opcode(draw: random.Random, count: int) -> Mapping[str, Any]:
    """A fleet of 200 nodes; instances grow with the queue, so that most jobs are a class of their own."""
    node, instance = f"n{draw.randrange(200)}", f"i{draw.randrange(max(100, count // 2))}"
    match draw.randrange(10):
        case 0 | 1 | 2:
            locks = {f"node/{node}": "exclusive", "node-res/store": "shared"}
            return {"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], "locks": locks}
        case 3 | 4 | 5:
            return {"OP_ID": "OP_INSTANCE_STARTUP", "instance_name": instance}
        case 6:
            return {"OP_ID": "OP_INSTANCE_SHUTDOWN", "instance_name": instance}
        case 7:
            return {"OP_ID": "OP_INSTANCE_REPLACE_DISKS", "instance_name": instance, "mode": "replace_auto"}
        case 8:
            return {"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], "locks": {f"node/{node}": "shared"}}
        case _:
            return {"OP_ID": "OP_CLUSTER_VERIFY_CONFIG"}


def _job(number: int, op: Mapping[str, Any], draw: random.Random) -> Job:
    reason = f"rate-limit:5:user{draw.randrange(50)}" if draw.random() < 0.2 else "weekly round"
    trail = {"reason": [["gnt:user", reason, number]]}
    made = JobOp({**op, **trail}, priority=draw.choice((-10, 0, 0, 0, 10)))
    return Job(JobId(number), (made,), received_at=(_NOW_S - draw.randrange(1_000), 0))


def _resident_mib() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20


if __name__ == "__main__":
    main(tuple(map(int, sys.argv[1:])) or COUNTS)
