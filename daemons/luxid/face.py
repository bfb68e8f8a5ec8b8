"""luxid's face to its clients: the handlers of all calls, made of its parts.

Source: DESIGN section 6.
"""

import os
from typing import Final

import attrs
import trio

from common.metrics.calls import CallTally
from common.settings import LimitsSettings, Settings
from daemons.luxid.core.submission.jobbounds import JobBounds
from daemons.luxid.earlyparts import EarlyParts
from daemons.luxid.feed.feed import Feed
from daemons.luxid.files.submissionkeys import SubmissionKeys
from daemons.luxid.handlers.cluster import ClusterFacts
from daemons.luxid.handlers.copies import CopyChecks
from daemons.luxid.handlers.drain import Queue
from daemons.luxid.handlers.filters import Filters
from daemons.luxid.handlers.health import Health
from daemons.luxid.handlers.jobs.acceptance import Acceptance
from daemons.luxid.handlers.jobs.explaining import Explaining
from daemons.luxid.handlers.jobs.jobchanges import Jobs
from daemons.luxid.handlers.jobs.manyjobs import ManyJobs
from daemons.luxid.handlers.jobs.output import Output
from daemons.luxid.handlers.jobs.pastjobs import PastJobs
from daemons.luxid.handlers.jobs.submission import Submission
from daemons.luxid.handlers.jobs.waithistory import JobWaits
from daemons.luxid.handlers.jobs.waiting import Waiting
from daemons.luxid.handlers.limits import Limits
from daemons.luxid.handlers.mastershipmove import MastershipMove
from daemons.luxid.handlers.metrics import Metrics
from daemons.luxid.handlers.prunes import Prunes
from daemons.luxid.handlers.queries.jobrows import JobRows
from daemons.luxid.handlers.queries.objectkinds import Sources
from daemons.luxid.handlers.queries.objectqueries import ObjectQueries
from daemons.luxid.handlers.repairs import Repairs
from daemons.luxid.handlers.resources import Resources
from daemons.luxid.handlers.scheduling.ownjobs import OwnJobs
from daemons.luxid.handlers.scheduling.runningschedules import ScheduleParts
from daemons.luxid.handlers.subscribing import Subscribing
from daemons.luxid.history.pasthistory import PastHistory
from daemons.luxid.notifying.telling import Telling
from daemons.luxid.outputs import OutputWatch
from daemons.luxid.processes.cancelling import Canceller
from daemons.luxid.processes.makingway import MakingWay
from daemons.luxid.retention.pruning import Pruning
from daemons.luxid.rpc import Handlers, routes
from daemons.luxid.schedules.book import ScheduleBook
from daemons.luxid.submitters import Submitters
from protocol.client import Client
from protocol.mastercheck import reply_guard
from protocol.serving.admission import ConnectionLimits
from protocol.serving.budget import BudgetLimits
from protocol.serving.itembound import ItemBound
from protocol.serving.server import ServerRules, Service
from protocol.serving.speaking import Speakers

# time-out of a client's connection (luxid.md 1.4)
IDLE_TIMEOUT_S: Final = 180.0


def service_of(
    settings: Settings,
    early: EarlyParts,
    canceller: Canceller,
    waiting: Waiting,
    feed: Feed,
    keys: SubmissionKeys,
    making_way: MakingWay,
    past: PastHistory,
    book: ScheduleBook,
    telling: Telling,
    nursery: trio.Nursery,
) -> Service:
    """What replies to clients, made of these parts."""
    config, rules, parts = early.config, early.rules, early.parts
    jobs, store, views, events = parts.jobs, parts.store, parts.views, parts.scheduler
    access, own_uid = settings.access, os.getuid()
    # members of `gids` have all rights but this one: Ganeti's rule
    privileged = attrs.evolve(access, gids=()).access(own_uid)
    submitters = Submitters(access.access(own_uid), jobs, settings.paths.launcher_socket)
    rows = JobRows(jobs.table, store, views, jobs.queue.ended)
    outputs = OutputWatch(settings.paths, nursery)
    output = Output(jobs, store, outputs)
    changes = Jobs(jobs, store, parts.rewriting, events, canceller, early.room)
    is_told = jobs.untold.is_told
    pruning = Pruning(settings.retention, store, jobs, past, keys, changes.archive_ended, early.room, is_told)
    nursery.start_soon(pruning.run)
    lags, tally = early.nodes.lags if early.nodes else None, CallTally()
    bounds = _job_bounds(settings.limits)
    acceptance = Acceptance(submitters, config.current)
    submission = Submission(
        jobs,
        store,
        events,
        settings.luxid,
        keys,
        privileged,
        submitters,
        bounds,
        acceptance,
        early.room,
    )
    nursery.start_soon(telling.run, submission.submit_own)
    own_jobs = OwnJobs(acceptance, submission, keys, bounds)
    schedules = ScheduleParts(book, own_jobs, submitters, jobs, canceller, settings.limits, nursery)
    return Service(
        routes(
            Handlers(
                submission=submission,
                schedules=schedules.begin(),
                jobs=changes,
                many_jobs=ManyJobs(jobs, store, parts.rewriting, canceller, changes, submitters, early.room),
                waiting=waiting,
                queue=Queue(store, jobs.news),
                output=output,
                subscribing=Subscribing(feed, output, outputs),
                cluster=ClusterFacts(
                    settings.paths,
                    config,
                    settings.ganeti.release,
                    lags=lags,
                    verdicts=early.nodes.verdicts if early.nodes else None,
                ),
                copies=CopyChecks(early.nodes),
                repairs=Repairs(store, jobs, events, keys, past, early.nodes),
                objects=ObjectQueries(
                    rows,
                    jobs.queue,
                    Sources(config, early.live),
                    early.wconfd,
                    is_in_ganeti=bool(settings.ganeti.release),
                ),
                limits=Limits(rules, settings.paths.wconfd_socket),
                filters=Filters(store, rows, rules, jobs.queue.loads, config, settings.paths.wconfd_socket),
                history=JobWaits(jobs.table, jobs.queue, store, parts.waits),
                health=Health(settings.paths, jobs, past, early.nodes.lost_count if early.nodes else lambda: 0),
                metrics=Metrics(jobs, views, store, tally, lags, early.commits, book.made, lambda: pruning.removed),
                explaining=Explaining(
                    jobs,
                    store,
                    views,
                    Client(settings.paths.wconfd_socket, daemon="wconfd"),
                    early.commits,
                    is_external=bool(settings.luxid.executor),
                ),
                moving=MastershipMove(making_way),
                past=PastJobs(past),
                prunes=Prunes(pruning),
                resources=Resources(jobs.queue, early.totals, settings.paths.wconfd_socket),
                config=config,
            )
        ),
        item_bound=ItemBound(settings.limits.max_items, "max_items"),
        tally=tally,
        speakers=Speakers(access.access(own_uid)),
    )


def _job_bounds(limits: LimitsSettings) -> JobBounds:
    return JobBounds(limits.max_job_opcodes, limits.max_job_bytes, limits.max_locks, limits.max_opcode_depends)


def rules_of(settings: Settings) -> ServerRules:
    """How many clients may call, and who."""
    access = settings.access.access(os.getuid())
    return ServerRules(
        idle_timeout_s=IDLE_TIMEOUT_S,
        close_on_bad_arguments=True,
        access=access,
        socket_mode=settings.access.socket_mode | (0o666 if access.is_shared else 0),
        connections=ConnectionLimits.of(settings.limits),
        budget=BudgetLimits.of(settings.limits),
        before_send=reply_guard(settings),
    )
