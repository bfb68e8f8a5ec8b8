"""wconfd: loads the state, serves it, frees the locks of the dead. The only module that knows all parts.

Source: DESIGN section 8; wconfd.md 6.3 and 7.7.
"""

import functools
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final

import trio

from common.durable.atomicfile import remove_leftovers
from common.errors import GantryError
from common.locks import Owner
from common.metrics import Metrics
from common.paths import Paths
from common.settings import BY_NODES, Settings
from common.system.daemon import run_daemon
from common.system.livelock import Livelock
from common.system.log import get_log
from daemons.wconfd.check import check_files
from daemons.wconfd.configstore import ConfigStore
from daemons.wconfd.core.keptrows import FORMS
from daemons.wconfd.core.reservations import RandomBytes, without_written
from daemons.wconfd.distribution import ConfigDistribution, LocalDistribution, check_copies
from daemons.wconfd.filestores import AnyStore, KeptFiles, ReservationStore
from daemons.wconfd.handlers.changes import ChangeHandlers, DestructionHandlers
from daemons.wconfd.handlers.config import ConfigHandlers
from daemons.wconfd.handlers.events import StateHandlers, tell_config
from daemons.wconfd.handlers.keptrows import KeptHandlers, SessionHandlers
from daemons.wconfd.handlers.locks import ExplainingHandlers, LockHandlers, OrphanHandlers
from daemons.wconfd.handlers.reservations import ReservationHandlers
from daemons.wconfd.locks.deaths import LockOwnerDeaths, release_expired
from daemons.wconfd.locks.lockfiles import journal_of
from daemons.wconfd.locks.lockstore import LockStore
from daemons.wconfd.rpc import WconfdHandlers, routes
from daemons.wconfd.shortlock import LockChecks, ShortLock
from protocol.mastercheck import check_master, reply_guard
from protocol.serving.bounds import BudgetLimits, ConnectionLimits
from protocol.serving.server import ServerRules, serve_unix
from protocol.serving.service import CallCounts, ItemBound, Service

NAME: Final = "wconfd"
_log: Final = get_log(__name__)


def main() -> None:
    """The program gantry-wconfd; with --check FILE... it only checks files."""
    if sys.argv[1:2] == ["--check"]:
        sys.exit(check_files(sys.argv[2:]))
    run_daemon(NAME, "The lock and configuration daemon.", serve, check_master)


