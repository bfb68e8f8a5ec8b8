"""The parts of luxid around its live jobs, made together.

Source: DESIGN section 6.
"""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import attrs
import trio

from common.objects.index import ConfigIndex
from common.opcodes.registry import opcode_classes
from common.settings import LimitsSettings, LuxidSettings, Settings
from common.system.clocks import Clock
from daemons.luxid.config import UNKNOWN, ConfigCache, FilterRuleSync, ResourceTotals
from daemons.luxid.core.choice.limits import UserBounds
from daemons.luxid.core.choice.weights import WeightRules, aliases_of
from daemons.luxid.core.copies.etcdroom import BOUNDLESS, CommitsNow, EtcdRoom
from daemons.luxid.core.queue.jobcounts import JobCounts
from daemons.luxid.core.queue.jobqueue import JobQueue
from daemons.luxid.files.store import Store, WaitFiles
from daemons.luxid.jobs import Ends, JobTable, JobViews, LiveJobs, Rewriting
from daemons.luxid.processes.deaths import LeftUnits
from daemons.luxid.processes.jobprocesses import JobProcesses, KillMessages, PriorityMessages
from daemons.luxid.processes.killing import CommitAsk
from daemons.luxid.processes.signals import Pauses
from daemons.luxid.scheduler import JobTask, Scheduler
from daemons.luxid.watching import QueueWatch
from protocol.client import Client

# a start mostly waits for a fork and a write; more at once do not help
STARTS_AT_ONCE: Final = 8


@attrs.frozen
class JobParts:
    """The parts that know, show and change live jobs; other parts get those that they need."""

    store: Store
    jobs: LiveJobs
    waits: WaitFiles
    views: JobViews
    rewriting: Rewriting
    scheduler: Scheduler
    pauses: Pauses
    left: LeftUnits

    @classmethod
    def make(
        cls,
        store: Store,
        settings: LuxidSettings,
        limits: LimitsSettings | None = None,
        *,
        takes_up: bool = False,
        clock: Clock | None = None,
    ) -> "JobParts":
        """Args:
        limits: bounds of each user; None: the defaults.
        takes_up: whether commands run on nodes, where they outlive the processes of their jobs.
        clock: as for `Scheduler`.
        """
        queue = JobQueue(
            settings.max_running_jobs,
            STARTS_AT_ONCE,
            store.archived_state,
            _weights(settings),
            settings.max_unit_bypass,
            _user_bounds(settings.max_queued_jobs, limits or LimitsSettings()),
        )
        processes = JobProcesses(KillMessages(store.paths), PriorityMessages(store.paths))
        counts = JobCounts(opcode_classes(), settings.metrics_label)
        jobs = LiveJobs(queue, JobTable(store.find_live), processes, counts=counts, takes_up=takes_up)
        waits, ends = WaitFiles(store.paths), Ends()
        # with an external executor each process reports for itself whether it supports pauses
        pauses = Pauses(store.paths, jobs, all_heed=not settings.executor)
        left = LeftUnits(jobs, store)
        scheduler = Scheduler(jobs, store, waits, ends, pauses, left, clock)
        return cls(
            store=store,
            jobs=jobs,
            waits=waits,
            views=JobViews(jobs, store.logs, store.paths.silence_note),
            rewriting=Rewriting(store, jobs, ends, scheduler),
            scheduler=scheduler,
            pauses=pauses,
            left=left,
        )

    def begin(self, nursery: trio.Nursery, start: JobTask, take_up: JobTask | None = None) -> None:
        """Begin to carry out the core's decisions; args as for `Scheduler.begin`."""
        nursery.start_soon(self.rewriting.run)
        nursery.start_soon(self.left.run, self.store.paths.livelocks, self.scheduler.units_free)
        self.scheduler.begin(nursery, start, take_up)


def _user_bounds(most: int, limits: LimitsSettings) -> UserBounds:
    return UserBounds(
        queued=most,
        queued_per_user=limits.max_queued_jobs_per_user or max(1, most // 2),
        queued_reserve=limits.reserved_queue_places,
        running_per_user=limits.max_running_jobs_per_user,
        slots_reserve=limits.reserved_running_jobs,
        unbounded=frozenset((0, os.getuid())),
    )


def _weights(settings: LuxidSettings) -> WeightRules:
    return WeightRules(
        is_enabled=settings.predictive,
        base=settings.lock_weight_base,
        tick_s=settings.lock_weight_tick_s,
        ticks=settings.lock_weight_ticks,
    )


# The parts of luxid that exist before its queue is read.
#
# Source: DESIGN section 6.


if TYPE_CHECKING:
    from daemons.luxid.copying.nodecopies import NodeCopies
    from daemons.luxid.livedata import NodesData

AWAY: Final = "the fork server is not reached"


def takes_up(settings: Settings) -> bool:
    """Whether commands run on nodes, where they outlive the processes of their jobs."""
    return settings.cluster.has_nodes and not settings.luxid.executor


@attrs.frozen
class EarlyParts:
    """The parts that exist before the queue is read."""

    watch: QueueWatch
    parts: JobParts
    wconfd: Client
    config: ConfigCache
    rules: FilterRuleSync
    totals: ResourceTotals
    nodes: "NodeCopies | None"
    live: "NodesData | None"
    # how commits are doing; None: there is no lease
    commits: Callable[[], CommitsNow] | None = None
    # what may be committed when etcd fills up
    room: EtcdRoom = BOUNDLESS
    # lets next masters know what was asked of jobs; None: there is no lease
    commit_ask: CommitAsk | None = None


def early_parts(
    settings: Settings,
    store: Store,
    watch: QueueWatch,
    nodes: "NodeCopies | None",
    live: "NodesData | None",
    commits: Callable[[], CommitsNow] | None = None,
    room: EtcdRoom = BOUNDLESS,
    commit_ask: CommitAsk | None = None,
) -> EarlyParts:
    """Make them; the queue of jobs has obstacles until others are ready."""
    parts = JobParts.make(store, settings.luxid, settings.limits, takes_up=takes_up(settings))
    # until the launcher is connected
    parts.scheduler.obstruct(AWAY)
    # until the configuration could be read
    parts.scheduler.obstruct(UNKNOWN)
    wconfd = Client(settings.paths.wconfd_socket, daemon="wconfd")
    queue = parts.jobs.queue

    def on_read(index: ConfigIndex) -> None:
        queue.set_aliases(aliases_of(index.config))
        if nodes is not None:
            nodes.follow(index)

    config = ConfigCache(settings.paths.config_data, wconfd, on_read)
    rules = FilterRuleSync(parts.scheduler, config)
    totals = ResourceTotals(parts.scheduler, Client(settings.paths.wconfd_socket, daemon="wconfd"), parts.left.is_ready)
    return EarlyParts(watch, parts, wconfd, config, rules, totals, nodes, live, commits, room, commit_ask)
