"""The parts of luxid around its live jobs, made together.

Source: DESIGN section 6.
"""

import os
from typing import Final

import attrs
import trio

from common.opcodes.registry import opcode_classes
from common.settings import LimitsSettings, LuxidSettings
from common.system.clocks.wallclock import Clock
from daemons.luxid.core.choice.userbounds import UserBounds
from daemons.luxid.core.choice.weights import WeightRules
from daemons.luxid.core.queue.jobcounts import JobCounts
from daemons.luxid.core.queue.jobqueue import JobQueue
from daemons.luxid.files.store import Store
from daemons.luxid.files.waitfiles import WaitFiles
from daemons.luxid.jobs.jobtable import JobTable
from daemons.luxid.jobs.jobviews import JobViews
from daemons.luxid.jobs.livejobs import LiveJobs
from daemons.luxid.jobs.rewriting import Ends, Rewriting
from daemons.luxid.processes.jobprocesses import JobProcesses
from daemons.luxid.processes.killmessages import KillMessages
from daemons.luxid.processes.leftunits import LeftUnits
from daemons.luxid.processes.pausing import Pauses
from daemons.luxid.processes.toldpriorities import ToldPriorities
from daemons.luxid.scheduler import JobTask, Scheduler

# a start mostly waits for a fork and a write; more at once do not help
STARTS_AT_ONCE: Final = 8


@attrs.frozen
class Parts:
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
    ) -> "Parts":
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
        processes = JobProcesses(KillMessages(store.paths), ToldPriorities(store.paths))
        counts = JobCounts(opcode_classes())
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
