"""luxid: reads the queue, serves it, starts jobs. The only module that knows all parts.

Source: DESIGN section 6; luxid.md 5.10.
"""

import os
import time
from functools import partial
from typing import Final

import attrs
import trio

from common.ids import JobId
from common.installation import use_plugins
from common.replica.replica import Replica
from common.settings import LimitsSettings, Settings
from common.system.daemon import run_daemon
from common.system.inthread import in_thread, try_in_thread
from common.system.log import get_log
from common.system.shortages import retry_pauses
from daemons.luxid.core.copies.etcdroom import BOUNDLESS
from daemons.luxid.core.queue.recovery import Fate
from daemons.luxid.core.submission.newjobs import JobBounds
from daemons.luxid.feed.feed import Feed, queue_state
from daemons.luxid.files.knownids import GAP
from daemons.luxid.files.loading import FoundQueue, load_queue
from daemons.luxid.files.queuefiles import QueueFiles, ThreadChanges
from daemons.luxid.files.store import Store, open_store
from daemons.luxid.files.submissionkeys import SubmissionKeys
from daemons.luxid.handlers.cluster import (
    ClusterFacts,
    CopyChecks,
    LimitHandlers,
    MastershipMove,
    Resources,
    WholeQueueHandlers,
)
from daemons.luxid.handlers.explaining import Blocking, Explaining, JobWaitHandlers
from daemons.luxid.handlers.filters import FilterHandlers
from daemons.luxid.handlers.health import LuxidHealthHandlers, LuxidMetricHandlers
from daemons.luxid.handlers.jobchanges import JobHandlers, ManyJobsHandlers
from daemons.luxid.handlers.past import PastJobs, PruneHandlers
from daemons.luxid.handlers.queries import JobRows, ObjectQueries, Sources
from daemons.luxid.handlers.repairs import Repairs
from daemons.luxid.handlers.schedules import OwnJobs, ScheduleParts
from daemons.luxid.handlers.submission import Acceptance, SubmissionHandlers
from daemons.luxid.handlers.waiting import OutputHandlers, Subscribing, Waiting
from daemons.luxid.history.upkeep import PastHistory
from daemons.luxid.nodes.nodeparts import (
    bring_up_address,
    following,
    has_become_master,
    highest_on_nodes,
    leased_queue,
    live_data,
    node_copies,
    orphan_parts,
    serial_on_nodes,
)
from daemons.luxid.notifying import JobNotifier
from daemons.luxid.outputs import OutputWatch
from daemons.luxid.parts import AWAY, EarlyParts, JobParts, early_parts, takes_up
from daemons.luxid.processes.deaths import JobProcessDeaths
from daemons.luxid.processes.killing import Canceller, Kills, MakingWay
from daemons.luxid.processes.launcher import ExternalExecutor, ForkServerClient, LauncherEvents, ProcessLauncher
from daemons.luxid.processes.starting import Attempts, Starter, TakeUps
from daemons.luxid.retention import Pruning
from daemons.luxid.rpc import LuxidHandlers, routes
from daemons.luxid.schedules import ScheduleBook
from daemons.luxid.submitters import Submitters, roles_of
from daemons.luxid.watching import ChangedFiles, FolderEvents, QueueWatch
from protocol.client import Client
from protocol.mastercheck import check_master, reply_guard
from protocol.serving.bounds import BudgetLimits, ConnectionLimits
from protocol.serving.server import ServerRules, serve_unix
from protocol.serving.service import AccountRoles, CallCounts, ItemBound, Service, Speakers

