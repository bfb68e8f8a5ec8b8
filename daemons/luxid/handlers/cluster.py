"""The cluster, as far as luxid serves it; the facts are wconfd's.

Source: luxid.md 2.2, 2.8.
"""

import platform
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

import attrs

from common.durable.atomicfile import FileWrite
from common.errors import GantryError, InvalidRequest, NotFound, Unavailable
from common.objects.index import ConfigIndex
from common.paths import Paths
from common.resources import Resource
from common.system.log import get_log
from common.system.program import release
from common.wire import unstructure
from daemons.luxid.config import ConfigCache, FilterRuleSync, ResourceTotals
from daemons.luxid.core.query.objects import cluster_facts
from daemons.luxid.core.queue.jobqueue import JobQueue
from daemons.luxid.files.store import Store
from daemons.luxid.handlers.filters import PATIENCE_S
from daemons.luxid.outboxes import FeedNews
from daemons.luxid.processes.killing import MakingWay
from protocol.client import Client
from protocol.luxi.daemon import QUEUE_VERDICTS, CheckQueueCopies, PrepareMove, QueueVerdict
from protocol.luxi.queries import QUEUE_LAGS, FieldValue, QueryClusterInfo, QueryConfigValues, QueueLag
from protocol.luxi.queue import (
    ReadResourceUse,
    RemoveResource,
    ResourceUse,
    SetDrainFlag,
    SetJobLimits,
    SetResource,
    SetWatcherPause,
)
from protocol.peer import Peer
from protocol.serving.route import BACKLOG_LIMIT, Stream
from protocol.wconfd import changes
from protocol.wconfd import config as wconfd

# versions of Ganeti 3.0, whose protocol this is
PROTOCOL_VERSION: Final = 3000000
OS_API_VERSION: Final = 20
EXPORT_VERSION: Final = 0


class ClusterFacts:
    """The methods about the cluster.

    Args:
        told_release: version reported to clients; empty: our own.
        lags: what the candidates lack of the queue; None: it is not copied.
        verdicts: what the last comparisons with the candidates have shown, likewise.
    """

    def __init__(
        self,
        paths: Paths,
        config: ConfigCache,
        told_release: str = "",
        lags: Callable[[], Sequence[QueueLag]] | None = None,
        verdicts: Callable[[], Sequence[QueueVerdict]] | None = None,
    ) -> None:
        self._paths = paths
        self._config = config
        self._release = told_release or release()
        self._lags = lags
        self._verdicts = verdicts

    async def query_config_values(self, call: QueryConfigValues, peer: Peer) -> tuple[FieldValue, ...]:
        """Raises:
        ConfigurationMissing: a value of the configuration is requested, and cannot be read.
        Unavailable: the watcher's pause is requested, and its file cannot be read at the moment.
        """
        config = await self._config.current() if any(name in _FROM_CONFIG for name in call.names) else None
        return tuple(self._value(name, config) for name in call.names)

    async def query_cluster_info(self, call: QueryClusterInfo, peer: Peer) -> Mapping[str, FieldValue]:
        """Raises: ConfigurationMissing."""
        return {
            "software_version": self._release,
            "protocol_version": PROTOCOL_VERSION,
            "os_api_version": OS_API_VERSION,
            "export_version": EXPORT_VERSION,
            "vcs_version": self._release,
            "architecture": ["64bits" if platform.machine().endswith("64") else "32bits", platform.machine()],
            **cluster_facts(await self._config.current()),
        }

    def _value(self, name: str, config: ConfigIndex | None) -> FieldValue:
        if name == "drain_flag":
            return self._paths.drain_file.exists()
        if name == "watcher_pause":
            return _watcher_pause(self._paths)
        if name == QUEUE_LAGS:
            return None if self._lags is None else unstructure(self._lags())
        if name == QUEUE_VERDICTS:
            return None if self._verdicts is None else unstructure(self._verdicts())
        read = _FROM_CONFIG.get(name)
        return read(config) if read is not None and config is not None else None


