"""A trace: the arrivals, durations, locks and uses of jobs. Its file has one JSON object per line.

    {"arrival": 12.5, "duration": 40.0, "priority": 0, "locks": {"node/web1": "exclusive"}, "uses": {"licences": 2}}

Arrival and duration are seconds; arrivals count from any common moment. Priority, locks and uses may be left out.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import attrs
import orjson

from common.errors import InvalidRequest
from common.lockdecl import is_declarable
from common.locks import Lock, LockMode, parse_lock, parse_mode
from common.queue.jobs import PRIORITY_HIGHEST, PRIORITY_LOWEST
from common.queue.terms import Use, read_use

_KEYS: Final = frozenset({"arrival", "duration", "priority", "locks", "uses"})


@attrs.frozen
class TraceJob:
    # seconds, >= 0
    arrival_s: float
    duration_s: float
    # locks without the BGL, unless the job takes it exclusively
    locks: Mapping[Lock, LockMode] = attrs.field(factory=dict)
    # smaller is more urgent
    priority: int = 0
    # units of resources that it takes with its slot
    uses: tuple[Use, ...] = ()


def read_trace(content: bytes, name: str) -> tuple[TraceJob, ...]:
    """Read the jobs of a trace, in the order of their arrival, then of their lines.

    Args:
        name: name of the file for errors.
    Raises: InvalidRequest: a line is not a job, or there are no jobs; the message has the line and the reason.
    """
    jobs = list(_read_lines(content, name))
    if not jobs:
        raise InvalidRequest(
            f"{name} has no jobs; each line is an object with arrival, duration, priority, locks, uses"
        )
    return in_order(jobs)


def in_order(jobs: Iterable[TraceJob]) -> tuple[TraceJob, ...]:
    """The jobs by their arrival, the first one at 0."""
    ordered = sorted(jobs, key=lambda job: job.arrival_s)
    begin = ordered[0].arrival_s if ordered else 0.0
    return tuple(attrs.evolve(job, arrival_s=round(job.arrival_s - begin, 6)) for job in ordered)


def write_trace(jobs: Iterable[TraceJob]) -> bytes:
    """Encode a trace for `read_trace`."""
    return b"".join(orjson.dumps(_to_json(job)) + b"\n" for job in jobs)


def _read_lines(content: bytes, name: str) -> Iterator[TraceJob]:
    for number, line in enumerate(content.splitlines(), 1):
        if line.strip():
            try:
                yield _from_json(orjson.loads(line))
            except (orjson.JSONDecodeError, InvalidRequest) as error:
                raise InvalidRequest(f"{name}, line {number}: {error}") from None


def _from_json(value: object) -> TraceJob:
    if not isinstance(value, dict):
        raise InvalidRequest(f"expected an object, got {value!r:.60}")
    if unknown := sorted(value.keys() - _KEYS):
        raise InvalidRequest(f"unknown key {unknown[0]!r}; keys are {', '.join(sorted(_KEYS))}")
    arrival_s, duration_s = (_seconds(value, key) for key in ("arrival", "duration"))
    locks, priority = _locks(value.get("locks", {})), _priority(value.get("priority", 0))
    return TraceJob(arrival_s, duration_s, locks, priority, _uses(value.get("uses", {})))


def _seconds(value: Mapping[str, object], key: str) -> float:
    found = value.get(key)
    if isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found) or found < 0:
        raise InvalidRequest(f"{key} must be seconds, at least 0, got {found!r:.60}")
    return float(found)


def _priority(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not PRIORITY_HIGHEST <= value <= PRIORITY_LOWEST:
        raise InvalidRequest(f"priority must be from {PRIORITY_HIGHEST} to {PRIORITY_LOWEST}, got {value!r:.60}")
    return value


def _locks(value: object) -> dict[Lock, LockMode]:
    if not isinstance(value, dict):
        raise InvalidRequest(f"locks must be an object of lock names and modes, got {value!r:.60}")
    locks = {parse_lock(name): parse_mode(mode) for name, mode in value.items()}
    if refused := [lock for lock in locks if not is_declarable(lock)]:
        raise InvalidRequest(f"no job may ask for '{refused[0]}'; the lock of the cluster is 'cluster/BGL'")
    return locks


def _uses(value: object) -> tuple[Use, ...]:
    if not isinstance(value, dict):
        raise InvalidRequest(f"uses must be an object of resources and counts, got {value!r:.60}")
    for key, count in value.items():
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise InvalidRequest(f"a job uses at least 1 of '{key:.80}', got {count!r:.60}")
    return tuple(read_use(key, count) for key, count in value.items())


def _to_json(job: TraceJob) -> dict[str, object]:
    uses = {"uses": {use.key: use.count for use in job.uses}} if job.uses else {}
    return {
        "arrival": job.arrival_s,
        "duration": job.duration_s,
        "priority": job.priority,
        "locks": {str(lock): mode.value for lock, mode in sorted(job.locks.items())},
        **uses,
    }
