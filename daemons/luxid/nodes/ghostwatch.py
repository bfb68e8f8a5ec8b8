"""Lays the ghosts of jobs that are over, by the words of the nodes on which their commands ran.

Theory. A job that was killed, or given up as lost, while its node was silent leaves a ghost, which keeps its locks
until the node has told the end of its command. Nobody but this task asks for it. A ghost of a job that goes on is its
next process's affair, and is left alone.

A node with ghosts has a task of its own, as long as it has any; one that does not reply is asked again after growing
pauses, or as soon as the configuration changes. Beside that all nodes are asked now and then for commands of jobs that
have ended, which are stopped and forgotten: a job process may have had no time for it.

Source: DESIGN sections 13 and 14.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import attrs
import trio

from common.errors import GantryError
from common.ids import JobId
from common.queue.jobs import FINAL
from common.queue.tries import tries_of
from common.system.log import get_log
from daemons.luxid.config.configcache import ConfigCache
from daemons.luxid.core.ghosts.rounds import Concern
from daemons.luxid.jobs.livejobs import LiveJobs
from daemons.luxid.nodes.noderounds import NodeRounds, NodeSilent
from protocol.client import Client
from protocol.noded.clients.client import NodeClient
from protocol.noded.clients.nodes import NodeAddress
from protocol.noded.names import attempt_of_key, job_of_key, op_of_key
from protocol.wconfd.ghosts import Ghost, ListGhosts

# seconds between two attempts at a node that does not reply; they double
FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 30.0
# seconds within which nodes must say what runs there, when the master has moved
_ASK_S: Final = 5.0
# seconds between two looks at the commands of all nodes
_SWEEP_S: Final = 3600.0
# as long as the configuration cannot be had
_SWEEP_AGAIN_S: Final = 30.0
_SWEPT_AT_ONCE: Final = 8
_EFFECT: Final = "locks are kept until it tells that these commands have ended, or 'gantry fenced' that it is down"
_log: Final = get_log(__name__)


@attrs.define(eq=False)
class _Haunted:
    """A node with guards of ghosts."""

    # keys of the guards
    keys: frozenset[str] = frozenset()
    news: trio.Event = attrs.Factory(trio.Event)

    def tell(self) -> None:
        """Something has changed that its task should look at."""
        self.news.set()
        self.news = trio.Event()


class GhostWatch:
    """The ghosts as wconfd tells them, and the tasks at their nodes; start `run`.

    Args:
        wconfd: a client of its own.
        port: of node daemons.
        on_ghosts: called with the jobs that have ghosts, whenever that may have changed.
    """

    def __init__(
        self,
        jobs: LiveJobs,
        config: ConfigCache,
        client: NodeClient,
        wconfd: Client,
        port: int,
        on_ghosts: Callable[[frozenset[JobId]], None] = lambda _: None,
    ) -> None:
        self._on_ghosts = on_ghosts
        self._jobs = jobs
        self._config = config
        self._client = client
        self._wconfd = wconfd
        self._port = port
        self._concern = Concern(self.is_over, self._ends_kept)
        self._nodes: dict[str, _Haunted] = {}
        # None: they are to be listed
        self._ghosts: tuple[Ghost, ...] | None = None
        self._has_news = trio.Event()
        # keys of jobs that go on, whose ends are awaited
        self._awaited: set[str] = set()
        # jobs whose left processes are to be ended as well
        self._to_end: set[JobId] = set()

    # what happens

    def told(self, ghosts: tuple[Ghost, ...] | None) -> None:
        """These are the ghosts now; None: that is not known."""
        self._ghosts = ghosts
        self._has_news.set()

    def config_changed(self) -> None:
        """A silent node may have got another address, or have been marked online."""
        for haunted in self._nodes.values():
            haunted.tell()

    def end_left(self, job_id: JobId) -> bool:
        """End what an ended job has left running on nodes under its locks, too; return false if there is nothing."""
        nodes = [each for each in self._nodes.values() if any(job_of_key(key) == job_id for key in each.keys)]
        for haunted in nodes:
            self._to_end.add(job_id)
            haunted.tell()
        return bool(nodes)

    async def running_at(self, nodes: Iterable[str]) -> Mapping[str, frozenset[str]]:
        """The keys that have processes at each of these nodes; those that give no reply within a while are left out."""
        running: dict[str, frozenset[str]] = {}

        async def ask(name: str) -> None:
            try:
                index = await self._config.current()
                node = index.node_named(name)
                told = await self._rounds(node.name if node is not None else name).list_commands()
            except (NodeSilent, GantryError) as silence:
                _log.warning("node.silent", node=name, reason=silence, effect="its jobs claim their locks last")
            else:
                running[name] = frozenset(key for key, phase in told.items() if phase.may_run)

        with trio.move_on_after(_ASK_S):
            async with trio.open_nursery() as nursery:
                for name in frozenset(nodes):
                    nursery.start_soon(ask, name)
        return running

    # what follows

    async def run(self) -> None:
        """Lay ghosts until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._sweep_now_and_then)
            while True:
                await self._has_news.wait()
                self._has_news = trio.Event()
                if self._ghosts is None:
                    self._ghosts = await self._listed()
                owners = (ghost.owner.ident for ghost in self._ghosts)
                self._on_ghosts(frozenset(JobId(ident) for ident in owners if isinstance(ident, int)))
                self._follow(self._ghosts, nursery)

    async def _listed(self) -> tuple[Ghost, ...]:
        for pause_s in _pauses():
            try:
                return await self._wconfd.call(ListGhosts())
            except GantryError as error:
                _log.warning("ghosts.not_listed", reason=error, retry_s=pause_s)
            await trio.sleep(pause_s)
        raise AssertionError("pauses never end")

    def _follow(self, ghosts: Iterable[Ghost], nursery: trio.Nursery) -> None:
        guards: dict[str, set[str]] = {}
        for ghost in ghosts:
            for guard in ghost.guards:
                guards.setdefault(guard.node, set()).add(guard.key)
        for node, keys in guards.items():
            if node not in self._nodes:
                self._nodes[node] = _Haunted()
                nursery.start_soon(self._serve, node, self._nodes[node])
            for key in keys - self._awaited:
                if not self.is_over(key):
                    self._awaited.add(key)
                    nursery.start_soon(self._until_over, node, key)
        for node, haunted in self._nodes.items():
            haunted.keys = frozenset(guards.get(node, ()))
            haunted.tell()

    async def _until_over(self, node: str, key: str) -> None:
        """Tell the node's task when the opcode of this key is over."""
        with self._jobs.bells.listen(JobId(job_of_key(key))) as bell:
            while not self.is_over(key):
                await bell.wait()
        self._awaited.discard(key)
        if (haunted := self._nodes.get(node)) is not None:
            haunted.tell()

    # one node

    async def _serve(self, node: str, haunted: _Haunted) -> None:
        """Lay the ghosts of a node, until there are none."""
        rounds, pauses, told = self._rounds(node), _pauses(), ""
        while haunted.keys:
            news = haunted.news
            try:
                await self._lay(rounds, haunted)
                pauses, told = _pauses(), ""
            except NodeSilent as silence:
                if str(silence) != told:
                    told, count = str(silence), len(haunted.keys)
                    _log.warning("ghosts.node_silent", node=node, reason=silence, commands=count, effect=_EFFECT)
                with trio.move_on_after(next(pauses)):
                    await news.wait()
        del self._nodes[node]

    async def _lay(self, rounds: NodeRounds, haunted: _Haunted) -> None:
        """Lay the ghosts of jobs that are over, and wait for something new. Raises: NodeSilent."""
        news = haunted.news
        if not any(map(self.is_over, haunted.keys)):
            await news.wait()
            return
        done = await rounds.round(haunted.keys)
        haunted.keys -= {key for keys in done.laid.values() for key in keys}
        if done.follow:
            await rounds.until_news(done.follow, news)

    # all nodes

    async def _sweep_now_and_then(self) -> None:
        """Stop and forget commands of jobs that have ended, at all nodes; now, and every hour."""
        while True:
            pause_s = _SWEEP_S if await self._sweep() else _SWEEP_AGAIN_S
            await trio.sleep(pause_s)

    async def _sweep(self) -> bool:
        """False: it is not known which nodes there are."""
        try:
            index = await self._config.current()
        except GantryError as error:
            _log.warning("nodes.not_swept", reason=error, retry_s=_SWEEP_AGAIN_S)
            return False
        turns = trio.CapacityLimiter(_SWEPT_AT_ONCE)
        async with trio.open_nursery() as nursery:
            for node in index.nodes:
                if not node.offline:
                    nursery.start_soon(self._sweep_node, node.name, turns)
        _log.info("nodes.swept", nodes=len(index.nodes))
        return True

    async def _sweep_node(self, node: str, turns: trio.CapacityLimiter) -> None:
        async with turns:
            try:
                await self._rounds(node).round(frozenset())
            except NodeSilent as silence:
                # Ganeti's node daemons know no commands
                _log.debug("node.not_swept", node=node, reason=silence)

    # what is known here

    def is_over(self, key: str) -> bool:
        """Whether the opcode of a key has ended, or there is no such job, or a later try of the opcode has its turn."""
        job_id, index = JobId(job_of_key(key)), op_of_key(key)
        if self._jobs.phase(job_id) is None:
            return True
        ops = self._jobs.unended(job_id).ops
        return index >= len(ops) or ops[index].state in FINAL or attempt_of_key(key) <= len(tries_of(ops[index]))

    def _ends_kept(self, key: str) -> bool:
        return job_of_key(key) in self._to_end

    def _rounds(self, node: str) -> NodeRounds:
        return NodeRounds(node, self._client, self._wconfd, self._address, self._concern)

    async def _address(self, node: str) -> NodeAddress | None:
        try:
            index = await self._config.current()
        except GantryError as error:
            raise NodeSilent(f"the configuration cannot be read: {error.message}") from error
        found = next((each for each in index.nodes if each.name == node), None)
        return None if found is None else NodeAddress(node, found.primary_ip, self._port, offline=found.offline)


def _pauses() -> Iterator[float]:
    pause_s = FIRST_PAUSE_S
    while True:
        yield pause_s
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