# luxid's face to its clients: the handlers of all calls, made of its parts.
#
# Source: DESIGN section 6.


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
    telling: JobNotifier,
    nursery: trio.Nursery,
) -> Service:
    """What replies to clients, made of these parts."""
    config, rules, parts = early.config, early.rules, early.parts
    jobs, store, views, events = parts.jobs, parts.store, parts.views, parts.scheduler
    own_uid = os.getuid()
    access = settings.access_table(own_uid)
    # members of `gids` have all rights but this one: Ganeti's rule
    privileged = attrs.evolve(settings, access=attrs.evolve(settings.access, gids=())).access_table(own_uid)
    submitters = Submitters(access, jobs, settings.paths.launcher_socket)
    rows = JobRows(jobs.table, store, views, jobs.queue)
    outputs = OutputWatch(settings.paths, nursery)
    output = OutputHandlers(jobs, store, outputs)
    changes = JobHandlers(jobs, store, parts.rewriting, events, canceller, early.room)
    is_notified = jobs.notices.is_notified
    pruning = Pruning(settings.retention, store, jobs, past, keys, changes.archive_ended, early.room, is_notified)
    nursery.start_soon(pruning.run)
    lags, calls = early.nodes.lags if early.nodes else None, CallCounts()
    bounds = _job_bounds(settings.limits)
    acceptance = Acceptance(submitters, config.current)
    submission = SubmissionHandlers(
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
            LuxidHandlers(
                submission=submission,
                schedules=schedules.begin(),
                jobs=changes,
                many_jobs=ManyJobsHandlers(jobs, store, parts.rewriting, canceller, changes, submitters, early.room),
                waiting=waiting,
                queue=WholeQueueHandlers(store, jobs.news),
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
                repairs=Repairs(store, jobs, events, keys, past, book, settings.cluster.own_name, early.nodes),
                objects=ObjectQueries(
                    rows,
                    jobs.queue,
                    Sources(config, early.live),
                    early.wconfd,
                    is_in_ganeti=bool(settings.ganeti.release),
                ),
                limits=LimitHandlers(rules, settings.paths.wconfd_socket),
                filters=FilterHandlers(store, rows, rules, jobs.queue.loads, config, settings.paths.wconfd_socket),
                history=JobWaitHandlers(jobs.table, jobs.queue, store, parts.waits),
                health=LuxidHealthHandlers(
                    settings.paths, jobs, past, early.nodes.lost_count if early.nodes else lambda: 0
                ),
                metrics=LuxidMetricHandlers(
                    jobs,
                    views,
                    store,
                    (calls, book.counts, pruning.counts),
                    lags,
                    early.commits,
                    settings.luxid.start_goal_s,
                ),
                explaining=Explaining(
                    jobs,
                    store,
                    views,
                    Client(settings.paths.wconfd_socket, daemon="wconfd"),
                    early.commits,
                    is_external=bool(settings.luxid.executor),
                ),
                blocking=Blocking(jobs, Client(settings.paths.wconfd_socket, daemon="wconfd")),
                moving=MastershipMove(making_way),
                past=PastJobs(past),
                prunes=PruneHandlers(pruning),
                resources=Resources(jobs.queue, early.totals, settings.paths.wconfd_socket),
                config=config,
            )
        ),
        item_bound=ItemBound(settings.limits.max_items, "max_items"),
        counts=calls,
        speakers=Speakers(access, AccountRoles(settings.paths, has_ganetis_rule=settings.rapid.ganeti_rights)),
    )


def _job_bounds(limits: LimitsSettings) -> JobBounds:
    return JobBounds(limits.max_job_opcodes, limits.max_job_bytes, limits.max_locks, limits.max_opcode_depends)


def rules_of(settings: Settings) -> ServerRules:
    """How many clients may call, and who."""
    access = settings.access_table(os.getuid())
    return ServerRules(
        idle_timeout_s=IDLE_TIMEOUT_S,
        close_on_bad_arguments=True,
        access=access,
        socket_mode=settings.access.socket_mode | (0o666 if access.is_shared else 0),
        connections=ConnectionLimits.of(settings.limits),
        budget=BudgetLimits.of(settings.limits),
        before_send=reply_guard(settings),
    )


NAME: Final = "luxid"
_log: Final = get_log(__name__)


def main() -> None:
    """The program gantry-luxid; jobs run on when it ends."""
    run_daemon(NAME, "The queue daemon: keeps jobs, and starts a process for each.", serve, check_master)


