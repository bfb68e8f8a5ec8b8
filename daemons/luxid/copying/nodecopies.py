"""Copies of the queue on the master candidates: the mode `nodes` of `common.replica`.

Theory. Each candidate has a backlog and a task that sends it (`sending`). A change is noted in all backlogs; then its
caller waits until each candidate that can be reached has it, or for `ATTEMPT_S`, and goes on in any case. A candidate
that has made a change wait so long is not waited for again until it has everything: a node that hangs costs that once.
A change that was under way while this process was stopped counts only when the nodes were asked (`stops`).

What changed while luxid was not running is found by comparing the files when a candidate is first seen. What a
candidate has beyond the master is taken away only if the master has removed it; else it is set aside there (`beyond`).

Source: noded.md 8; DESIGN section 12.
"""

import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar, assert_never

import attrs
import trio

from common.errors import GantryError, Unavailable, explain
from common.ids import JobId
from common.nodes.mastership import own_epoch
from common.objects.index import ConfigIndex
from common.paths import WAITS_FILE_JOBS, Paths
from common.replica.replica import (
    FileChange,
    Move,
    NoLongerMaster,
    NotCopied,
    Remove,
    Replace,
    Replica,
    TakeUp,
)
from common.system.inthread import in_thread
from common.system.log import get_log
from daemons.luxid.copying.calls import QueueCalls, digests, read_jobs, read_states
from daemons.luxid.copying.comparison import (
    JobsPart,
    PartDifference,
    QueueComparison,
    States,
    beyond_master,
    lost_on,
    set_aside,
)
from daemons.luxid.copying.sending import NOBODY, CopyRules, NodeSender, PurgeTurn, SenderEvents
from daemons.luxid.core.copies.backlog import MOST_NAMES, Backlog, CopyLag, Key, QueueFact, StateName
from protocol.luxi.daemon import QueueVerdict
from protocol.luxi.queries import QueueLag
from protocol.noded.call import Failed, FailureKind, NodeAddress
from protocol.noded.clients.certificates import CertificateFiles
from protocol.noded.clients.client import NodeClient
from protocol.noded.clients.line import NotSent
from protocol.noded.clients.recipients import candidates
from protocol.noded.commands import ListCommands
from protocol.noded.files import WireNames
from protocol.noded.membership import NodeVersion
from protocol.noded.statefiles import (
    REMOVALS,
    SUBMISSIONS,
    WAITS,
    ReadStateFiles,
    RemoveStateFiles,
    job_of_key,
    original_name,
)

# The files of the queue that other nodes get, as the backlogs call them.


_JOB = "job-"


class CopiedFiles:
    """Paths of the master as keys of backlogs, and back."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self.facts = {
            paths.serial_file: QueueFact.SERIAL,
            paths.drain_file: QueueFact.DRAIN,
            paths.watcher_pause: QueueFact.WATCHER_PAUSE,
        }
        self._places = {fact: path for path, fact in self.facts.items()}

    def key(self, path: Path) -> Key | None:
        """None: other nodes do not get this file, or not by itself."""
        return self.facts.get(path) or self.job(path) or self.state(path)

    def state(self, path: Path) -> StateName | None:
        """The name of a file of ours; None: another file."""
        if path == self._paths.removals:
            return StateName(REMOVALS)
        return StateName(f"{SUBMISSIONS}/{path.name}") if path.parent == self._paths.submissions else None

    def removed_state(self, path: Path) -> StateName | None:
        """As `state`; a history of waits, too, which is sent only after changes of its jobs."""
        return StateName(f"{WAITS}/{path.name}") if path.parent == self._paths.waits else self.state(path)

    def archived_job(self, path: Path) -> JobId | None:
        """The id of an archived job's file; None: another file."""
        number = path.name.removeprefix(_JOB)
        is_job = path.name.startswith(_JOB) and number.isdigit() and path.parent.parent == self._paths.archive
        return JobId(int(number)) if is_job else None

    def job(self, path: Path) -> JobId | None:
        """The id of a live job's file; None: another file."""
        number = path.name.removeprefix(_JOB)
        is_job = path.parent == self._paths.queue and path.name.startswith(_JOB) and number.isdigit()
        return JobId(int(number)) if is_job else None

    def archived(self, moves: Iterable[tuple[Path, Path]]) -> list[JobId]:
        """The jobs that go to the archive; a damaged file goes elsewhere, and a candidate may have a good one."""
        return [
            job_id
            for source, target in moves
            if (job_id := self.job(source)) is not None and target == self._paths.archived_job_file(job_id)
        ]

    def path(self, key: Key) -> Path:
        """The file; of a job, that of a live one."""
        if isinstance(key, QueueFact):
            return self._places[key]
        return self._paths.data / key if isinstance(key, str) else self._paths.job_file(key)


