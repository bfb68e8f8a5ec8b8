"""What the demo proves from the job files alone: the order of the executions, and the locks held at each time."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

# letters of a line; and of the bar in it
LINE = 80
WIDTH = 24


@attrs.frozen
class Ran:
    """One job, read from its file; times are seconds since the epoch, None: it never executed."""

    job_id: int
    name: str
    status: str
    locks: Mapping[str, str]
    depends: Sequence[tuple[int, Sequence[str]]]
    exec_at: float | None
    end_at: float | None
    tries: int = 1

    def overlaps(self, other: "Ran") -> bool:
        if self.exec_at is None or other.exec_at is None or self.end_at is None or other.end_at is None:
            return False
        return self.exec_at < other.end_at and other.exec_at < self.end_at


def read_job(fields: Mapping[str, Any]) -> Ran:
    """A job from its fields id, name, status, tries, ops, opexec, opend, as `gnt-job list` prints them in JSON."""
    op = fields["ops"][0]
    return Ran(
        job_id=fields["id"],
        name=fields["name"],
        status=fields["status"],
        locks=op["locks"],
        depends=op["depends"] or [],
        exec_at=_s(fields["opexec"][0]),
        end_at=_s(fields["opend"][0]),
        tries=1 + len(fields["tries"][0]),
    )


def _s(stamp: Sequence[int] | None) -> float | None:
    return None if stamp is None else stamp[0] + stamp[1] / 1e6


def timeline(jobs: Sequence[Ran]) -> Iterator[str]:
    """One line for each job: the time of its execution, and its locks."""
    first = min(job.exec_at for job in jobs if job.exec_at is not None)
    last = max(job.end_at for job in jobs if job.end_at is not None)
    scale = WIDTH / (last - first)
    yield f"{'JOB':>4} {'NAME':22} {'STATUS':7} {'0 s':{WIDTH - 6}}{last - first:4.1f} s LOCKS, X: exclusive"
    for job in jobs:
        bar = " " * WIDTH
        if job.exec_at is not None and job.end_at is not None:
            start = min(int((job.exec_at - first) * scale), WIDTH - 1)
            length = max(1, round((job.end_at - job.exec_at) * scale))
            bar = f"{' ' * start}{'#' * length}".ljust(WIDTH)[:WIDTH]
        yield f"{job.job_id:4} {job.name:22} {job.status:7} {bar} {_locks(job)}"[:LINE].rstrip()


def _locks(job: Ran) -> str:
    if job.exec_at is None:
        return "(never ran)"
    held = sorted((name.partition("/")[2], mode) for name, mode in job.locks.items())
    return ", ".join(f"{name} {'X' if mode == 'exclusive' else 's'}" for name, mode in held) or "-"


def check(jobs: Sequence[Ran]) -> Iterator[tuple[bool, str]]:
    """The claims of the demo, each with whether it holds."""
    by_name = {job.name: job for job in jobs}
    yield _exclusion(jobs)
    yield _sharing(jobs)
    yield _order(jobs)
    failed = by_name["verify db1"]
    yield failed.status == "error", f"job {failed.job_id} ({failed.name}) failed, as it should"
    skipped = by_name["undrain db1"]
    yield skipped.exec_at is None, f"job {skipped.job_id} ({skipped.name}) never ran: it wanted that one to succeed"
    alarm = by_name["ALARM for db1"]
    yield alarm.status == "success", f"job {alarm.job_id} ({alarm.name}) ran because of the failure"
    again = by_name["inventory of store"]
    yield again.tries == 2, f"job {again.job_id} ({again.name}) was tried twice: the first exit code was 75"
    rest = [job for job in jobs if job not in (failed, skipped)]
    yield all(job.status == "success" for job in rest), f"all other {len(rest)} jobs succeeded"


def _rivals(jobs: Sequence[Ran]) -> Iterator[tuple[Ran, Ran]]:
    for one, other in itertools.combinations(jobs, 2):
        common = one.locks.keys() & other.locks.keys()
        if any("exclusive" in (one.locks[name], other.locks[name]) for name in common):
            yield one, other


def _exclusion(jobs: Sequence[Ran]) -> tuple[bool, str]:
    rivals = list(_rivals(jobs))
    broken = [f"{one.job_id} and {other.job_id}" for one, other in rivals if one.overlaps(other)]
    if broken:
        return False, f"jobs {', '.join(broken)} overlapped under an exclusive lock"
    return True, f"none of the {len(rivals)} pairs of jobs that exclude each other overlapped"


def _sharing(jobs: Sequence[Ran]) -> tuple[bool, str]:
    shared = [job for job in jobs if "shared" in job.locks.values()]
    pairs = [(one, other) for one, other in itertools.combinations(shared, 2) if one.overlaps(other)]
    return bool(pairs), f"{len(pairs)} pairs of jobs used the store at the same time, sharing its lock"


def _order(jobs: Sequence[Ran]) -> tuple[bool, str]:
    by_id = {job.job_id: job for job in jobs}
    links = [(job, by_id[number]) for job in jobs if job.exec_at is not None for number, _ in job.depends]
    kept = all(before.end_at is not None and before.end_at <= (job.exec_at or 0) for job, before in links)
    return kept, f"all {len(links)} dependencies were kept: each job ran after those it waited for"
