"""Locks kept for commands on nodes: claimed under a new master, released once the nodes report the commands' ends."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Final, TypeVar

import attrs
import trio

from common.durable.atomicfile import write_file
from common.durable.durably import durably
from common.errors import DamagedFile, GantryError
from common.ids import JobId
from common.nodes.mastership import own_epoch, read_seen
from common.queue.jobs import FINAL, Job
from common.queue.reasons import tries_of
from common.settings import Settings
from common.system.inthread import in_thread
from common.system.log import get_log
from common.system.shortages import retry_pauses
from daemons.luxid.config import ConfigCache
from daemons.luxid.core.orphans import Concern, Round, claim_of, claim_order, round_at
from daemons.luxid.jobs import LiveJobs
from daemons.luxid.parts import EarlyParts
from protocol.client import Client
from protocol.noded.call import Failed, NodeAddress, NodeCall, Replied
from protocol.noded.clients.certificates import CertificateFiles
from protocol.noded.clients.client import NodeClient
from protocol.noded.commands import (
    LONGEST_WAIT_S,
    MOST_COMMANDS,
    CommandPhase,
    FollowCommand,
    ForgetCommands,
    ListCommands,
    StopCommand,
)
from protocol.noded.statefiles import attempt_of_key, job_of_key, op_of_key
from protocol.wconfd.locks import Claim, ClaimLocks, ListOrphanedLocks, OrphanedLocks, ReleaseKeptLocks

# Rounds at one node: its commands are listed, those of jobs that are over are stopped, their orphaned locks released.
#
# Source: DESIGN sections 13 and 14; `daemons.luxid.core.orphans` decides.


# commands of one node whose ends are waited for at a time; with more of them, each wait is short
_FOLLOWED: Final = 8
_SHORT_WAIT_S: Final = 5.0
# a byte that no output reaches: only phases are of interest
_NO_OUTPUT: Final = 2**62
# seconds for wconfd to come back
_WCONFD_S: Final = 30.0
R = TypeVar("R")
_log: Final = get_log(__name__)


class NodeSilent(Exception):
    """A call to the node, or wconfd's reply about it, has failed; the text says why."""


class NodeRounds:
    """The rounds at a node, one after the other.

    Args:
        address: returns the node's address; None: the configuration does not know the node.
    """

    def __init__(
        self,
        node: str,
        client: NodeClient,
        wconfd: Client,
        address: Callable[[str], Awaitable[NodeAddress | None]],
        concern: Concern,
    ) -> None:
        self._node = node
        self._client = client
        self._wconfd = wconfd
        self._address = address
        self._concern = concern
        # keys that were asked to stop since the node last failed to reply
        self._stopped: set[str] = set()

    async def round(self, orphans: AbstractSet[str]) -> Round:
        """List, stop, release, forget; returns what was done, with what is to be waited for.

        Args: orphans: keys of commands that keep orphaned locks, at this node.
        Raises: NodeSilent: it is not known what has become of the rest.
        Durability: locks that were released stay so.
        """
        try:
            told = await self.list_commands()
            await self._stop(round_at(orphans, told, self._stopped, self._concern).stop, told)
            done = round_at(orphans, told, self._stopped, self._concern)
            await self._release(done.ended)
            await self._forget(done.forget)
        except NodeSilent:
            # it may be another life of the node that replies next
            self._stopped.clear()
            raise
        return done

    async def until_news(self, follow: Mapping[str, CommandPhase], news: trio.Event) -> None:
        """Return when one of these commands is in another phase, or there is other news, or after a while.

        Raises: NodeSilent: one of the calls has failed.
        """
        keys = list(follow)[:_FOLLOWED]
        wait_s = LONGEST_WAIT_S if len(follow) <= _FOLLOWED else _SHORT_WAIT_S
        failures: list[NodeSilent] = []

        async def wait(key: str) -> None:
            try:
                news = await self._call(FollowCommand(key, _NO_OUTPUT, _NO_OUTPUT, follow[key], wait_s))
                if news.state.phase is follow[key]:
                    # the signal had no effect, or was not delivered: the next round sends it again
                    self._stopped.discard(key)
            except NodeSilent as error:
                failures.append(error)
            nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            for key in keys:
                nursery.start_soon(wait, key)
            await news.wait()
            nursery.cancel_scope.cancel()
        if failures:
            self._stopped.clear()
            raise failures[0]

    async def list_commands(self) -> dict[str, CommandPhase]:
        """All commands that the node knows. Raises: NodeSilent."""
        told: dict[str, CommandPhase] = {}
        last = ""
        while True:
            page = await self._call(ListCommands(last))
            told.update({state.key: state.phase for state in page})
            if len(page) < MOST_COMMANDS:
                return told
            last = max(state.key for state in page)

    async def _stop(self, keys: Sequence[str], told: dict[str, CommandPhase]) -> None:
        for key in keys:
            told[key] = (await self._call(StopCommand(key))).phase
            self._stopped.add(key)
            _log.info("command.stopped", node=self._node, command=key, phase=told[key].value)

    async def _release(self, released: Mapping[str, tuple[str, ...]]) -> None:
        for word, keys in released.items():
            try:
                await self._wconfd.call_retrying(ReleaseKeptLocks(keys, f"node {self._node}: {word}"), _WCONFD_S)
            except GantryError as error:
                raise NodeSilent(f"wconfd cannot be told that {', '.join(keys[:3])} ended: {error.message}") from error
            _log.info("locks.released", node=self._node, commands=",".join(keys), word=word)

    async def _forget(self, keys: Sequence[str]) -> None:
        for start in range(0, len(keys), MOST_COMMANDS):
            await self._call(ForgetCommands(tuple(keys[start : start + MOST_COMMANDS])))

    async def _call(self, call: NodeCall[R]) -> R:
        """Raises: NodeSilent."""
        address = await self._address(self._node)
        if address is None:
            raise NodeSilent("the configuration does not know the node")
        outcome = (await self._client.call_nodes([address], call, even_paused=True))[address.name]
        if isinstance(outcome, Replied):
            return outcome.value
        raise NodeSilent(outcome.text if isinstance(outcome, Failed) else "the node is marked offline")