# Stops of this process: while it could not run, another node may have become the master.
#
# Theory. After a stop (a suspended machine, a signal) all limits of time are over at once, and nodes that would have
# refused a call count as not reached. So a beat shows how long the process ran without a stop; a change that finds the
# beat too old lets the nodes be asked before it counts. One call is enough: node daemons refuse those of an old master.


BEAT_S: Final = 0.5
# seconds without a beat that count as a stop; a busy event loop may be late, too, which costs one question
STOPPED_S: Final = 1.25
_log: Final = get_log(__name__)


class Stops:
    """Start `run`; call `passed` before a change counts. Args: ask: asks the nodes who is the master."""

    def __init__(self, ask: Callable[[], Awaitable[None]]) -> None:
        self._ask = ask
        self._asking = trio.Lock()
        # None: `run` has not begun
        self._beat_at: float | None = None

    async def run(self) -> None:
        """Beat, until cancelled. Raises: as `ask`."""
        self._beat_at = trio.current_time()
        while True:
            await trio.sleep(BEAT_S)
            await self.passed()
            self._beat_at = trio.current_time()

    async def passed(self) -> None:
        """Return at once, or, after a stop, when the nodes were asked. Raises: as `ask`."""
        if not self._was_stopped:
            return
        async with self._asking:
            if self._was_stopped:
                _log.warning("process.was_stopped", asked="whether another node is the master")
                await self._ask()
                self._beat_at = trio.current_time()

    @property
    def _was_stopped(self) -> bool:
        return self._beat_at is not None and trio.current_time() - self._beat_at > STOPPED_S


# Whether a node has the same queue as the master, asked for once.
#
# Theory. The queue changes while it is compared. A file that differs is only a suspect; it is judged when the backlog
# of the node is empty. It counts if the master's file was the same before and after the node was asked, and if it was
# not about to be sent. A file that changes all the time is no difference: its copy follows. Copies of histories are
# late, so those that may be are compared first.
#
# Source: DESIGN section 12.


# what has no comparison of its own: it is always sent
FACTS: Final = (StateName("queue/serial"), StateName("queue/drain"))
# times that suspects are looked at, and seconds that each waits for the backlog
_ROUNDS: Final = 5
_PATIENCE_S: Final = 3.0


@attrs.define
class _Suspects:
    """What seems to differ."""

    keys: set[Key] = attrs.field(factory=set)
    # files that the master lacks
    beyond: set[str] = attrs.field(factory=set)

    def add(self, found: PartDifference) -> None:
        self.keys.update(found.differ)
        self.beyond.update(found.beyond.names)

    @property
    def jobs(self) -> list[JobId]:
        return sorted(key for key in self.keys if isinstance(key, int))

    @property
    def states(self) -> list[StateName]:
        return sorted(key for key in self.keys if isinstance(key, str))


async def check(paths: Paths, sender: NodeSender) -> CopyLag:
    """Compare everything; what differs is sent.

    Raises: NotSent: the node cannot be asked. OSError.
    """
    comparison, suspects = sender.comparison(), _Suspects()
    while (found := await comparison.step()) is not None:
        suspects.add(found)
    suspects.add(await comparison.compare(States(FACTS)))
    guilty: set[Key] = set()
    for _ in range(_ROUNDS):
        if not suspects.keys and not suspects.beyond:
            break
        with trio.move_on_after(_PATIENCE_S):
            await sender.until_complete()
        suspects, found_guilty = await _judge(paths, sender, comparison, suspects)
        guilty |= found_guilty
    _mend(sender, guilty)
    return CopyLag(time.time()).with_more(sorted(guilty, key=str))


async def _judge(
    paths: Paths, sender: NodeSender, comparison: QueueComparison, suspects: _Suspects
) -> tuple[_Suspects, set[Key]]:
    """Return those that are suspects still, and those that differ."""
    is_busy = sender.is_lacking
    before = await in_thread(_marks, paths, suspects.jobs, suspects.states)
    again = _Suspects()
    if suspects.jobs:
        again.add(await comparison.compare(JobsPart(suspects.jobs)))
    if suspects.states:
        again.add(await comparison.compare(States(suspects.states)))
    left = await comparison.found_on_node(sorted(suspects.beyond)) if suspects.beyond else {}
    again.beyond.update((await beyond_master(paths, sender.line, list(left))).names)
    if is_busy or sender.is_lacking:
        return again, set()
    after = await in_thread(_marks, paths, again.jobs, again.states)
    guilty: set[Key] = {key for key in again.keys if before.get(key) == after.get(key)}
    guilty.update(map(StateName, again.beyond))
    return _Suspects(again.keys - guilty), guilty


def _marks(paths: Paths, jobs: Sequence[JobId], states: Iterable[StateName]) -> Mapping[Key, object]:
    """What the master's files hold. Raises: OSError."""
    marks: dict[Key, object] = {job_id: mark for job_id, mark in digests(read_jobs(paths, jobs)).items()}
    for name, content in read_states(paths, states).items():
        marks[name] = content
    return marks


