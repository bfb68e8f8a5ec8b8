"""What there is: read from an installation's files by the daemons' own loaders, or asked of daemons that run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from common.ids import JobId
from common.objects.config import Config
from common.paths import Paths
from common.queue.jobfile import decode_job
from common.queue.jobs import Job
from daemons.luxid.files.loading import load_queue
from daemons.wconfd.configfile import ConfigFile
from daemons.wconfd.locks.lockfiles import read_locks
from daemons.wconfd.tempresstore import ReservationStore
from protocol.blocking import BlockingClient
from protocol.luxi.queries import QueryConfigValues, QueryJobs
from tests.reliability.oracle import SeenJob, SeenOp, View


def view_of_files(paths: Paths) -> View:
    """What the daemons will find when they start; like their start it removes what a crash has left.

    Raises: whatever a loader raises: then nothing starts.
    """
    found = load_queue(paths)
    live = [_seen(each.job) for each in found.jobs]
    archived = [_seen(decode_job(path.read_bytes(), str(path)), archived=True) for path in _archived(paths)]
    config = ConfigFile(paths.config_data).read()
    ReservationStore.load(paths.tempres_data, lambda _: None)
    table = read_locks(paths.locks_data).state.table if paths.locks_data.exists() else None
    locks = {str(owner): frozenset(map(str, table.held_by(owner))) for owner in table.owners()} if table else {}
    return View(
        jobs=(*live, *archived),
        drained=paths.drain_file.exists(),
        filters=_filters(config),
        ports=_ports(config),
        locks=locks,
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
    return View(
        jobs=(*(_asked(row) for row in rows), *(_asked(row, archived=True) for row in old if row[0] is not None)),
        drained=bool(drained),
        filters={uuid: _name(rule["reason_trail"]) for uuid, rule in config.get("filters", {}).items()},
        ports=frozenset(config["cluster"]["tcpudp_port_pool"]),
        locks={owner: frozenset(names) for owner, names in locks.items()},
    )


def leftovers(paths: Paths) -> list[str]:
    """Files that a crash has left, and that a start should have removed."""
    tmp = [*paths.data.rglob("*.tmp"), *paths.run.rglob("*.tmp")]
    livelocks = [path for path in paths.livelocks.iterdir() if path.name.startswith((".", "job_"))]
    rehearsals = list(paths.run.glob("rehearsal-*"))
    return sorted(str(path.relative_to(paths.data.parent)) for path in (*tmp, *livelocks, *rehearsals))


def _archived(paths: Paths) -> list[Path]:
    return sorted(paths.archive.glob("*/job-*[0-9]"))


def _seen(job: Job, *, archived: bool = False) -> SeenJob:
    ops = tuple(SeenOp(str(op.input.get("comment", "")), op.state.value) for op in job.ops)
    return SeenJob(job.job_id, job.state.value, ops, archived)


def _asked(row: Any, *, archived: bool = False) -> SeenJob:
    job_id, state, ops, states = row
    seen = tuple(SeenOp(op.get("comment", ""), of) for op, of in zip(ops, states, strict=True))
    return SeenJob(job_id, state, seen, archived)


def _filters(config: Config) -> Mapping[str, str]:
    return {
        str(uuid): _name([(e.source, e.reason) for e in rule.reason_trail]) for uuid, rule in config.filters.items()
    }


def _ports(config: Config) -> frozenset[int]:
    return frozenset(config.cluster.tcpudp_port_pool)


def _name(trail: Any) -> str:
    return str(trail[0][1])
