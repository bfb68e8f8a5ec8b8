"""The distribution of the configuration to the other nodes, by calls of their daemons.

Theory. Each node has a follower of its own, so that one that hangs delays no other. A change that is durable here
is passed to `after`, which only notes it: the newest state is made into contents, beside the event loop, and the
followers send them, while later changes wait for no node. `spread` waits, within a bound, until each node has been
tried.

What the nodes have is not remembered: at its start a wconfd sends everything once. A node that is becoming the
master sends nothing before its configuration says so: until then the old master's may be newer.

Source: noded.md 8; wconfd.md 7.5 and 7.9; DESIGN section 12.
"""

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

import attrs
import trio

from common.nodes.mastership import own_epoch
from common.objects.config import Config
from common.objects.kinds import NodeUuid
from common.objects.ssconf import RELEASE_VERSION
from common.settings import Settings
from common.system.inthread import in_thread
from common.system.log import get_log
from common.system.shortages import retry_pauses
from daemons.wconfd.core.config.configstate import ConfigState
from daemons.wconfd.core.config.replicas import Part
from daemons.wconfd.distribution import ConfigChange, ConfigDistribution, LocalDistribution, RowsChange, StateChange
from daemons.wconfd.nodes.follower import (
    FOR_CANDIDATES,
    LOSSES,
    Beginning,
    ContentMaker,
    Contents,
    NodeClients,
    NodeFollower,
)
from protocol.noded.call import NodeAddress
from protocol.noded.clients.certificates import CertificateFiles
from protocol.noded.clients.client import NodeClient
from protocol.noded.clients.recipients import candidates, online_nodes
from protocol.noded.files import WireNames
from protocol.wconfd.config import NodeBehind
from protocol.wconfd.daemon import ConfigVerdict

# time for which a caller waits until all nodes were tried
PATIENCE_S: Final = 5.0
_log: Final = get_log(__name__)


@asynccontextmanager
async def distributing_to_nodes(settings: Settings) -> AsyncIterator["NodesDistribution"]:
    """The distribution of an installation of several nodes, as long as the context lasts.

    All calls bear the epoch of this node's mastership at the beginning: a later one is that of another master.

    Raises:
        InvalidRequest: Ganeti's variables for a virtual cluster contradict each other.
        DamagedFile: the epoch.
        NoLongerMaster: this node, or another, has seen another master since.
    """
    paths = settings.paths
    name = WireNames.of_installation(settings.root, os.environ).to_wire(paths.config_data)
    maker = ContentMaker(paths.config_data, name, settings.ganeti.release or RELEASE_VERSION)
    files, epoch = CertificateFiles.of(paths), own_epoch(paths.epoch_file, settings.cluster.own_name)
    async with (
        NodeClient(files, epoch=lambda: epoch) as usual,
        NodeClient(CertificateFiles(files.server, files.server), epoch=lambda: epoch) as first,
        trio.open_nursery() as nursery,
    ):
        local = LocalDistribution(paths, settings.ganeti.release)
        sender = Sender(settings.cluster.own_name, settings.noded.port)
        missing = frozenset(part for part in LOSSES if not paths.config_data.with_name(part.value).exists())
        clients, beginning = NodeClients(usual, first), Beginning(missing)
        yield NodesDistribution(local, maker, sender, clients, nursery, beginning)
        nursery.cancel_scope.cancel()


@attrs.frozen
class Sender:
    """This node, to which nothing is sent."""

    own_name: str
    # of all node daemons
    port: int

    def recipients(self, config: Config) -> Mapping[str, NodeAddress]:
        """The nodes that get something, by name."""
        master = config.nodes.get(config.cluster.master_node)
        own_name = self.own_name
        if master is not None and master.name != own_name:
            if any(node.name == own_name for node in config.nodes.values()):
                # this node is becoming the master
                return {}
            # this node has another name than the configuration gives it
            own_name = master.name
        return {node.name: node for node in online_nodes(config, self.port) if node.name != own_name}