_FROM_CONFIG: Final[Mapping[str, Callable[[ConfigIndex], FieldValue]]] = {
    "cluster_name": lambda config: config.config.cluster.cluster_name,
    "master_node": lambda config: config.master_name,
    "modify_ssh_setup": lambda config: config.config.cluster.modify_ssh_setup,
    "ssh_key_type": lambda config: config.config.cluster.ssh_key_type.value,
    "ssh_key_bits": lambda config: config.config.cluster.ssh_key_bits,
}


def _watcher_pause(paths: Paths) -> int | None:
    """The end of the pause, in seconds since the epoch; None: there is no pause, or it is over.

    Raises: Unavailable: the file cannot be read at the moment.
    """
    try:
        until = int(paths.watcher_pause.read_text())
    except (FileNotFoundError, ValueError):
        return None
    except OSError as error:
        raise Unavailable(f"'{paths.watcher_pause}' cannot be read: {error.strerror or error}; try again") from error
    return until if until > time.time() else None


# The queue as a whole: the drain flag; also the pause of the watcher, which is a file, too.
#
# Source: luxid.md 2.2, 2.7.


_log: Final = get_log(__name__)
# seconds since the epoch: the year 9999, the last that clocks can show
_LATEST: Final = 253_402_300_800


class WholeQueueHandlers:
    """The methods about the queue as a whole."""

    def __init__(self, store: Store, news: FeedNews) -> None:
        self._store = store
        self._news = news
        self._files = store.files

    async def set_drain_flag(self, call: SetDrainFlag, peer: Peer) -> bool:
        await self._store.set_drained(call.drain)
        self._news.tell_queue()
        _log.info("queue.drain", drained=call.drain, **peer.named)
        return True

    async def set_watcher_pause(self, call: SetWatcherPause, peer: Peer) -> float | None:
        """An instant in the past is stored as well: the watcher goes on.

        Raises: InvalidRequest: clocks cannot show the instant. Unavailable: the disk refused.
        """
        if call.until is not None and not 0 <= call.until < _LATEST:
            raise InvalidRequest(f"the pause cannot end at {call.until}; give seconds since the epoch, to year 9999")
        path = self._store.paths.watcher_pause
        try:
            if call.until is None:
                await self._files.remove([path])
            else:
                await self._files.replace([FileWrite(path, f"{int(call.until)}\n".encode(), 0o644)])
        except OSError as error:
            raise Unavailable(f"the watcher's pause cannot be written: {error.strerror or error}") from error
        _log.info("watcher.pause", until=call.until, **peer.named)
        return call.until


# Change how many jobs may run: a limit of the cluster, which wconfd keeps.
#
# Source: DESIGN section 11. The method is ours; Ganeti's clients submit OP_CLUSTER_SET_PARAMS for it. That job would
# wait for a free slot among the running jobs exactly when there is none.


@attrs.frozen
class LimitHandlers:
    """The method about limits."""

    _rules: FilterRuleSync
    # wconfd's socket
    _wconfd: Path

    async def set_job_limits(self, call: SetJobLimits, peer: Peer) -> bool:
        """Durability: the limits are in the configuration; and in force here.

        Raises: InvalidRequest: a limit is below 1. Unavailable: nothing is changed, or may be.
        """
        for name, value in attrs.asdict(call).items():
            if value is not None and value < 1:
                raise InvalidRequest(f"{name} must be at least 1, got {value}")
        async with Client(self._wconfd, daemon="wconfd") as client:
            await client.call_retrying(
                changes.ChangeJobLimits(call.max_running_jobs, call.max_tracked_jobs), PATIENCE_S
            )
        _log.info(
            "limits.set",
            max_running_jobs=call.max_running_jobs,
            max_tracked_jobs=call.max_tracked_jobs,
            **peer.named,
        )
        await self._rules.refresh()
        return True


