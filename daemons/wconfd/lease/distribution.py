"""The distribution of the configuration under a lease, and what etcd may forget of it."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

import attrs
import trio

from common.errors import Unavailable
from common.lease.changes import KeyChange
from common.lease.grant import HeldGrant, read_held
from common.lease.records import EtcdKeys
from common.metrics import Distribution, Metrics, counter, gauge, histogram
from common.objects.kinds import NodeUuid
from common.replica.replica import NoLongerMaster
from common.settings import Settings
from common.system.inthread import in_thread
from common.system.log import get_log
from common.system.mastership import OwnMastershipState
from daemons.wconfd.core.config.configstate import ConfigState
from daemons.wconfd.distribution import ConfigChange, ConfigDistribution, StateChange
from daemons.wconfd.lease.clusterfiles import ClusterFiles, ConfigKeys
from daemons.wconfd.nodes.nodesdistribution import NodesDistribution, distributing_to_nodes
from protocol.etcd.address import EtcdAddress
from protocol.etcd.client import EtcdClient
from protocol.etcd.commits import Commits
from protocol.etcd.kv import Get
from protocol.wconfd.config import NodeBehind
from protocol.wconfd.daemon import ConfigVerdict

# Forget in etcd what all candidates have of the configuration.
#
# Theory. Changes are kept in etcd only as long as a candidate may lack them, so that etcd stays small. A candidate has
# a change when it has acknowledged the file with it. One that was away too long is marked as stale by luxid and holds
# nothing back; it may not become the master before it is complete again. The serial number up to which all others have
# the file is noted in etcd before changes are forgotten: a copy below it is incomplete for ever, and no wconfd starts
# from it.
#
# Source: DESIGN section 14.


# pause after each round, so that changes in a row are forgotten together
_TOGETHER_S: Final = 1.0
# pause while candidates lag: one of them may be marked as stale meanwhile, by another daemon
_LAGGING_S: Final = 30.0
_log: Final = get_log(__name__)


@attrs.frozen(kw_only=True)
class ConfigCommits(Metrics):
    """The commits of this wconfd to etcd; those of luxid are among its own numbers."""

    commits: int = counter("config_commits", "Changes of the configuration that were committed to etcd.")
    failures: int = counter("config_commit_failures", "Changes of the configuration that etcd has refused.")
    retries: int = counter("config_commit_retries", "Requests sent again, as their outcome was unknown.")
    waiting: int = gauge("config_commits_waiting", "Changes of the configuration that wait for etcd.")
    uncopied: int = gauge("config_etcd_entries", "Objects in etcd that some candidate may lack.")
    # in seconds
    durations: Distribution = histogram(
        "config_commit_seconds",
        "One transaction of a majority of etcd with changes of the configuration, with its retries.",
    )


@attrs.define
class Forgetting:
    _cluster: ClusterFiles
    _nodes: NodesDistribution
    _etcd: EtcdClient
    _keys: EtcdKeys
    # text of the last failure that was logged
    _told: str = ""

    async def run(self) -> None:
        """Forget, until cancelled. Raises: NoLongerMaster."""
        while True:
            progress = self._nodes.progress
            try:
                await self._forget()
                self._told = ""
            except NoLongerMaster:
                raise
            except Unavailable as error:
                if error.message != self._told:
                    self._told = error.message
                    _log.warning("changes.not_forgotten", reason=error, effect="they stay in etcd until it succeeds")
            with trio.move_on_after(_LAGGING_S if len(self._cluster.uncopied) else float("inf")):
                await progress.wait()
            await trio.sleep(_TOGETHER_S)

    async def _forget(self) -> None:
        if not len(self._cluster.uncopied):
            return
        lagging = self._nodes.lagging
        serial_no = self._nodes.copied_serial(await self._stale() if lagging else frozenset())
        if serial_no is not None:
            await self._cluster.forget(serial_no)

    async def _stale(self) -> frozenset[str]:
        """The candidates that hold nothing back, by name. Raises: Unavailable."""
        found = await self._etcd.get(Get(self._keys.stales, is_prefix=True, keys_only=True))
        return frozenset(each.key.removeprefix(self._keys.stales) for each in found.values)


# The distribution of the configuration under a lease: committed in etcd first, then copied in the background.
#
# Theory. The writer's thread commits the changed objects of a group of changes in one transaction, under the fence of
# this mastership, and goes on when a majority of etcd has them. Copies for the candidates are made as without a lease,
# and wait for nobody. What all candidates have is forgotten in etcd (`forgetting`).
#
# Source: DESIGN section 14.


@asynccontextmanager
async def committing_to_etcd(settings: Settings) -> AsyncIterator["LeaseDistribution"]:
    """The distribution of an installation with a lease, as long as the context lasts.

    The files of wconfd are brought up to what is in etcd before it begins.

    Raises: NoLongerMaster: this node does not hold the mastership, or has lost it. Unavailable: etcd does not reply.
        As `replaying.lay_over` and `distributing_to_nodes`.
    """
    held = await in_thread(read_held, settings.paths)
    if held is None:
        raise NoLongerMaster("this node does not hold the mastership")
    keys = EtcdKeys(settings.etcd.prefix)
    mastership = OwnMastershipState("wconfd")
    async with EtcdClient(EtcdAddress.of(settings)) as client, trio.open_nursery() as nursery:
        nursery.start_soon(client.ask_leader_first)
        commits = Commits(client, keys, held.grant.fence, held.deadline, writer="wconfd")
        await nursery.start(commits.run)
        cluster = ClusterFiles(commits, ConfigKeys(keys), mastership)
        await cluster.replay(settings.paths, takes_loss=held.grant.takes_loss)
        nursery.start_soon(mastership.until_lost)
        async with distributing_to_nodes(settings) as nodes:
            nursery.start_soon(Forgetting(cluster, nodes, client, keys).run)
            yield LeaseDistribution(nodes, cluster, held)
        nursery.cancel_scope.cancel()


@attrs.frozen
class LeaseDistribution(ConfigDistribution):
    """Commits to etcd, and copies to the nodes. For the writers' threads, and for the event loop that has made it."""

    _nodes: NodesDistribution
    _cluster: ClusterFiles
    held: HeldGrant
    _token: trio.lowlevel.TrioToken = attrs.Factory(trio.lowlevel.current_trio_token)

    def before(self, change: StateChange) -> None:
        self._run(self._cluster.commit, change)

    def take_back(self, change: StateChange) -> None:
        self._run(self._cluster.insist, change.reversed)
        if isinstance(change, ConfigChange):
            serial = change.after.config.serial_no
            _log.warning("commit.taken_back", serial=serial, reason="it could not be written here")

    def after(self, change: StateChange) -> None:
        self._nodes.after(change)

    async def spread(
        self, state: ConfigState, only: frozenset[NodeUuid] | None = None, *, anew: bool = False
    ) -> frozenset[NodeUuid]:
        return await self._nodes.spread(state, only, anew=anew)

    def behind(self) -> tuple[NodeBehind, ...]:
        return self._nodes.behind()

    async def check(self, *, asks: bool) -> tuple[ConfigVerdict, ...]:
        return await self._nodes.check(asks=asks)

    def work(self) -> ConfigCommits:
        done = self._cluster.commits.statistics()
        return ConfigCommits(
            commits=done.commits,
            failures=done.failures,
            retries=done.retries,
            waiting=done.waiting,
            uncopied=len(self._cluster.uncopied),
            durations=done.durations,
        )

    def _run(self, commit: Callable[[Sequence[KeyChange], int | None], Awaitable[None]], change: StateChange) -> None:
        serial_no = change.after.config.serial_no if isinstance(change, ConfigChange) else None
        changes = self._cluster.keys.of_change(change)
        trio.from_thread.run(commit, changes, serial_no, trio_token=self._token)
