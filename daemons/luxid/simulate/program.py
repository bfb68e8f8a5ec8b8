"""gantry-simulate: the order of jobs under several policies. The only module here that reads and writes."""

import argparse
import contextlib
import os
import random
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, NoReturn, assert_never

import attrs
import orjson

from common.errors import DamagedFile, GantryError, InvalidRequest, NotFound
from common.ids import JobId
from common.lockdecl import LockDeclaration, Scope, requests_for
from common.locks import BGL, Lock, LockLevel, LockMode, group_lock, member_lock
from common.opcodes.registry import parse_opcode
from common.paths import Paths
from common.queue.jobfile import decode_job
from common.queue.jobs import Dependency, Job, JobOp, Timestamp, to_seconds
from common.queue.reasons import tries_of
from common.queue.terms import read_use, terms_of
from common.resources import Resource
from common.settings import Settings
from common.settingsfile import find_installation, load_settings
from common.system.program import release
from daemons.luxid.core.choice.weights import WeightRules
from daemons.luxid.simulate.plot import draw, load_plotting
from daemons.luxid.simulate.replay import Measures, Run, SimulatedLimits, measure, policies, replay
from daemons.luxid.simulate.trace import TraceJob, in_order, read_trace, write_trace

# Three typical loads, drawn from a seed: the same seed gives the same trace.
#
# Jobs come in bursts, as users submit many at once: a burst has 1 to 80 jobs. The pauses between bursts are such that
# the work alone, without locks, would take about nine tenths of 50 slots.


_SLOTS: Final = 50
_USE: Final = 0.9
_BURST: Final = 80
_MEAN_S: Final = 60.0
_NODES: Final = 40
_INSTANCES: Final = 400
_HOT: Final = 4
_SHARED, _EXCLUSIVE = LockMode.SHARED, LockMode.EXCLUSIVE

_Work = Literal["instance", "move", "maintenance", "verify", "cluster"]
_WORKS: Final[tuple[_Work, ...]] = ("instance", "move", "maintenance", "verify", "cluster")
Draw = Callable[[random.Random], dict[Lock, LockMode]]


def generate(kind: str, count: int, seed: int) -> tuple[TraceJob, ...]:
    """Generate jobs of a load.

    Args:
        kind: one of `KINDS`.
    """
    draw = random.Random(f"{kind} {seed}")
    return in_order(_jobs(draw, KINDS[kind], count))


def _jobs(draw: random.Random, locks: Draw, count: int) -> Iterator[TraceJob]:
    at_s, left_in_burst = 0.0, 0
    for _ in range(count):
        if not left_in_burst:
            left_in_burst = draw.randint(1, _BURST)
            at_s += draw.expovariate(1.0) * left_in_burst * _MEAN_S / (_SLOTS * _USE)
        left_in_burst -= 1
        duration_s = draw.expovariate(1 / _MEAN_S)
        priority = draw.choices((-10, 0, 10), (10, 75, 15))[0]
        yield TraceJob(round(at_s, 3), round(duration_s, 3), locks(draw), priority)


def _mixed(draw: random.Random) -> dict[Lock, LockMode]:
    """A fleet's day: mostly single instances, some whole nodes, sometimes all of it."""
    node, instance = _node(draw.randrange(_NODES)), _instance(draw.randrange(_INSTANCES))
    work = draw.choices(_WORKS, (700, 200, 80, 18, 2))[0]
    match work:
        case "instance":
            return {instance: _EXCLUSIVE, node: _SHARED}
        case "move":
            return {instance: _EXCLUSIVE, node: _EXCLUSIVE, _node(draw.randrange(_NODES)): _EXCLUSIVE}
        case "maintenance":
            return {node: _EXCLUSIVE}
        case "verify":
            return {group_lock(LockLevel.NODE): _SHARED}
        case "cluster":
            return {BGL: _EXCLUSIVE}
        case _:
            assert_never(work)


def _hotspot(draw: random.Random) -> dict[Lock, LockMode]:
    """A tenth of the jobs wants one of a few nodes exclusively; the others have hardly anything in common."""
    if draw.random() < 0.1:
        return {_node(draw.randrange(_HOT)): _EXCLUSIVE}
    return {_instance(draw.randrange(_INSTANCES)): _EXCLUSIVE, _node(draw.randrange(_HOT, _NODES)): _SHARED}


