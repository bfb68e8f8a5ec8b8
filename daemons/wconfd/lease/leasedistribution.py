"""The distribution of the configuration under a lease: committed in etcd first, then copied in the background.

Theory. The writer's thread commits the changed objects of a group of changes in one transaction, under the fence of
this mastership, and goes on when a majority of etcd has them. Copies for the candidates are made as without a lease,
and wait for nobody. What all candidates have is forgotten in etcd (`forgetting`).

Source: DESIGN section 14.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

import attrs
import trio

from common.lease.dirty import Change
from common.lease.holding import Held, read_held
from common.lease.keys import Keys
from common.metrics.commitwork import CommitWork
from common.objects.kinds import NodeUuid
from common.replication import NoLongerMaster
from common.settings import Settings
from common.system.inthread import in_thread
from common.system.log import get_log
from common.system.mastership import Mastership
from daemons.wconfd.core.config.configstate import ConfigState
from daemons.wconfd.distribution import ConfigChange
from daemons.wconfd.lease.clusterfiles import ClusterFiles
from daemons.wconfd.lease.configkeys import ConfigKeys
from daemons.wconfd.lease.forgetting import Forgetting
from daemons.wconfd.nodes.nodesdistribution import NodesDistribution, distributing_to_nodes
from protocol.etcd.address import EtcdAddress
from protocol.etcd.client import EtcdClient
from protocol.etcd.fenced.commitnumbers import work_of
from protocol.etcd.fenced.commits import Commits
from protocol.wconfd.config import NodeBehind
from protocol.wconfd.copies import ConfigVerdict

_log: Final = get_log(__name__)


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
    keys = Keys(settings.etcd.prefix)
    mastership = Mastership("wconfd")
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
class LeaseDistribution:
    """Commits to etcd, and copies to the nodes. For the writers' threads, and for the event loop that has made it."""

    _nodes: NodesDistribution
    _cluster: ClusterFiles
    held: Held
    _token: trio.lowlevel.TrioToken = attrs.Factory(trio.lowlevel.current_trio_token)

    def commit_first(self, change: ConfigChange) -> None:
        changes = self._cluster.keys.of_change(change)
        self._run(self._cluster.commit, changes, change.after.config.serial_no)

    def take_back(self, change: ConfigChange) -> None:
        changes = self._cluster.keys.of_return(change)
        self._run(self._cluster.insist, changes, change.before.config.serial_no)
        _log.warning("commit.taken_back", serial=change.after.config.serial_no, reason="it could not be written here")

    def commit_reservations(self, content: bytes) -> None:
        """Commit the content of the file of reservations before it is written; in its writer's thread.

        Raises: as `commit_first`.
        """
        self._run(self._cluster.commit, [self._cluster.keys.of_reservations(content)], None)

    def take_back_reservations(self, content: bytes) -> None:
        """Undo `commit_reservations`. Args: content: that of the file. Raises: NoLongerMaster."""
        self._run(self._cluster.insist, [self._cluster.keys.of_reservations(content)], None)

    def commit_rows(self, file: str, rows: Mapping[str, bytes | None]) -> None:
        """Commit changed rows of a file of ours before it is written; in its writer's thread.

        Raises: as `commit_first`.
        """
        self._run(self._cluster.commit, self._cluster.keys.of_rows(file, rows), None)

    def take_back_rows(self, file: str, rows: Mapping[str, bytes | None]) -> None:
        """Undo `commit_rows`. Args: rows: as the file has them. Raises: NoLongerMaster."""
        self._run(self._cluster.insist, self._cluster.keys.of_rows(file, rows), None)

    def files_changed(self) -> None:
        """Send the files that lie beside the configuration, too; in the event loop."""
        self._nodes.files_changed()

    def commit(self, before: ConfigState, after: ConfigState) -> None:
        self._nodes.commit(before, after)

    async def spread(
        self, state: ConfigState, only: frozenset[NodeUuid] | None = None, *, anew: bool = False
    ) -> frozenset[NodeUuid]:
        return await self._nodes.spread(state, only, anew=anew)

    def behind(self) -> tuple[NodeBehind, ...]:
        return self._nodes.behind()

    async def check(self, *, asks: bool) -> tuple[ConfigVerdict, ...]:
        return await self._nodes.check(asks=asks)

    def work(self) -> CommitWork:
        """The numbers of commits, for graphs and alerts."""
        return work_of(self._cluster.commits, len(self._cluster.uncopied))

    def _run(
        self,
        commit: Callable[[Sequence[Change], int | None], Awaitable[None]],
        changes: Sequence[Change],
        serial_no: int | None,
    ) -> None:
        trio.from_thread.run(commit, changes, serial_no, trio_token=self._token)