def _mend(sender: NodeSender, guilty: Iterable[Key]) -> None:
    if guilty:
        # this also finds what is beyond the master, and sends the facts
        sender.backlog.doubt()
        sender.wake()


# What is told of candidates: what they lack, and what comparisons have shown.


def verdict_of(sender: NodeSender, verdict: CopyLag | None) -> QueueVerdict:
    """What a comparison with a candidate has shown. Args: verdict: None: it is not over."""
    name, takes_ours = sender.node.name, sender.backlog.takes_ours
    lost = sorted(original_name(each) or each for each in sender.beyond)
    some = tuple(lost[:MOST_NAMES])
    if verdict is None:
        failure = sender.failure
        return QueueVerdict(name, failure=failure, takes_ours=takes_ours, lost=len(lost), lost_files=some)
    at, count, names = verdict.at, verdict.count, verdict.names
    return QueueVerdict(name, at, count, names, takes_ours=takes_ours, lost=len(lost), lost_files=some)


def not_copied(lacking: Sequence[NodeSender], count: int) -> NotCopied:
    """Whether more than half failed: the master itself counts as one that has the change."""
    failures = len(lacking)
    is_most = count - failures + 1 < failures
    how_many = f"{failures} of {count} candidates lack a change"
    if is_most:
        how_many = f"more than half of the nodes lack a change, {failures} of {count} candidates"
    return NotCopied(f"{how_many}: {'; '.join(sender.why_it_lacks for sender in lacking)}", is_most=is_most)


# seconds that a change waits for the attempt to copy it
ATTEMPT_S: Final = 1.0
# seconds that a check may take
CHECK_S: Final = 120.0
# files that are read from a candidate in one call
READ_AT_ONCE: Final = 20
# limit of the question who is the master, after a stop of this process
ASK_S: Final = 5.0
K = TypeVar("K", bound=Key)


class NodeCopies(Replica):
    """The mode `nodes`; start `run`, call `follow` with each configuration, and `begin` when candidates may be sent to.

    Args: told: hears what candidates have got.
    """

    def __init__(self, paths: Paths, names: WireNames, rules: CopyRules, told: SenderEvents = NOBODY) -> None:
        self._paths = paths
        self._calls = QueueCalls(paths, names)
        self._rules = rules
        self._told = told
        self._senders: dict[str, NodeSender] = {}
        self._has_followed = False
        self._has_begun = trio.Event()
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

    def begin(self) -> None:
        """Send from now on: what candidates know and this node may have lost was asked, and can be overwritten."""
        self._has_begun.set()

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
        found = candidates(index.config, self._rules.port, own if self._rules.has_lease else None)
        wanted = {node.name: node for node in found if not node.offline}
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

    async def remove(self, node: str, names: Sequence[str]) -> None:
        """Remove what a candidate has set aside. Raises: Unavailable: it has not."""
        sender = self._senders.get(node)
        try:
            if sender is not None:
                await sender.line.call(RemoveStateFiles(tuple(names)), CHECK_S)
        except NotSent as error:
            raise Unavailable(error.failed.text) from error

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
                    sender.beyond = (await set_aside(self._paths, sender.line)).lost
            except NotSent as error:
                failure = error.failed.text
            except (OSError, GantryError) as error:
                failure = explain(error)
            else:
                return verdict_of(sender, sender.verdict)
        return QueueVerdict(sender.node.name, failure=failure, takes_ours=sender.backlog.takes_ours)

    def note_changed(self, keys: Sequence[Key]) -> int:
        """Send these files, whatever has become of them; return the number of the change."""
        return self._note_in_backlogs(keys, lambda backlog, key, number: backlog.changed(key, number))

    async def after(self, change: FileChange) -> None:
        match change:
            case Replace():
                await self._changed(change.paths)
            case TakeUp(paths, has_results=has_results):
                # a quick job would wait for the copy of its beginning before its end is copied
                await self._changed(paths, is_awaited=has_results)
            case Move(moves):
                archived = self._files.archived(moves)
                await self._note(archived, lambda backlog, job_id, number: backlog.archived(job_id, number))
            case Remove(paths):
                await self._removed(paths)
            case _:
                assert_never(change)

    async def _removed(self, paths: Sequence[Path]) -> None:
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
        self.check_mastership()
        if not keys:
            return
        number = self._note_in_backlogs(keys, note)
        if self._rules.waits and is_awaited and self._has_begun.is_set():
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
        self.check_mastership()
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
        outcomes = await self._client.call_nodes(nodes, NodeVersion(), ASK_S, even_paused=True)
        for outcome in outcomes.values():
            if isinstance(outcome, Failed) and outcome.kind is FailureKind.OUTDATED:
                self._other_master = outcome.text
                self._is_outdated.set()
                raise NoLongerMaster(outcome.text)

    def check_mastership(self) -> None:
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
        await self._has_begun.wait()
        await sender.run()
        if sender.is_outdated:
            self._is_outdated.set()