# Releases the locks kept for ended jobs on silent nodes, once those nodes report that the commands have ended.
#
# Theory. A job that was killed, or given up as lost, while its node was silent leaves orphaned locks, which are
# kept until the node has told the end of its command. Nobody but this task asks for it. Those of a job that goes on are
# its next process's affair, and are left alone.
#
# A node whose commands keep orphaned locks has a task of its own; one that does not reply is asked again after growing
# pauses, or as soon as the configuration changes. Beside that all nodes are asked now and then for commands of jobs
# that have ended, which are stopped and forgotten: a job process may have had no time for it.
#
# Source: DESIGN sections 13 and 14.


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


@attrs.define(eq=False)
class _NodeWithOrphans:
    """A node whose commands keep orphaned locks."""

    # keys of the commands
    keys: frozenset[str] = frozenset()
    news: trio.Event = attrs.Factory(trio.Event)

    def tell(self) -> None:
        """Something has changed that its task should look at."""
        self.news.set()
        self.news = trio.Event()


class OrphanWatch:
    """The orphaned locks as wconfd tells them, and the tasks at their nodes; start `run`.

    Args:
        wconfd: a client of its own.
        port: of node daemons.
        on_orphans: called with the jobs that have orphaned locks, whenever that may have changed.
    """

    def __init__(
        self,
        jobs: LiveJobs,
        config: ConfigCache,
        client: NodeClient,
        wconfd: Client,
        port: int,
        on_orphans: Callable[[frozenset[JobId]], None] = lambda _: None,
    ) -> None:
        self._on_orphans = on_orphans
        self._jobs = jobs
        self._config = config
        self._client = client
        self._wconfd = wconfd
        self._port = port
        self._concern = Concern(self.is_over, self._ends_kept)
        self._nodes: dict[str, _NodeWithOrphans] = {}
        # None: they are to be listed
        self._orphans: tuple[OrphanedLocks, ...] | None = None
        self._has_news = trio.Event()
        # keys of jobs that go on, whose ends are awaited
        self._awaited: set[str] = set()
        # jobs whose left processes are to be ended as well
        self._to_end: set[JobId] = set()

    # what happens

    def told(self, orphans: tuple[OrphanedLocks, ...] | None) -> None:
        """These are the orphaned locks now; None: that is not known."""
        self._orphans = orphans
        self._has_news.set()

    def config_changed(self) -> None:
        """A silent node may have got another address, or have been marked online."""
        for of_node in self._nodes.values():
            of_node.tell()

    def end_left(self, job_id: JobId) -> bool:
        """End what an ended job has left running on nodes under its locks, too; return false if there is nothing."""
        nodes = [each for each in self._nodes.values() if any(job_of_key(key) == job_id for key in each.keys)]
        for of_node in nodes:
            self._to_end.add(job_id)
            of_node.tell()
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
        """Release orphaned locks until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._sweep_now_and_then)
            while True:
                await self._has_news.wait()
                self._has_news = trio.Event()
                if self._orphans is None:
                    self._orphans = await self._listed()
                owners = (orphan.owner.ident for orphan in self._orphans)
                self._on_orphans(frozenset(JobId(ident) for ident in owners if isinstance(ident, int)))
                self._follow(self._orphans, nursery)

    async def _listed(self) -> tuple[OrphanedLocks, ...]:
        for pause_s in _pauses():
            try:
                return await self._wconfd.call(ListOrphanedLocks())
            except GantryError as error:
                _log.warning("orphaned_locks.not_listed", reason=error, retry_s=pause_s)
            await trio.sleep(pause_s)
        raise AssertionError("pauses never end")

    def _follow(self, orphans: Iterable[OrphanedLocks], nursery: trio.Nursery) -> None:
        commands: dict[str, set[str]] = {}
        for orphan in orphans:
            for command in orphan.commands:
                commands.setdefault(command.node, set()).add(command.key)
        for node, keys in commands.items():
            if node not in self._nodes:
                self._nodes[node] = _NodeWithOrphans()
                nursery.start_soon(self._serve, node, self._nodes[node])
            for key in keys - self._awaited:
                if not self.is_over(key):
                    self._awaited.add(key)
                    nursery.start_soon(self._until_over, node, key)
        for node, of_node in self._nodes.items():
            of_node.keys = frozenset(commands.get(node, ()))
            of_node.tell()

    async def _until_over(self, node: str, key: str) -> None:
        """Tell the node's task when the opcode of this key is over."""
        with self._jobs.changes.listen(JobId(job_of_key(key))) as broadcast:
            while not self.is_over(key):
                await broadcast.wait()
        self._awaited.discard(key)
        if (of_node := self._nodes.get(node)) is not None:
            of_node.tell()

    # one node

    async def _serve(self, node: str, of_node: _NodeWithOrphans) -> None:
        """Release the orphaned locks that commands on a node keep, until there are none."""
        rounds, pauses, told = self._rounds(node), _pauses(), ""
        while of_node.keys:
            news = of_node.news
            try:
                await self._release(rounds, of_node)
                pauses, told = _pauses(), ""
            except NodeSilent as silence:
                if str(silence) != told:
                    told, count = str(silence), len(of_node.keys)
                    _log.warning(
                        "orphaned_locks.node_silent", node=node, reason=silence, commands=count, effect=_EFFECT
                    )
                with trio.move_on_after(next(pauses)):
                    await news.wait()
        del self._nodes[node]

    async def _release(self, rounds: NodeRounds, of_node: _NodeWithOrphans) -> None:
        """Release the orphaned locks of jobs that are over, and wait for something new. Raises: NodeSilent."""
        news = of_node.news
        if not any(map(self.is_over, of_node.keys)):
            await news.wait()
            return
        done = await rounds.round(of_node.keys)
        of_node.keys -= {key for keys in done.ended.values() for key in keys}
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


