"""What there is: read from an installation's files by the daemons' own loaders, or asked of daemons that run."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from common.ids import JobId
from common.objects.config import Config
from common.paths import Paths
from common.queue.jobfile import decode_job
from common.queue.jobs import Job
from common.queue.terms import SOURCE, terms_of_trail
from common.resources import Resource
from common.schedules.schedule import Schedule
from daemons.luxid.core.schedules import LABEL as SCHEDULE_LABEL
from daemons.luxid.files.loading import load_queue
from daemons.wconfd.configfile import ConfigFile
from daemons.wconfd.filestores import KeptFiles, ReservationStore
from daemons.wconfd.locks.lockfiles import read_locks
from protocol.blocking import BlockingClient
from protocol.luxi.history import ReadHistory
from protocol.luxi.queries import QueryConfigValues, QueryJobs
from protocol.luxi.queue import ListSchedules, ReadResourceUse, ScheduleView
from tests.reliability.oracle import SeenJob, SeenOp, View


def view_of_files(paths: Paths) -> View:
    """What the daemons will find when they start; like their start it removes what a crash has left.

    Raises: whatever a loader raises: then nothing starts.
    """
    found = load_queue(paths)
    live = [_seen(each.job) for each in found.jobs]
    archived = [_seen(_read_archived(path), archived=True) for path in _archived(paths)]
    config = ConfigFile(paths.config_data).read()
    ReservationStore.load(paths.tempres_data, lambda _: None)
    table = read_locks(paths.locks_data).state.table if paths.locks_data.exists() else None
    locks = {str(owner): frozenset(map(str, table.held_by(owner))) for owner in table.owners()} if table else {}
    kept = KeptFiles.load(paths)
    return View(
        jobs=(*live, *archived),
        drained=paths.drain_file.exists(),
        filters=_filters(config),
        ports=_ports(config),
        locks=locks,
        kept=_kept(
            (row.value for row in kept.schedules.state.values()), (row.value for row in kept.resources.state.values())
        ),
        runs=tuple(
            run
            for job in (*(each.job for each in found.jobs), *map(_read_archived, _archived(paths)))
            for run in _runs(job.ops[0].input)
        ),
        highest_id=found.highest_id,
    )


def view_of_daemons(paths: Paths, luxid: BlockingClient, wconfd: BlockingClient) -> View:
    """What luxid and wconfd say. Raises: Unavailable, RemoteError."""
    from protocol.wconfd.config import ReadConfig
    from protocol.wconfd.locks import ListLocksWaitingStatus

    fields = ("id", "status", "ops", "opstatus")
    rows = luxid.call(QueryJobs(None, fields), timeout_s=20)
    ids = tuple(JobId(int(path.name.partition("-")[2])) for path in _archived(paths))
    old = luxid.call(QueryJobs(ids, fields), timeout_s=20) if ids else ()
    (drained,) = luxid.call(QueryConfigValues(("drain_flag",)), timeout_s=20)
    config: Mapping[str, Any] = wconfd.call(ReadConfig(), timeout_s=20)
    locks: dict[str, set[str]] = {}
    status = wconfd.call(ListLocksWaitingStatus(), timeout_s=20)
    for lock, owners in status.held:
        for owner, _ in owners:
            locks.setdefault(str(owner.ident), set()).add(str(lock))
    for each in status.pending:
        locks.setdefault(str(each.owner.ident), set()).add("a pending request")
    there: list[Any] = [*rows, *(row for row in old if row[0] is not None)]
    schedules = [each.schedule for each in luxid.call(ListSchedules(0), timeout_s=20)]
    resources = [each.resource for each in luxid.call(ReadResourceUse(), timeout_s=20)]
    return View(
        jobs=(*(_asked(row) for row in rows), *(_asked(row, archived=True) for row in old if row[0] is not None)),
        drained=bool(drained),
        filters={uuid: _name(rule["reason_trail"]) for uuid, rule in config.get("filters", {}).items()},
        ports=frozenset(config["cluster"]["tcpudp_port_pool"]),
        locks={owner: frozenset(names) for owner, names in locks.items()},
        kept=_kept(schedules, resources),
        runs=tuple(run for row in there for run in _runs(row[2][0])),
    )


def runs_with_jobs(found: Sequence[ScheduleView]) -> list[str]:
    """The runs that have jobs, in the words of `View.runs`."""
    schedules = [each.schedule for each in found]
    return [
        f"{each.name} at {int(run.nominal_at * 1e9)}"
        for each in schedules
        for run in each.runs
        if run.job_id is not None
    ]


def past_of_daemons(luxid: BlockingClient) -> Mapping[int, str] | None:
    """The history of ended jobs; None: it is being read still. Raises: Unavailable, RemoteError."""
    reply = luxid.call(ReadHistory(limit=1000), timeout_s=20)
    assert len(reply.jobs) == reply.total
    return None if reply.unread else {each.id: each.status.value for each in reply.jobs}


def leftovers(paths: Paths) -> list[str]:
    """Files that a crash has left, and that a start should have removed."""
    tmp = [*paths.data.rglob("*.tmp"), *paths.run.rglob("*.tmp")]
    livelocks = [path for path in paths.livelocks.iterdir() if path.name.startswith((".", "job_"))]
    rehearsals = list(paths.run.glob("rehearsal-*"))
    return sorted(str(path.relative_to(paths.data.parent)) for path in (*tmp, *livelocks, *rehearsals))


def _kept(schedules: Iterable[Schedule], resources: Iterable[Resource]) -> Mapping[str, object]:
    return {
        **{f"schedule {each.name}": each.is_paused for each in schedules},
        **{f"resource {each.key}": each.total for each in resources},
    }


def _runs(op: Mapping[str, Any]) -> Iterator[str]:
    """The run of a schedule that this first opcode of a job is of, if it is of any."""
    terms = terms_of_trail(op.get("reason"))
    if (name := terms.labels.get(SCHEDULE_LABEL)) is not None:
        at = next(at for source, _, at in op["reason"] if source == SOURCE)
        yield f"{name} at {at}"


def _read_archived(path: Path) -> Job:
    return decode_job(path.read_bytes(), str(path))


def _archived(paths: Paths) -> list[Path]:
    return sorted(paths.archive.glob("*/job-*[0-9]"))


def _seen(job: Job, *, archived: bool = False) -> SeenJob:
    ops = tuple(SeenOp(str(op.input.get("comment") or ""), op.state.value) for op in job.ops)
    return SeenJob(job.job_id, job.state.value, ops, archived)


def _asked(row: Any, *, archived: bool = False) -> SeenJob:
    job_id, state, ops, states = row
    seen = tuple(SeenOp(op.get("comment") or "", of) for op, of in zip(ops, states, strict=True))
    return SeenJob(job_id, state, seen, archived)


def _filters(config: Config) -> Mapping[str, str]:
    return {
        str(uuid): _name([(e.source, e.reason) for e in rule.reason_trail]) for uuid, rule in config.filters.items()
    }


def _ports(config: Config) -> frozenset[int]:
    return frozenset(config.cluster.tcpudp_port_pool)


def _name(trail: Any) -> str:
    return str(trail[0][1])