class NodesDistribution(ConfigDistribution):
    """Sends config.data to the candidates and ssconf to all nodes that are online; this node's ssconf is written here.

    Args:
        nursery: runs the followers.
        beginning: before any file was written here.
    """

    def __init__(
        self,
        local: LocalDistribution,
        maker: ContentMaker,
        sender: Sender,
        clients: NodeClients,
        nursery: trio.Nursery,
        beginning: Beginning,
    ) -> None:
        self._beginning = beginning
        self._local = local
        self._maker = maker
        self._sender = sender
        self._clients = clients
        self._nursery = nursery
        self._token = trio.lowlevel.current_trio_token()
        self._newest: ConfigState | None = None
        # how often contents were ordered, and up to which order they were made
        self._orders = self._done = 0
        self._ordered = trio.Event()
        self._made = trio.Event()
        # by name
        self._followers: dict[str, NodeFollower] = {}
        # serial numbers of the contents of the configuration, by the numbers of these, from the oldest one in use
        self._serials: dict[int, int] = {}
        # the candidates that should have the configuration; None: not known yet, or not this node's to tell
        self._wanted: frozenset[str] | None = None
        self._progress = trio.Event()
        nursery.start_soon(self._make_contents)

    def after(self, change: StateChange) -> None:
        # the writer's thread need not wait for the event loop
        if isinstance(change, ConfigChange):
            self._token.run_sync_soon(self._begin_and_order, change.before, change.after)
        elif isinstance(change, RowsChange):
            self._token.run_sync_soon(self._order_again)

    async def spread(
        self, state: ConfigState, only: frozenset[NodeUuid] | None = None, *, anew: bool = False
    ) -> frozenset[NodeUuid]:
        left_out = await self._local.spread(state, only)
        order = self._order(state)
        with trio.move_on_after(PATIENCE_S):
            while self._done < order:
                await self._made.wait()
            await _attempt(list(self._followers_of(state, left_out).values()), anew=anew)
        followers = self._followers_of(state, left_out)
        online = {uuid for uuid in left_out if (node := state.config.nodes.get(uuid)) and not node.offline}
        is_made = self._done >= order
        return frozenset(uuid for uuid in online if not is_made or (uuid in followers and followers[uuid].is_behind))

    def behind(self) -> tuple[NodeBehind, ...]:
        found = (each.behind() for _, each in sorted(self._followers.items()))
        return tuple(each for each in found if each is not None)

    def copied_serial(self, without: frozenset[str]) -> int | None:
        """The serial number up to which all candidates have the configuration for sure; None: some may have none of it.

        Args: without: names of candidates for which nothing is kept.
        """
        if self._wanted is None or not self._serials:
            return None
        numbers = {max(self._serials)}
        for name in self._wanted - without:
            copied = self._followers[name].copied if name in self._followers else None
            if copied is None:
                return None
            numbers.add(copied)
        # one that was sent before a later state was made may be unknown: the node is about to get that
        return self._serials.get(min(numbers))

    @property
    def lagging(self) -> frozenset[str]:
        """The candidates that may lack the latest configuration, by name."""
        newest = max(self._serials, default=None)
        wanted = self._wanted or frozenset()
        return frozenset(
            name for name in wanted if name not in self._followers or self._followers[name].copied != newest
        )

    @property
    def progress(self) -> trio.Event:
        """Set when `copied_serial` may be another one than now."""
        return self._progress

    def _tell_progress(self) -> None:
        self._progress.set()
        self._progress = trio.Event()

    async def check(self, *, asks: bool) -> tuple[ConfigVerdict, ...]:
        followers = [each for _, each in sorted(self._followers.items())]
        if asks:
            async with trio.open_nursery() as nursery:
                for each in followers:
                    nursery.start_soon(each.check)
        return tuple(each.verdict for each in followers)

    def _followers_of(self, state: ConfigState, nodes: frozenset[NodeUuid]) -> dict[NodeUuid, NodeFollower]:
        named = {uuid: state.config.nodes[uuid].name for uuid in nodes if uuid in state.config.nodes}
        return {uuid: self._followers[name] for uuid, name in named.items() if name in self._followers}

    def _order_again(self) -> None:
        """Send the files that lie beside the configuration, too."""
        if self._newest is not None:
            self._order(self._newest)

    def _begin_and_order(self, before: ConfigState, after: ConfigState) -> None:
        self._begin(before)
        self._order(after)

    def _begin(self, state: ConfigState) -> None:
        if self._beginning.serial is None:
            self._beginning.serial = state.config.serial_no

    def _order(self, state: ConfigState) -> int:
        """Let the contents of this state be made, or of a newer one; return the number of the order."""
        self._begin(state)
        if self._newest is None or state.config.serial_no >= self._newest.config.serial_no:
            self._newest = state
        self._orders += 1
        self._ordered.set()
        return self._orders

    async def _make_contents(self) -> None:
        retries, told = retry_pauses(), ""
        while True:
            await self._ordered.wait()
            self._ordered = trio.Event()
            order, state = self._orders, self._newest
            assert state is not None, "an order has a state"
            try:
                contents = await in_thread(self._maker.make, state)
            except OSError as error:
                if str(error) != told:
                    told = str(error)
                    _log.error("config.not_copied", reason=error, going_on="again until it succeeds")
                self._ordered.set()
                await trio.sleep(next(retries))
                continue
            retries, told = retry_pauses(), ""
            self._aim(state, contents)
            self._done = order
            self._made.set()
            self._made = trio.Event()

    def _aim(self, state: ConfigState, contents: Contents) -> None:
        """Let each node that should have them get these contents."""
        config = state.config
        online = self._sender.recipients(config)
        with_file = {node.name for node in candidates(config, self._sender.port)}
        for name in [name for name, each in self._followers.items() if online.get(name) != each.node]:
            self._followers.pop(name).end()
        for name, node in online.items():
            if name not in self._followers:
                self._followers[name] = NodeFollower(node, self._clients, self._tell_progress, self._beginning)
                self._nursery.start_soon(self._followers[name].run)
            self._followers[name].aim(contents if name in with_file else _without_file(contents))
        self._note_serial(config, contents[Part.CONFIG].number)

    def _note_serial(self, config: Config, number: int) -> None:
        """Note what these contents are, and who should have them."""
        master = config.nodes.get(config.cluster.master_node)
        is_own = master is not None and master.name == self._sender.own_name
        self._wanted = frozenset(node.name for node in candidates(config)) if is_own else None
        self._serials[number] = config.serial_no
        in_use = [each.copied for each in self._followers.values()]
        oldest = min([number, *(copied for copied in in_use if copied is not None)])
        self._serials = {key: serial for key, serial in self._serials.items() if key >= oldest}
        self._tell_progress()


def _without_file(contents: Contents) -> Contents:
    return {part: content for part, content in contents.items() if part not in FOR_CANDIDATES}


async def _attempt(followers: Sequence[NodeFollower], *, anew: bool) -> None:
    """Wait until each node was tried."""
    if anew:
        for each in followers:
            each.hurry()
    async with trio.open_nursery() as nursery:
        for each in followers:
            nursery.start_soon(each.attempted)