def _independent(draw: random.Random) -> dict[Lock, LockMode]:
    """Every job has an instance of its own."""
    return {_instance(draw.getrandbits(64)): _EXCLUSIVE}


KINDS: Final[dict[str, Draw]] = {"mixed": _mixed, "hotspot": _hotspot, "independent": _independent}


def _node(number: int) -> Lock:
    return member_lock(LockLevel.NODE, f"node{number}")


def _instance(number: int) -> Lock:
    return member_lock(LockLevel.INSTANCE, f"instance{number}")


# A trace from the job files of an installation, in the queue and in the archive; nothing is changed.
#
# A job of several opcodes becomes one that takes the locks of all of them for the sum of their execution
# times. A job that waited for other jobs arrives when the last of those ended, one that was to begin later at that
# instant, and one whose command was tried again when its last try began. Locks that an opcode found
# only while it ran are in no job file: such jobs are counted, and have only the known locks.


_JOB: Final = re.compile(r"job-\d+", re.ASCII)


@attrs.frozen
class Exported:
    trace: tuple[TraceJob, ...]
    # number of jobs without an execution, or without an end; and of unreadable files
    unfinished: int
    unreadable: int
    # number of jobs in the trace that also had unknown locks
    partly_known: int


def export(paths: Paths) -> Exported:
    """Raises: OSError: the queue's folder cannot be read."""
    contents = [_decode(path, content) for path, content in _contents(paths)]
    jobs = {job.job_id: job for job in contents if job is not None}
    ends = {job_id: _seconds(job.end_at) for job_id, job in jobs.items() if job.end_at}
    executed = [job for job in jobs.values() if _is_usable(job)]
    declared = {job.job_id: [_declaration(op) for op in _executed(job)] for job in executed}
    return Exported(
        trace=in_order(_trace_job(job, declared[job.job_id], ends) for job in sorted(executed, key=_id)),
        unfinished=len(jobs) - len(executed),
        unreadable=contents.count(None),
        partly_known=sum(not all(map(_is_known, each)) for each in declared.values()),
    )


def _job_files(paths: Paths) -> Iterator[Path]:
    yield from _jobs_in(paths.queue)
    if paths.archive.exists():
        for name in os.listdir(paths.archive):
            if name.isdigit():
                yield from _jobs_in(paths.archive / name)


def _jobs_in(folder: Path) -> list[Path]:
    return [folder / name for name in os.listdir(folder) if _JOB.fullmatch(name)]


def _contents(paths: Paths) -> Iterator[tuple[Path, bytes]]:
    for path in _job_files(paths):
        # a file that is archived meanwhile is found in the archive
        with contextlib.suppress(FileNotFoundError):
            yield path, path.read_bytes()


def _decode(path: Path, content: bytes) -> Job | None:
    try:
        return decode_job(content, str(path))
    except DamagedFile:
        return None


def _id(job: Job) -> JobId:
    return job.job_id


def _executed(job: Job) -> list[JobOp]:
    return [op for op in job.ops if op.exec_at and op.end_at]


def _is_usable(job: Job) -> bool:
    return job.is_final and job.received_at is not None and bool(_executed(job))


def _trace_job(job: Job, declared: Iterable[LockDeclaration | None], ends: Mapping[JobId, float]) -> TraceJob:
    ops = _executed(job)
    assert job.received_at is not None
    duration_s = sum(_seconds(op.end_at) - _seconds(op.exec_at) for op in ops)
    return TraceJob(
        arrival_s=max(
            _seconds(job.received_at), *(ends.get(each, 0.0) for each in _awaited(job)), *_deferred(job), 0.0
        ),
        # clocks may have been set back
        duration_s=round(max(duration_s, 0.0), 6),
        locks=_locks(declared),
        priority=min(op.priority for op in ops),
        uses=terms_of(job).uses,
    )


def _awaited(job: Job) -> Iterator[JobId]:
    for op in job.ops:
        for item in op.input.get("depends") or ():
            try:
                yield JobId(Dependency.from_wire(item).job_id)
            except GantryError:
                continue


def _deferred(job: Job) -> Iterator[float]:
    """The instants before which the job, as far as its file tells, was not to begin."""
    yield terms_of(job).begin_at or 0.0
    yield from (each.next_at for op in job.ops for each in tries_of(op))


def _declaration(op: JobOp) -> LockDeclaration | None:
    try:
        return parse_opcode(_plain(op.input)).lock_declaration()
    except GantryError:
        return None