async def serve(
    settings: Settings,
    distribution: ConfigDistribution | None = None,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run wconfd; started when the state is loaded, dead owners are freed, and the socket listens.

    Args:
        distribution: passes the configuration to the other nodes; None: there are none.
    Raises: DamagedFile, NotFound: a state file is damaged, or there is no configuration; the message says what to do.
        Conflict: another wconfd has the socket, or other nodes should have copies that nobody makes.
        NoLongerMaster: another node has taken over, and nothing more is written. OSError.
    Cancellation: changes under way are finished.
    """
    async with _distributing(settings, distribution) as mode:
        await _serve(settings, mode, task_status)


_Store = LockStore | ConfigStore | ReservationStore | AnyStore


@asynccontextmanager
async def _distributing(settings: Settings, given: ConfigDistribution | None) -> AsyncIterator[ConfigDistribution]:
    """The way of this installation, as long as the context lasts."""
    if given is not None:
        yield given
    elif settings.cluster.has_lease:
        # imported late: most installations are one machine
        from daemons.wconfd.lease.distribution import committing_to_etcd

        async with committing_to_etcd(settings) as lease:
            yield lease
    elif settings.cluster.replication == BY_NODES:
        # imported late, as above
        from daemons.wconfd.nodes.nodesdistribution import distributing_to_nodes

        async with distributing_to_nodes(settings) as nodes:
            yield nodes
    else:
        yield LocalDistribution(settings.paths, settings.ganeti.release)


async def _serve(settings: Settings, distribution: ConfigDistribution, task_status: trio.TaskStatus[None]) -> None:
    paths = settings.paths
    _remove_leftovers(paths)
    config = ConfigStore.load(paths, distribution)
    if not settings.cluster.has_nodes and not settings.ganeti.allow_uncopied:
        check_copies(config.config)
    rules = settings.wconfd
    max_bypass = rules.max_bypass if rules.fair else None
    locks = LockStore.load(
        paths.locks_data,
        max_bypass=max_bypass,
        has_journal=rules.lock_journal,
        ghost_s=rules.ghost_s,
        livelocks=paths.livelocks,
    )
    reservations = ReservationStore.load(paths.tempres_data, locks.known.meet, distribution)
    kept = KeptFiles.load(paths, distribution)
    livelock = Livelock.create(paths.livelocks, "wconf-daemon")
    short_lock = ShortLock(config, locks, livelock.path, LockChecks(locks, rules.require_locks))
    deaths = LockOwnerDeaths(locks, paths.livelocks, grace_s=rules.livelock_grace_s, tables=[reservations])
    _log.info("state.read", owners=len(locks.state.owners()), config_serial=config.config.serial_no)
    try:
        async with trio.open_nursery() as nursery:
            await nursery.start(locks.run)
            await nursery.start(config.run, functools.partial(tell_config, locks.publisher))
            await nursery.start(config.follow_file)
            if settings.cluster.has_lease:
                await _name_master(config, settings.cluster.own_name)
            if settings.cluster.has_nodes:
                await _name_own_certificate(config, paths)
            await nursery.start(reservations.run)
            await nursery.start(kept.run)
            await reservations.change(lambda state: (without_written(config.config, state), None))
            await nursery.start(deaths.follow)
            nursery.start_soon(deaths.sweep, rules.sweep_s)
            if rules.ghost_s:
                nursery.start_soon(release_expired, locks, rules.ghost_s)
            item_bound = ItemBound(settings.limits.max_locks, "max_locks")
            counts = CallCounts()
            to = make_handlers(
                locks,
                config,
                deaths,
                reservations,
                kept,
                short_lock,
                counts=counts,
                work=distribution.work,
                gateway=settings.access_table(os.getuid()).gateway,
            )
            service = Service(routes(to), item_bound=item_bound, counts=counts)
            await nursery.start(serve_unix, paths.wconfd_socket, service, _rules(settings))
            task_status.started()
    finally:
        livelock.remove()
        _tell_work({"locks.data": locks, "config.data": config, "tempres.data": reservations, **kept.stores}, deaths)


async def _name_master(config: ConfigStore, node: str) -> None:
    """Make this node the master in the configuration, as it is by its lease.

    Nodes hear of it in the background: one that died with the last mastership does not hold up this one.

    Raises: Conflict: the configuration has no such node. As `ConfigStore.change`.
    """
    # imported late, as above
    from daemons.wconfd.core.config.replicas import with_master

    if await config.change(lambda before, now: with_master(before, node, now), waits_for_nodes=False):
        _log.info("master.named", node=node, serial=config.config.serial_no)


async def _name_own_certificate(config: ConfigStore, paths: Paths) -> None:
    """Let nodes obey the certificate of this node, if the configuration has none for the master."""
    # imported late, as above
    from common.nodes.certificates import digest_of
    from daemons.wconfd.core.config.nodechanges import with_masters

    try:
        digest = digest_of(paths.client_pem.read_bytes())
        await config.change(lambda before, now: (with_masters(before, digest, now), None), waits_for_nodes=False)
    except (OSError, GantryError) as error:
        effect = "nodes that obey named certificates refuse the calls of this node"
        _log.error("certificate.unnamed", file=paths.client_pem, reason=error, effect=effect)


def make_handlers(
    locks: LockStore,
    config: ConfigStore,
    deaths: LockOwnerDeaths,
    reservations: ReservationStore,
    kept: KeptFiles,
    short_lock: ShortLock,
    random_bytes: RandomBytes = os.urandom,
    counts: CallCounts | None = None,
    work: Callable[[], Metrics | None] = lambda: None,
    gateway: int | None = None,
) -> WconfdHandlers:
    """The handlers over these stores.

    Args:
        counts: those of the service; None: they are nobody's.
        work: returns the numbers of commits; None: nothing is committed elsewhere.
        gateway: rapid's user, if it has one of its own.
    """
    return WconfdHandlers(
        locks=LockHandlers(locks, deaths),
        orphans=OrphanHandlers(locks, deaths),
        explaining=ExplainingHandlers(locks),
        config=ConfigHandlers(config, locks, short_lock.checks),
        changes=ChangeHandlers(short_lock, reservations),
        reservations=ReservationHandlers(reservations, config, short_lock, random_bytes),
        destruction=DestructionHandlers(config, locks, Owner("wconfd", short_lock.livelock)),
        state=StateHandlers(locks, config, reservations, deaths, counts or CallCounts(), work),
        kept=KeptHandlers(kept.resources, kept.schedules, locks.publisher),
        sessions=SessionHandlers(kept.sessions, gateway),
    )


def _tell_work(stores: Mapping[str, _Store], deaths: LockOwnerDeaths) -> None:
    """Log the writes of this run, and the number of deaths without an event: each of these is a defect."""
    for name, store in stores.items():
        done = store.counts
        _log.info("file.served", file=name, steps=done.steps, writes=done.writes, failures=done.failures)
    _log.info("deaths.served", swept=deaths.counts.swept)


def _remove_leftovers(paths: Paths) -> None:
    """Remove unfinished files of an earlier wconfd that was killed; no other one is running now."""
    files = (paths.config_data, paths.locks_data, journal_of(paths.locks_data), paths.may_run_data, paths.tempres_data)
    own = {path.name for path in files} | FORMS.keys()
    prefix = paths.ssconf_file("").name
    if left := remove_leftovers(paths.data, lambda name: name in own or name.startswith(prefix)):
        _log.info("writes.cut_off", files=",".join(sorted(set(left))), effect="each file is as it was before")


def _rules(settings: Settings) -> ServerRules:
    access = settings.access_table(os.getuid())
    return ServerRules(
        idle_timeout_s=settings.wconfd.idle_timeout_s,
        access=access,
        # daemons with users of their own are in the group
        socket_mode=0o660 if access.apart else 0o600,
        connections=ConnectionLimits.of(settings.limits),
        budget=BudgetLimits.of(settings.limits),
        before_send=reply_guard(settings),
    )


if __name__ == "__main__":
    main()
