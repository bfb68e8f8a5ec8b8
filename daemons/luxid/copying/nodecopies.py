"""Copies of the queue on the master candidates: the way `nodes` of `common.replication`.

Theory. Each candidate has a backlog and a task that sends it (`sending`). A change is noted in all backlogs; then its
caller waits until each candidate that can be reached has it, or for `ATTEMPT_S`, and goes on in any case. A candidate
that has made a change wait so long is not waited for again until it has everything: a node that hangs costs that once.
A change that was under way while this process was stopped counts only when the nodes were asked (`stops`).

What changed while luxid was not running is found by comparing the files when a candidate is first seen. What a
candidate has beyond the master is taken away only if the master has removed it; else it is set aside there (`beyond`).

Source: noded.md 8; DESIGN section 12.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

import trio

from common.durable.atomicfile import FileWrite
from common.errors import GantryError, Unavailable, explain_os_error
from common.nodes.epochs import own_epoch
from common.objects.index import ConfigIndex
from common.paths import Paths
from common.places.queuepaths import WAITS_FILE_JOBS
from common.replication import NoLongerMaster
from common.system.inthread import in_thread
from common.system.log import get_log
from daemons.luxid.copying.beyond import set_aside
from daemons.luxid.copying.calls import QueueCalls
from daemons.luxid.copying.candidates import candidates
from daemons.luxid.copying.checking import check
from daemons.luxid.copying.comparison import lost_on
from daemons.luxid.copying.copiedfiles import CopiedFiles
from daemons.luxid.copying.copyrules import CopyRules
from daemons.luxid.copying.line import NotSent
from daemons.luxid.copying.purgeturn import PurgeTurn
from daemons.luxid.copying.senderevents import NOBODY, SenderEvents
from daemons.luxid.copying.sending import NodeSender
from daemons.luxid.copying.standing import not_copied, verdict_of
from daemons.luxid.copying.stops import Stops
from daemons.luxid.core.copies.backlog import Backlog, Key, StateName
from protocol.luxi.cluster import QueueLag
from protocol.luxi.daemon.copies import QueueVerdict
from protocol.noded.clients.certificates import CertificateFiles
from protocol.noded.clients.client import NodeClient
from protocol.noded.clients.nodes import NodeAddress
from protocol.noded.clients.outcomes import Failed, FailureKind
from protocol.noded.commands import ListCommands
from protocol.noded.membership import Version
from protocol.noded.names import WAITS, job_of_key, original_name
from protocol.noded.statefiles import ReadStateFiles
from protocol.noded.virtualpaths import WireNames

# seconds that a change waits for the attempt to copy it
ATTEMPT_S: Final = 1.0
# seconds that a check may take
CHECK_S: Final = 120.0
# files that are read from a candidate in one call
READ_AT_ONCE: Final = 20
# limit of the question who is the master, after a stop of this process
ASK_S: Final = 5.0
K = TypeVar("K", bound=Key)
_log: Final = get_log(__name__)


class NodeCopies:
    """Implements `common.replication.Copies`; start `run`, and call `follow` with each configuration.

    Args: told: hears what candidates have got.
    """

    def __init__(self, paths: Paths, names: WireNames, rules: CopyRules, told: SenderEvents = NOBODY) -> None:
        self._paths = paths
        self._calls = QueueCalls(paths, names)
        self._rules = rules
        self._told = told
        self._senders: dict[str, NodeSender] = {}
        self._has_followed = False
        self._number = 0
        self._files = CopiedFiles(paths)
        self._turn_to_purge = PurgeTurn()
        self._is_outdated = trio.Event()
        # why this node is not the master; empty: it is, as far as is known
        self._other_master = ""
        self._stops = Stops(self._ask_for_master)
        self._client: NodeClient | None = None
        self._nursery: trio.Nursery | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Send in the background, until cancelled; for `nursery.start`. The next luxid sends what was not sent then.

        Raises: NoLongerMaster: this node has seen another master. DamagedFile, OSError: the epoch cannot be read.
        """
        epoch = await in_thread(own_epoch, self._paths.epoch_file, self._rules.own_name)
        certificates = CertificateFiles.of(self._paths)
        async with NodeClient(certificates, epoch=lambda: epoch) as client, trio.open_nursery() as nursery:
            self._client, self._nursery = client, nursery
            nursery.start_soon(self._beat)
            task_status.started()
            await trio.sleep_forever()

    async def until_outdated(self) -> NoLongerMaster:
        """Return when a node says that another one is the master, though nothing may have changed here."""
        await self._is_outdated.wait()
        reasons = [sender.failure or "" for sender in self._senders.values() if sender.is_outdated]
        left = self._other_master or "a node that has left the candidates has another master"
        return NoLongerMaster(reasons[0] if reasons else left)

    def follow(self, index: ConfigIndex) -> None:
        """Send to the candidates of this configuration from now on, unless it names another node as the master."""
        own, master = self._rules.own_name, index.master_name
        if not self._rules.has_lease and master not in (None, own) and any(node.name == own for node in index.nodes):
            self._other_master = f"the configuration names '{master}' as the master"
            self._is_outdated.set()
            return
        wanted = candidates(index, self._rules.port, own if self._rules.has_lease else None)
        had = self._senders
        self._senders = {name: sender for name, sender in had.items() if wanted.get(name) == sender.node}
        for name, sender in had.items():
            if name not in self._senders:
                sender.scope.cancel()
                _log.info("copies.end", node=name, reason="it is no longer a candidate, or has another address")
        for name, node in wanted.items():
            if name not in self._senders:
                # one with another address is not new
                self._begin(node, is_new=self._has_followed and name not in had)
        self._has_followed = True
        self._told.candidates_changed()

    @property
    def number(self) -> int:
        """Of the last change."""
        return self._number

    @property
    def senders(self) -> Mapping[str, NodeSender] | None:
        """What sends to each candidate, by name; None: it is not known yet who they are."""
        return self._senders if self._has_followed else None

    def lags(self) -> Sequence[QueueLag]:
        """What each candidate lacks now; empty: all have everything."""
        now = trio.current_time()
        return [
            QueueLag(name, len(sender.backlog), now - sender.behind_since, sender.failure)
            for name, sender in self._senders.items()
            if sender.behind_since is not None
        ]

    def verdicts(self) -> Sequence[QueueVerdict]:
        """What the last comparisons with each candidate have shown."""
        return [verdict_of(sender, sender.verdict) for sender in self._senders.values()]

    async def lost(self) -> Mapping[str, Sequence[str] | str]:
        """What each candidate has and the master has lost, in its place or set aside; or why it cannot tell.

        Raises: OSError. DamagedFile: the record of removals is damaged.
        """
        found: dict[str, Sequence[str] | str] = {}

        async def ask(sender: NodeSender) -> None:
            found[sender.node.name] = f"{sender.node} has not told which files it has within {CHECK_S:g} s"
            with trio.move_on_after(CHECK_S):
                try:
                    names = await lost_on(self._paths, sender.line, sender.comparison())
                    found[sender.node.name] = names
                    sender.beyond = [name for name in names if original_name(name) is not None]
                except NotSent as error:
                    found[sender.node.name] = error.failed.text

        async with trio.open_nursery() as nursery:
            for sender in self._senders.values():
                if sender.backlog.takes_ours:
                    nursery.start_soon(ask, sender)
                else:
                    found[sender.node.name] = f"{sender.node} runs Ganeti's node daemon, which does not tell"
        return found

    async def read(self, node: str, names: Sequence[str]) -> Mapping[str, bytes]:
        """The contents of files of a candidate, as `lost` names them; those that are gone are left out.

        Raises: Unavailable: the node does not tell them.
        """
        sender = self._senders.get(node)
        found: dict[str, bytes] = {}
        for start in range(0, len(names), READ_AT_ONCE):
            part = tuple(names[start : start + READ_AT_ONCE])
            try:
                if sender is None:
                    raise Unavailable(f"node '{node}' is no longer a candidate")
                contents = await sender.line.call(ReadStateFiles(part), CHECK_S)
            except NotSent as error:
                raise Unavailable(error.failed.text) from error
            found.update({name: each.data for name, each in zip(part, contents, strict=True) if each is not None})
        return found

    async def commands(self, node: str) -> frozenset[int]:
        """The jobs of which a candidate has a command, running or ended. Raises: Unavailable: it does not tell."""
        sender = self._senders.get(node)
        jobs: set[int] = set()
        after = ""
        while sender is not None:
            try:
                states = await sender.line.call(ListCommands(after), CHECK_S)
            except NotSent as error:
                raise Unavailable(error.failed.text) from error
            jobs.update(job_of_key(state.key) for state in states)
            if not states:
                break
            after = states[-1].key
        return frozenset(jobs)

    def lost_count(self) -> int:
        """How many files candidates have set aside, because they are lost here; of the one that has most."""
        return max((len(sender.beyond) for sender in self._senders.values()), default=0)

    async def check(self) -> tuple[QueueVerdict, ...]:
        """Compare with each candidate now."""
        found: dict[str, QueueVerdict] = {}

        async def ask(sender: NodeSender) -> None:
            found[sender.node.name] = await self._check(sender)

        async with trio.open_nursery() as nursery:
            for sender in self._senders.values():
                nursery.start_soon(ask, sender)
        return tuple(found[name] for name in sorted(found))

    async def _check(self, sender: NodeSender) -> QueueVerdict:
        failure = f"{sender.node} has not told which files it has within {CHECK_S:g} s"
        with trio.move_on_after(CHECK_S):
            try:
                sender.verdict = await check(self._paths, sender)
                if sender.backlog.takes_ours:
                    sender.beyond = await set_aside(self._paths, sender.line)
            except NotSent as error:
                failure = error.failed.text
            except (OSError, GantryError) as error:
                failure = explain_os_error(error) if isinstance(error, OSError) else error.message
            else:
                return verdict_of(sender, sender.verdict)
        return QueueVerdict(sender.node.name, failure=failure, takes_ours=sender.backlog.takes_ours)

    async def replaced(self, files: Sequence[FileWrite]) -> None:
        await self._changed([write.path for write in files])

    def note_changed(self, keys: Sequence[Key]) -> int:
        """Send these files, whatever has become of them; return the number of the change."""
        return self._note_in_backlogs(keys, lambda backlog, key, number: backlog.changed(key, number))

    async def appeared(self, paths: Sequence[Path], *, has_results: bool) -> None:
        # a quick job would wait for the copy of its beginning before its end is copied
        await self._changed(paths, is_awaited=has_results)

    async def renamed(self, moves: Sequence[tuple[Path, Path]]) -> None:
        # a damaged file is set aside elsewhere, and then a candidate may have the last good one
        archived = [
            job_id
            for source, target in moves
            if (job_id := self._files.job(source)) is not None and target == self._paths.archived_job_file(job_id)
        ]
        await self._note(archived, lambda backlog, job_id, number: backlog.archived(job_id, number))

    async def removed(self, paths: Sequence[Path]) -> None:
        jobs = [job_id for path in paths if (job_id := self._files.job(path)) is not None]
        await self._note(jobs, lambda backlog, job_id, number: backlog.removed(job_id, number))
        old = [job_id for path in paths if (job_id := self._files.archived_job(path)) is not None]
        # one that is left in the archive of a node does no harm, and the next master removes it again
        await self._note(old, lambda backlog, job_id, number: backlog.pruned(job_id, number), is_awaited=False)
        await self._changed([path for path in paths if path in self._files.facts])
        # one that is left too long on a node does no harm
        states = [name for path in paths if (name := self._files.removed_state(path)) is not None]
        await self._note(states, lambda backlog, name, number: backlog.discarded(name, number), is_awaited=False)

    async def _changed(self, paths: Sequence[Path], *, is_awaited: bool = True) -> None:
        keys = [key for path in paths if (key := self._files.key(path)) is not None]
        await self._note(keys, lambda backlog, key, number: backlog.changed(key, number), is_awaited=is_awaited)

    async def _note(
        self, keys: Sequence[K], note: Callable[[Backlog, K, int], None], *, is_awaited: bool = True
    ) -> None:
        self._check_mastership()
        if not keys:
            return
        number = self._note_in_backlogs(keys, note)
        if self._rules.waits and is_awaited:
            await self._wait(keys, number)

    def _note_in_backlogs(self, keys: Sequence[K], note: Callable[[Backlog, K, int], None]) -> int:
        # histories are written by luxid and by job processes; both write before or just after the job's file
        waits = {StateName(f"{WAITS}/{key // WAITS_FILE_JOBS}") for key in keys if isinstance(key, int)}
        self._number = number = self._number + 1
        for sender in self._senders.values():
            for key in keys:
                note(sender.backlog, key, number)
            sender.wake()
            sender.compare_later(waits)
        return number

    async def _wait(self, keys: Sequence[Key], number: int) -> None:
        """Raises: NoLongerMaster: whatever other candidates lack. NotCopied."""
        senders = list(self._senders.values())
        with trio.move_on_after(ATTEMPT_S):
            for sender in senders:
                await sender.until_attempted(keys, number)
        await self._stops.passed()
        self._check_mastership()
        senders = [sender for sender in senders if not sender.has_left]
        lacking = [sender for sender in senders if sender.backlog.lacks(keys, number)]
        for sender in lacking:
            sender.made_wait()
        if lacking:
            raise not_copied(lacking, len(senders))

    async def _beat(self) -> None:
        with contextlib.suppress(NoLongerMaster):
            # the next change says so, and luxid is told by `until_outdated`
            await self._stops.run()

    async def _ask_for_master(self) -> None:
        """Raises: NoLongerMaster: a candidate has another master."""
        assert self._client is not None, "run has not begun"
        nodes = [sender.node for sender in self._senders.values()]
        outcomes = await self._client.call_nodes(nodes, Version(), ASK_S, even_paused=True)
        for outcome in outcomes.values():
            if isinstance(outcome, Failed) and outcome.kind is FailureKind.OUTDATED:
                self._other_master = outcome.text
                self._is_outdated.set()
                raise NoLongerMaster(outcome.text)

    def _check_mastership(self) -> None:
        """Raises: NoLongerMaster."""
        if self._other_master:
            raise NoLongerMaster(self._other_master)
        for sender in self._senders.values():
            if sender.is_outdated:
                raise NoLongerMaster(sender.failure or "")

    def _begin(self, node: NodeAddress, *, is_new: bool) -> None:
        assert self._client is not None, "run has not begun"
        assert self._nursery is not None
        sender = NodeSender(
            node,
            self._paths,
            self._calls,
            self._client,
            self._turn_to_purge,
            self._told,
            is_new=is_new,
            gather_s=self._rules.gather_s,
        )
        self._senders[node.name] = sender
        _log.info("copies.begin", node=node.name, address=node.place, is_new=is_new)
        self._nursery.start_soon(self._run, sender)

    async def _run(self, sender: NodeSender) -> None:
        await sender.run()
        if sender.is_outdated:
            self._is_outdated.set()