async def serve(
    settings: Settings,
    replica: Replica | None = None,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run luxid; started when the queue is read and the socket listens.

    Args:
        replica: passes changes to the other nodes; None: the mode that the settings name.
    Raises: Conflict: another luxid has the queue or the socket. NoLongerMaster: another node has taken over, and
        nothing more is written. Denied: the folder of plug-ins is not safe. DamagedFile, Unavailable, OSError.
    Cancellation: writes under way are finished, nothing else; jobs go on without luxid.
    """
    use_plugins(settings)
    lease = leased_queue(settings) if replica is None else None
    nodes = lease.nodes if lease is not None else node_copies(settings) if replica is None else None
    replica = replica or (lease.copies if lease is not None else nodes)
    store = open_store(settings.paths, QueueFiles(settings.paths, replica))
    try:
        # made before the queue is read, so that no change is missed
        watch = QueueWatch(settings.paths)
        try:
            async with trio.open_nursery() as nursery:
                if lease is not None:
                    await nursery.start(lease.run)
                    nursery.start_soon(store.files.end_after, lease.until_lost)
                    store.raise_serial(await lease.replay())
                if nodes is not None:
                    await nursery.start(nodes.run)
                    nursery.start_soon(store.files.end_after, nodes.until_outdated)
                live = live_data(settings)
                if live is not None:
                    await nursery.start(live.run)
                commits, room = (lease.now, lease.room) if lease is not None else (None, BOUNDLESS)
                commit_ask = lease.commit_ask if lease is not None else None
                early = early_parts(settings, store, watch, nodes, live, commits, room, commit_ask)
                # parallel to the reading of the queue: a job found after the rules are known is judged only once
                nursery.start_soon(early.rules.load)
                if lease is not None:
                    # ids are committed before they are used, and a full etcd gets room by what candidates have
                    lease.nodes.begin()
                    await lease.settle(nursery)
                # emptied by `pop` below, so that the found queue is not kept in memory while luxid serves
                changes = ThreadChanges(store.files)
                load = partial(load_queue, takes_up=takes_up(settings))
                found = [await try_in_thread(load, settings.paths, _pause_in_thread, changes)]
                if lease is not None:
                    lease.begin((each.job for each in found[0].jobs), nursery)
                await _settle_ids(settings, store, found[0])
                if nodes is not None and lease is None:
                    # not before: a copy of this node's serial would replace what a candidate knows
                    nodes.begin()
                await _wire(settings, early, found.pop(), nursery)
                task_status.started()
                nursery.start_soon(bring_up_address, settings, early.config)
        finally:
            watch.close()
    finally:
        done = store.files.statistics()
        _log.info("queue.served", commits=done.commits, failures=done.failures, groups=done.groups, files=done.files)
        store.close()


async def _settle_ids(settings: Settings, store: Store, found: FoundQueue) -> None:
    """Begin beyond all ids that were used; where some may be unknown here, ask the other nodes, and leave a gap.

    Raises: DamagedFile: the epoch.
    """
    store.raise_serial(found.highest_id)
    for pause_s in retry_pauses():
        try:
            serial = await serial_on_nodes(settings)
            if found.has_lost_ids or serial > store.serial or await has_become_master(settings):
                highest = max(store.serial, serial, await highest_on_nodes(settings))
                store.raise_serial(JobId(highest + GAP))
                _log.warning(
                    "ids.gap", lost=found.has_lost_ids, on_nodes=serial, highest=highest, next=store.serial + 1
                )
                await in_thread(store.write_serial)
                # under a lease candidates may have been sent the earlier one
                await store.files.report([settings.paths.serial_file])
            elif not settings.paths.serial_file.exists():
                await in_thread(store.write_serial)
            return
        except OSError as error:
            effect = "no job is served until the next id is known"
            _log.error("ids.not_settled", reason=error, effect=effect, retry_s=pause_s)
        await trio.sleep(pause_s)


async def _wire(settings: Settings, early: EarlyParts, found: FoundQueue, nursery: trio.Nursery) -> None:
    """Make the other parts, pass the found queue to them, and start them."""
    parts, watch = early.parts, early.watch
    jobs, store, scheduler = parts.jobs, parts.store, parts.scheduler
    launcher = _launcher(settings)
    attempts = Attempts(jobs, parts.rewriting, scheduler, launcher.rules.attempts)
    starter = Starter(jobs, store, launcher, attempts, scheduler, settings.luxid.start_timeout_s)
    take_ups = TakeUps(jobs, store, starter, parts.rewriting)
    orphans, locks_claimed = orphan_parts(settings, early), trio.Event()
    deaths = JobProcessDeaths(
        jobs, store, parts.rewriting, attempts, scheduler, nursery, locks_claimed if orphans else None
    )
    is_external = bool(settings.luxid.executor)
    # the job of an external executor ends at once, as with Ganeti
    grace_s = 0.0 if is_external else settings.luxid.kill_grace_s
    kills = Kills(jobs, parts.rewriting, nursery, grace_s, is_external=is_external)

    await nursery.start(store.files.run)
    unended = (each.job for each in found.jobs if each.fate is not Fate.ENDED)
    for uid, role in (await roles_of(settings.access_table(os.getuid()), unended)).items():
        jobs.queue.users.note_role(uid, role)
    dead = scheduler.recover(found.jobs)
    telling = JobNotifier(settings, jobs, early.config.current, lambda: store.serial)
    telling.recover(each.job for each in found.jobs)
    kills.recover()
    deaths.recover()
    if orphans is not None:
        orphans.begin(dead, locks_claimed, nursery)
    # the process may have been another machine's, whose end only a lease proves
    may_rerun = not settings.cluster.has_nodes or settings.cluster.has_lease
    for job in dead:
        nursery.start_soon(partial(deaths.settle, may_rerun=may_rerun), job)
    _log.info("queue.read", jobs=len(found.jobs), died=len(dead), serial=store.serial)
    nursery.start_soon(_write_history_at_end, parts)
    nursery.start_soon(deaths.run)
    parts.begin(nursery, starter.start, take_ups.take_up)
    # no event reported processes that died between being judged and being watched
    deaths.suspect_all()
    kills.resume()

    files = ChangedFiles(jobs, store, scheduler, nursery)
    tell = FolderEvents(
        jobs_changed=files.replaced,
        logs_grew=files.logs_grew,
        livelocks_touched=jobs.processes.livelocks_touched,
        overflow=lambda: _look_at_everything(files, deaths),
    )
    nursery.start_soon(files.run)
    nursery.start_soon(watch.follow_jobs, tell)
    nursery.start_soon(watch.follow_logs, tell)
    nursery.start_soon(watch.follow_livelocks, tell)
    nursery.start_soon(deaths.sweep, settings.luxid.sweep_s)
    events = LauncherEvents(
        connected=lambda: scheduler.clear(AWAY),
        lost=lambda: scheduler.obstruct(AWAY),
        exited=jobs.processes.suspect,
    )
    await nursery.start(launcher.run, events)
    end_on_nodes = orphans.watch.end_left if orphans else lambda _: False
    canceller = Canceller(
        jobs,
        store,
        parts.views,
        parts.rewriting,
        kills,
        is_external=is_external,
        end_on_nodes=end_on_nodes,
        commit=early.commit_ask,
    )
    catch_up = partial(_catch_up, watch, tell, files)
    waiting = Waiting(jobs, store, parts.views, catch_up)
    feed = Feed(jobs, parts.views, partial(queue_state, store, jobs), catch_up)
    nursery.start_soon(feed.run)
    keys = SubmissionKeys(settings.paths, store.files, found.keys, jobs.table.is_unended)
    book = ScheduleBook(Client(settings.paths.wconfd_socket, daemon="wconfd"))

    def on_kept(what: str | None) -> None:
        # luxid alone changes schedules; of a wconfd that was restarted nobody knows
        if what is None:
            book.forget()

    nursery.start_soon(following(settings, early, orphans, nursery, on_kept).run)
    making_way = MakingWay(jobs, scheduler, take_ups, parts.pauses, kills)
    past = PastHistory(settings.paths, jobs)
    nursery.start_soon(past.run)
    service = service_of(settings, early, canceller, waiting, feed, keys, making_way, past, book, telling, nursery)
    await nursery.start(serve_unix, settings.paths.query_socket, service, rules_of(settings))


def _pause_in_thread(pause_s: float) -> None:
    """Raises: trio.Cancelled: luxid is ending."""
    trio.from_thread.run(trio.sleep, pause_s)


async def _write_history_at_end(parts: JobParts) -> None:
    """Write the open spans at the end: the next luxid cannot know what held the queued jobs until then."""
    try:
        await trio.sleep_forever()
    finally:
        if parts.store.files.is_master:
            parts.waits.write(parts.jobs.queue.close(time.time()))
        # each swept death is a missed event, and a defect
        _log.info("deaths.served", swept=parts.jobs.counts.swept)


def _launcher(settings: Settings) -> ProcessLauncher:
    if settings.luxid.executor:
        return ExternalExecutor(settings.luxid.executor, settings.paths)
    return ForkServerClient(settings.paths)


async def _catch_up(watch: QueueWatch, tell: FolderEvents, files: ChangedFiles) -> None:
    watch.tell_of_jobs(tell)
    await files.take_in()


def _look_at_everything(files: ChangedFiles, deaths: JobProcessDeaths) -> None:
    files.look_at_all()
    deaths.suspect_all()


if __name__ == "__main__":
    main()