# Claim what jobs held under an earlier master, before anything is started under this one.
#
# Theory. The jobs found with a command under way, and no process, have orphaned locks in a wconfd that knew them; that
# of a new master knows nothing. Luxid tells it before it starts any job and before any of these is taken up or ended,
# so that their locks are not free for a moment. A claim of known commands changes nothing, so luxid need not know
# whether the master is new.
#
# For `on_failover` it must: this node's last epoch as master is noted in a file, after the jobs that end by a failover
# have ended.
#
# Source: DESIGN section 14, "New master".


# obstacle to starts
CLAIMING: Final = "locks of commands on nodes are not yet claimed"
_MODE: Final = 0o640


class Claiming:
    """Claims the locks of jobs that were found with a command under way."""

    def __init__(self, jobs: LiveJobs, config: ConfigCache, wconfd: Client) -> None:
        self._jobs = jobs
        self._config = config
        self._wconfd = wconfd

    async def claim_locks(self, jobs: Sequence[Job]) -> None:
        """Return when wconfd has all claims durably; tries until it has.

        A job whose claim is refused is taken up all the same, and waits for its locks.
        """
        told = ""
        for pause_s in retry_pauses():
            try:
                refused = await self._wconfd.call(ClaimLocks(await self._claims(jobs)))
            except GantryError as error:
                if error.message != told:
                    told, effect = error.message, "no job is started until it succeeds"
                    _log.error("locks.not_claimed", reason=error, effect=effect, retry_s=pause_s)
                await trio.sleep(pause_s)
                continue
            _log.info("locks.claimed", jobs=len(jobs), refused=len(refused))
            for owner in refused:
                effect = "another owner has its locks; it waits for them, and its command may run meanwhile"
                _log.error("claim.refused", job=owner.ident, effect=effect)
            return

    async def _claims(self, jobs: Sequence[Job]) -> tuple[Claim, ...]:
        """Raises: GantryError: the configuration cannot be read."""
        index = await self._config.current()
        found = ((job, self._jobs.work_left(job)) for job in jobs)
        return tuple(claim_of(job, work, index) for job, work in found if work is not None)