def _plain(op_input: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in op_input.items() if key not in ("depends", "reason", "priority")}


def _is_known(declaration: LockDeclaration | None) -> bool:
    return declaration is not None and not any(
        entry.scope is Scope.UNKNOWN for entries in declaration.levels.values() for entry in entries
    )


def _locks(declared: Iterable[LockDeclaration | None]) -> dict[Lock, LockMode]:
    """The strongest mode of each lock; the BGL only if it is exclusive, because all jobs share it anyway."""
    locks: dict[Lock, LockMode] = {}
    for declaration in declared:
        if declaration is None:
            continue
        if declaration.is_big_lock:
            locks[BGL] = LockMode.EXCLUSIVE
        for level, entries in declaration.levels.items():
            for request in requests_for(level, entries):
                if request.mode is not None and request.mode.covers(locks.get(request.lock)):
                    locks[request.lock] = request.mode
    return locks


def _seconds(at: Timestamp | None) -> float:
    return to_seconds(at) if at else 0.0


# The comparison as a table of text or as JSON.


_HEADER: Final = ("POLICY", "MAKESPAN", "MEAN WAIT", "P95 WAIT", "LONGEST", "STARVATION", "BLOCKED", "SHARE")


@attrs.frozen
class Comparison:
    # origin of the trace, and its number of jobs
    source: str
    count: int
    limits: SimulatedLimits
    rows: tuple[Measures, ...]


def text(comparison: Comparison) -> Iterator[str]:
    """The lines of the table; times in seconds."""
    yield f"{comparison.source}: {comparison.count} jobs, {comparison.limits.slots} slots; times in seconds"
    cells = [_HEADER, *map(_cells, comparison.rows)]
    widths = [max(len(row[place]) for row in cells) for place in range(len(_HEADER))]
    for row in cells:
        yield "  ".join((row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])))


def json_value(comparison: Comparison) -> dict[str, object]:
    """All values, rounded only to the resolution of clocks."""
    rows = [{key: _rounded(value) for key, value in attrs.asdict(row).items()} for row in comparison.rows]
    return {
        "source": comparison.source,
        "jobs": comparison.count,
        "slots": comparison.limits.slots,
        "max_bypass": comparison.limits.max_bypass,
        "policies": rows,
    }


def _cells(row: Measures) -> Sequence[str]:
    times = (row.makespan_s, row.mean_wait_s, row.p95_wait_s, row.longest_wait_s)
    starvation = "-" if row.starvation is None else f"{row.starvation:.2f}"
    return (
        row.policy,
        *(f"{each:.1f}" for each in times),
        starvation,
        f"{row.blocked_s:.1f}",
        f"{row.blocked_share:.0%}",
    )


def _rounded(value: object) -> object:
    return round(value, 6) if isinstance(value, float) else value


NAME: Final = "gantry-simulate"
# exit codes of all commands
_FAILED, _USAGE, _NOT_FOUND, _INTERRUPTED = 1, 2, 3, 130
_TICKS: Final = (5, 30, 120)