# Read, set and remove counted resources: the totals are wconfd's, the use is counted here.
#
# Source: DESIGN section 16. The methods are ours.


@attrs.frozen
class Resources:
    """The methods about resources."""

    _queue: JobQueue
    _totals: ResourceTotals
    # wconfd's socket
    _wconfd: Path

    async def read_resource_use(self, _: ReadResourceUse, __: Peer) -> tuple[ResourceUse, ...]:
        """All resources that are set, those of the cluster first, by name. Cost: linear in the jobs that use them.

        Raises: Unavailable: wconfd is away, and they are not known.
        """
        await self._totals.require()
        self._queue.ready.settle_units()
        return tuple(map(self._use, self._queue.units.stock.resources()))

    async def set_resource(self, call: SetResource, peer: Peer) -> None:
        """Durability: the total is wconfd's; and in force here.

        Raises: InvalidRequest: the name or the total is wrong. Unavailable: nothing is changed, or may be.
        """
        async with Client(self._wconfd, daemon="wconfd") as client:
            await client.call_retrying(wconfd.SetResourceTotal(call.resource, call.condition), PATIENCE_S)
        _log.info("resource.set", resource=call.resource.key, total=call.resource.total, **peer.named)
        await self._refresh()

    async def remove_resource(self, call: RemoveResource, peer: Peer) -> None:
        """Raises: NotFound: there is none. Unavailable: nothing is changed, or may be."""
        key = Resource(call.node, call.name, 0).key
        async with Client(self._wconfd, daemon="wconfd") as client:
            removal = wconfd.RemoveResourceTotal(call.node, call.name, call.condition)
            if not await client.call_retrying(removal, PATIENCE_S):
                raise NotFound(f"there is no resource '{key:.80}'; list them with 'gantry resource list'")
        _log.info("resource.removed", resource=key, **peer.named)
        await self._refresh()

    async def _refresh(self) -> None:
        try:
            await self._totals.refresh()
        except GantryError as error:
            _log.warning("resources.not_read", reason=error, effect="totals stay as they were until wconfd is back")

    def _use(self, resource: Resource) -> ResourceUse:
        units = self._queue.units
        users = tuple(sorted(units.stock.users(resource.key).items()))
        return ResourceUse(resource, units.stock.used(resource.key), users, units.waiting(resource.key), resource.tag)


# The copies of the queue on the master candidates.
#
# Source: DESIGN section 12.


class Checking(Protocol):
    """The way that copies take."""

    async def check(self) -> tuple[QueueVerdict, ...]: ...


class CopyChecks:
    """Args: copies: None: there are none."""

    def __init__(self, copies: Checking | None) -> None:
        self._copies = copies

    async def check_queue_copies(self, call: CheckQueueCopies, peer: Peer) -> tuple[QueueVerdict, ...] | None:
        """Compare the queue with all candidates."""
        return None if self._copies is None else await self._copies.check()


# Prepare the move of the mastership to another node; asked by keeperd.


class MastershipMove:
    """The method that prepares it; the caller's connection keeps luxid so."""

    def __init__(self, making_way: MakingWay) -> None:
        self._making_way = making_way
        self._streams: set[Stream[object]] = set()

    async def prepare_move(self, call: PrepareMove, peer: Peer) -> Stream[None]:
        """Cancellation: when the caller hangs up; then work is taken again."""
        self._making_way.begin()
        try:
            await self._making_way.until_nothing_runs(kill=call.kill)
        except BaseException:
            self._making_way.end()
            raise
        _log.info("master.made_way", **peer.named)
        stream: Stream[None] = Stream(self, None, BACKLOG_LIMIT)
        self._streams.add(stream)
        return stream

    def forget(self, stream: Stream[object]) -> None:
        """The caller has hung up."""
        if stream in self._streams:
            self._streams.discard(stream)
            _log.info("master.goes_on", reason="the mastership stays here")
            self._making_way.end()