class LastEpoch:
    """The epoch with which this node was the master last.

    Args:
        seen: file with the highest epoch that this node has seen; here that is its own.
        note: file that is only luxid's.
    """

    def __init__(self, seen: Path, note: Path) -> None:
        self._seen = seen
        self._note = note

    async def has_changed(self) -> bool:
        """Whether this node has become the master since the last `keep`. Raises: OSError, DamagedFile."""
        return await in_thread(lambda: read_seen(self._seen).number != read_seen(self._note).number)

    async def keep(self) -> None:
        """Note the present epoch. Durability: on return. Raises: OSError, DamagedFile."""
        await in_thread(self._keep)

    def _keep(self) -> None:
        number = read_seen(self._seen).number
        durably(lambda: write_file(self._note, f"{number}\n".encode(), mode=_MODE))


# Orphaned locks, from the first moment of a luxid on: claimed if the master has moved, then released by the words of
# nodes.
#
# Source: DESIGN sections 13 and 14.


class OrphanParts:
    """What luxid does about orphaned locks; call `begin` first."""

    def __init__(self, settings: Settings, early: EarlyParts) -> None:
        paths, parts = settings.paths, early.parts
        self._paths = paths
        self._own_name = settings.cluster.own_name
        self._jobs, self._scheduler = parts.jobs, parts.scheduler
        self._epoch: int | None = None
        self._client = NodeClient(CertificateFiles.of(paths), epoch=lambda: self._epoch)
        wconfd = Client(paths.wconfd_socket, daemon="wconfd")
        self._claiming_locks = Claiming(parts.jobs, early.config, wconfd)
        self._last_epoch = LastEpoch(paths.epoch_file, paths.last_epoch)
        self.watch = OrphanWatch(
            parts.jobs, early.config, self._client, wconfd, settings.noded.port, parts.left.orphans_told
        )

    def begin(self, found: Iterable[Job], raised: trio.Event, nursery: trio.Nursery) -> None:
        """Start no job before the locks of these are claimed.

        Args:
            found: jobs whose processes died before this luxid began.
            raised: is set when that is done; none of them may be taken up or ended before.
        """
        orphans = [job for job in found if self._jobs.work_left(job) is not None]
        if orphans:
            self._scheduler.obstruct(CLAIMING)
        nursery.start_soon(self._run, orphans, raised)

    async def _run(self, orphans: Sequence[Job], raised: trio.Event) -> None:
        """Raises: NoLongerMaster: this node has seen another master. DamagedFile, OSError: the epoch cannot be read."""
        self._epoch = await in_thread(own_epoch, self._paths.epoch_file, self._own_name)
        has_moved = await self._has_moved()
        async with self._client, trio.open_nursery() as nursery:
            if orphans:
                for job in orphans:
                    self._jobs.processes.record(job.job_id).has_moved = has_moved
                await self._claiming_locks.claim_locks(await self._claiming(orphans) if has_moved else orphans)
            raised.set()
            self._scheduler.clear(CLAIMING)
            self.watch.told(None)
            nursery.start_soon(self.watch.run)
            if has_moved:
                await self._until_ended(job.job_id for job in orphans if self._ends_on_failover(job))
                await self._keep_epoch()

    async def _claiming(self, orphans: Sequence[Job]) -> Sequence[Job]:
        """Those whose commands may run, in the order of their claims."""
        works = {job.job_id: work for job in orphans if (work := self._jobs.work_left(job)) is not None}
        running = await self.watch.running_at(work.node for work in works.values())
        by_id = {job.job_id: job for job in orphans}
        return [by_id[job_id] for job_id in claim_order(works, running)]

    def _ends_on_failover(self, job: Job) -> bool:
        work = self._jobs.work_left(job)
        return work is not None and work.ends_on_failover

    async def _until_ended(self, job_ids: Iterable[JobId]) -> None:
        for job_id in job_ids:
            with self._jobs.changes.listen(job_id) as broadcast:
                while self._jobs.phase(job_id) is not None:
                    await broadcast.wait()

    async def _has_moved(self) -> bool:
        try:
            return await self._last_epoch.has_changed()
        except (OSError, DamagedFile) as error:
            effect = "no command is ended for a move of the master"
            _log.error("epoch.not_compared", file=self._paths.last_epoch, reason=error, effect=effect)
            return False

    async def _keep_epoch(self) -> None:
        try:
            await self._last_epoch.keep()
        except (OSError, DamagedFile) as error:
            effect = "the next luxid takes its start for a move of the master"
            _log.error("epoch.not_kept", file=self._paths.last_epoch, reason=error, effect=effect)