def main() -> NoReturn:
    """The program gantry-simulate; `gnt-debug simulate` is the same."""
    parser = _parser()
    given = parser.parse_args()
    try:
        _check(given, parser)
        _export(given) if given.export else _compare(given)
        sys.stdout.flush()
    except (GantryError, OSError) as error:
        _fail(error)
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    sys.exit(0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(NAME, description="Run a trace of jobs in virtual time, under several policies.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {release()}")
    parser.add_argument("trace", nargs="?", type=Path, metavar="TRACE", help="a file with a JSON object a line")
    parser.add_argument("--generate", choices=tuple(KINDS), help="draw a load instead of reading one")
    parser.add_argument("--export", type=Path, metavar="FILE", help="write the trace of an installation's jobs")
    parser.add_argument("--jobs", type=_count, default=2000, help="how many to generate")
    parser.add_argument("--seed", type=int, default=1, help="seed of the generator")
    parser.add_argument("--slots", type=_count, help="jobs that run at once")
    parser.add_argument(
        "--resource", type=_resource, action="append", default=[], metavar="NAME=TOTAL", help="units that there are"
    )
    parser.add_argument("--ticks", type=_count, action="append", metavar="K", help="a K to compare; several times")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the waits as PNG; needs matplotlib")
    parser.add_argument("--output", choices=("text", "json"), default="text")
    parser.add_argument("--root", type=Path, metavar="DIR", help="the installation whose settings and jobs to use")
    return parser


def _count(word: str) -> int:
    number = int(word)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {number}")
    return number


def _resource(word: str) -> Resource:
    key, _, total = word.partition("=")
    try:
        use = read_use(key, 1)
    except InvalidRequest as error:
        raise argparse.ArgumentTypeError(error.message) from None
    if not (total.isascii() and total.isdigit()):
        raise argparse.ArgumentTypeError(f"write NAME=TOTAL with a whole number, got '{word}'")
    return Resource(use.node, use.resource, int(total))


def _check_uses(trace: Sequence[TraceJob], limits: SimulatedLimits) -> None:
    """Raises: InvalidRequest: a job uses more than there is, and would wait for ever."""
    totals = {each.key: each.total for each in limits.resources}
    for number, job in enumerate(trace, 1):
        for use in job.uses:
            if use.count > totals.get(use.key, 0):
                raise InvalidRequest(
                    f"job {number} of the trace uses {use.count} of '{use.key}', and there are "
                    f"{totals.get(use.key, 0)}; give --resource {use.key}={use.count} or more"
                )


def _check(given: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    if sum(each is not None for each in (given.trace, given.generate, given.export)) != 1:
        parser.error("give one of TRACE, --generate and --export")


def _export(given: argparse.Namespace) -> None:
    found = export(find_installation(given.root).paths)
    given.export.write_bytes(write_trace(found.trace))
    _remark(f"{len(found.trace)} jobs written to {given.export}")
    if found.unfinished:
        _remark(f"{found.unfinished} jobs left out: they have not ended, or were never executed")
    if found.unreadable:
        _remark(f"{found.unreadable} job files left out: they cannot be read")
    if found.partly_known:
        _remark(f"{found.partly_known} jobs had more locks than their opcodes tell; these are not in the trace")


def _compare(given: argparse.Namespace) -> None:
    # first, so that a missing matplotlib does not waste the work
    plotting = load_plotting() if given.plot else None
    settings = load_settings(given.root)
    source, trace = _trace(given)
    limits = _limits(given, settings)
    _check_uses(trace, limits)
    runs = {
        policy.name: replay(trace, policy, limits) for policy in policies(given.ticks or _TICKS, _weights(settings))
    }
    comparison = _comparison(source, limits, runs)
    if given.output == "json":
        sys.stdout.write(orjson.dumps(json_value(comparison)).decode() + "\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in text(comparison))
    if plotting is not None:
        draw(plotting, source, runs, given.plot)


def _trace(given: argparse.Namespace) -> tuple[str, Sequence[TraceJob]]:
    if given.generate:
        return f"{given.generate}, seed {given.seed}", generate(given.generate, given.jobs, given.seed)
    return str(given.trace), read_trace(given.trace.read_bytes(), str(given.trace))


def _comparison(source: str, limits: SimulatedLimits, runs: dict[str, tuple[Run, ...]]) -> Comparison:
    baseline = next(iter(runs.values()))
    rows = tuple(measure(policy, each, baseline) for policy, each in runs.items())
    return Comparison(source, len(baseline), limits, rows)


def _limits(given: argparse.Namespace, settings: Settings) -> SimulatedLimits:
    return SimulatedLimits(
        slots=given.slots or settings.luxid.max_running_jobs,
        max_bypass=settings.wconfd.max_bypass if settings.wconfd.fair else None,
        max_unit_bypass=settings.luxid.max_unit_bypass,
        resources=tuple(given.resource),
    )


def _weights(settings: Settings) -> WeightRules:
    return WeightRules(base=settings.luxid.lock_weight_base, tick_s=settings.luxid.lock_weight_tick_s)


def _remark(line: str) -> None:
    print(line, file=sys.stderr)


def _fail(error: GantryError | OSError) -> NoReturn:
    if isinstance(error, GantryError):
        _remark(f"error: {error.message}")
    else:
        place = f" '{error.filename}'" if error.filename else ""
        _remark(f"error: {(error.strerror or str(error)).lower()}{place}; check the path and its owner")
    sys.exit(_USAGE if isinstance(error, InvalidRequest) else _NOT_FOUND if isinstance(error, NotFound) else _FAILED)


if __name__ == "__main__":
    main()
