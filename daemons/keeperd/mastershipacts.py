"""The mastership of this node, from its campaign to the release of its key: the acts that concern it.

Theory. What takes long runs beside the machine, in a task for each kind of act; a later act of its kind, or one that
undoes it, ends it.

Source: DESIGN section 14; lease.md 7.
"""

import os
import subprocess
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final, assert_never

import attrs
import trio

from common.errors import GantryError, InvalidRequest, UnknownMethod
from common.featuresettings import KeeperdSettings
from common.lease.grant import Grant
from common.lease.records import AcceptedRestore, Fence, LastMaster, WantedKind
from common.lease.times import LeaseTimes
from common.nodes.nodeplace import node_ips
from common.settings import Settings
from common.system.inthread import in_thread
from common.system.log import get_log
from common.system.shortages import retry_pauses
from daemons.keeperd.ailments import Ailments, Memories
from daemons.keeperd.core.events import (
    AcceptRestore,
    Act,
    Campaign,
    CampaignLost,
    Drain,
    Drained,
    DrainNoMore,
    DropLease,
    Event,
    FenceOld,
    KillDaemons,
    Look,
    MayEnd,
    NodesTold,
    OwnNodeSilent,
    Release,
    Remember,
    RemoveWanted,
    Renew,
    SetDeadline,
    StartDaemons,
    StopDaemons,
    Tell,
    TellNodes,
)
from daemons.keeperd.core.keeper import Keeper
from daemons.keeperd.core.mastership import Claimed, judge_claims
from daemons.keeperd.core.states import NodeMemory
from daemons.keeperd.keys import MasterKeys, Won
from daemons.keeperd.looker import Looker
from daemons.keeperd.renewer import Renewer
from daemons.keeperd.servants import Servants
from protocol.client import Client
from protocol.etcd.kv import EtcdError
from protocol.luxi.daemon import PrepareMove
from protocol.noded.call import Failed, FailureKind, NodeAddress, Outcome, Replied
from protocol.noded.clients.certificates import CertificateFiles
from protocol.noded.clients.client import NodeClient
from protocol.noded.membership import ClaimEpoch, ReadNodeProgress
from protocol.unixsocket import dial
from protocol.wconfd.locks import ListOrphanedLocks, ReleaseKeptLocks

# Let all nodes know who is the master: they refuse what an earlier one sends from then on.
#
# Source: lease.md 7; noded.md 6.


# limit of the first round, and of later ones: the take-over does not wait for silent nodes
_FIRST_S: Final = 0.5
_ROUND_S: Final = 2.0
# nodes are asked so long what they know, before a campaign
_ASK_S: Final = 0.5
_log: Final = get_log(__name__)


class NodeTeller:
    """The node daemons, for the epochs of masters. A context manager."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._client = NodeClient(CertificateFiles.of(settings.paths))

    async def close(self) -> None:
        await self._client.aclose()

    async def highest_epoch(self) -> int:
        """The highest that any node reports at once; 0: none knows one."""
        nodes = await self._nodes()
        outcomes = await self._client.call_nodes(nodes, ReadNodeProgress(), _ASK_S, even_paused=True)
        return max((one.value.epoch for one in outcomes.values() if isinstance(one, Replied)), default=0)

    async def tell(self, fence: Fence, report: Callable[[Event], None]) -> None:
        """Let all nodes know the epoch, this node first, and ask again those that do not reply; returns when all know.

        Args: report: is told when this node knows, and all others know or were silent; and again when one replies.
        """
        call = ClaimEpoch(fence.epoch, self._settings.cluster.own_name)
        own, *others = await self._nodes()
        if not await self._tell_own(own, call, fence.epoch, report):
            return
        silent, pauses = others, retry_pauses()
        is_first = True
        while is_first or silent:
            asked = silent
            limit_s = _FIRST_S if is_first else _ROUND_S
            outcomes = await self._client.call_nodes(asked, call, limit_s, even_paused=True)
            claimed = await self._judge(asked, outcomes, fence.epoch)
            silent = [node for node in asked if node.name in claimed.silent]
            if is_first or claimed.higher or len(silent) < len(asked):
                report(NodesTold(fence.epoch, higher=claimed.higher, silent=claimed.silent))
                count, names = len(asked) - len(silent) + 1, ",".join(claimed.silent)
                _log.info("epoch.told", epoch=fence.epoch, nodes=count, silent=names)
            if claimed.higher:
                return
            is_first = False
            if silent:
                await trio.sleep(next(pauses))

    async def _tell_own(self, own: NodeAddress, call: ClaimEpoch, epoch: int, report: Callable[[Event], None]) -> bool:
        """Tell this node's own daemon; false: it knows a higher epoch. The machine decides how long that may take."""
        pauses = retry_pauses()
        began_at = trio.current_time()
        while True:
            outcomes = await self._client.call_nodes([own], call, _ROUND_S, even_paused=True)
            outcome = outcomes[own.name]
            if isinstance(outcome, Replied):
                return True
            if higher := (await self._judge([own], outcomes, epoch)).higher:
                report(NodesTold(epoch, higher=higher))
                return False
            _log.warning("epoch.not_told", node=own.name, reason=outcome, going_on="again until it replies")
            report(OwnNodeSilent(epoch, trio.current_time() - began_at))
            await trio.sleep(next(pauses))

    async def _judge(self, asked: Sequence[NodeAddress], outcomes: Mapping[str, Outcome[None]], epoch: int) -> Claimed:
        """Asks those that have refused what they know."""
        granted = [name for name, outcome in outcomes.items() if isinstance(outcome, Replied)]
        refusing = [node for node in asked if _has_refused(outcomes[node.name])]
        told = (
            await self._client.call_nodes(refusing, ReadNodeProgress(), _ROUND_S, even_paused=True) if refusing else {}
        )
        standings = {name: one.value for name, one in told.items() if isinstance(one, Replied)}
        names = [node.name for node in asked]
        return judge_claims(names, granted, standings, epoch, self._settings.cluster.own_name)

    async def _nodes(self) -> Sequence[NodeAddress]:
        """All nodes, this one first."""
        ips = dict(await in_thread(node_ips, self._settings.paths))
        own_name, port = self._settings.cluster.own_name, self._settings.noded.port
        own_ip = ips.pop(own_name, None) or self._settings.noded.address or "127.0.0.1"
        return [NodeAddress(own_name, own_ip, port), *(NodeAddress(name, ip, port) for name, ip in ips.items())]


def _has_refused(outcome: Outcome[None]) -> bool:
    return isinstance(outcome, Failed) and outcome.kind in (FailureKind.REFUSED, FailureKind.OUTDATED)


@attrs.frozen
class _ProgramEnd:
    code: int
    # its last bytes
    output: str


async def _run(command: Sequence[str], env: Mapping[str, str], limit_s: float) -> _ProgramEnd | str:
    """Run a program of the operator's; a text says why it has not ended."""
    try:
        with trio.fail_after(limit_s):
            done = await trio.run_process(command, env=env, capture_stdout=True, stderr=subprocess.STDOUT, check=False)
    except trio.TooSlowError:
        return f"not done within {limit_s:g} s"
    except OSError as error:
        return str(error)
    return _ProgramEnd(done.returncode, done.stdout.decode(errors="replace").strip()[-400:])


# Have an old master fenced: by the operator's programs, one after the other, until one has done it.
#
# Theory. A program says by its exit code that the node certainly runs no more (0), that it could not do it (1), or that
# it is not for this node (2). No reply is no fence. A program that always says yes, as `true`, turns a fault into side
# effects of two masters; such are refused by name.
#
# Source: lease.md 6.


_NOT_FOR_IT: Final = 2
_ALWAYS_YES: Final = frozenset({"true", ":"})


def check_programs(settings: KeeperdSettings) -> None:
    """Raises: InvalidRequest: a program cannot fence anything."""
    for program in settings.fence:
        if os.path.basename(program) in _ALWAYS_YES:
            raise InvalidRequest(
                f"'{program}' in 'fence' of '[keeperd]' fences nothing and always says that it has: locks of jobs "
                "that still run would be released; leave 'fence' empty instead"
            )


class Fencing:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings.keeperd
        self._paths = settings.paths

    async def fence(self, last: LastMaster, epoch: int) -> None:
        """Try all programs, again and again until one has fenced the node; then its orphaned locks are released."""
        if not self._settings.fence:
            return
        for pause_s in retry_pauses():
            if await self.by_any(last.node, epoch):
                break
            await trio.sleep(pause_s)
        await self._tell_wconfd(last.node)

    async def by_any(self, node: str, epoch: int) -> bool:
        """Try each program once; return whether one has fenced the node. Args: epoch: of this mastership."""
        surroundings = {**os.environ, "GANTRY_NODE": node, "GANTRY_EPOCH": str(epoch)}
        for program in self._settings.fence:
            if await self._by(program, node, surroundings):
                return True
        return False

    async def _by(self, program: str, node: str, surroundings: Mapping[str, str]) -> bool:
        _log.info("fence.begun", node=node, program=program)
        ended = await _run([program, node], surroundings, self._settings.fence_timeout_s)
        if isinstance(ended, str):
            _log.error("fence.failed", node=node, program=program, reason=ended)
            return False
        if ended.code == 0:
            _log.warning("fence.done", node=node, program=program, output=ended.output)
        elif ended.code == _NOT_FOR_IT:
            _log.info("fence.not_for_node", node=node, program=program)
        else:
            _log.error("fence.failed", node=node, program=program, code=ended.code, output=ended.output)
        return ended.code == 0

    async def _tell_wconfd(self, node: str) -> None:
        """As an operator does by `gantry fenced NODE`, once luxid has claimed the locks of the old master's jobs."""
        for pause_s in retry_pauses():
            try:
                dial(self._paths.query_socket, "luxid").close()
                async with Client(self._paths.wconfd_socket, daemon="wconfd") as wconfd:
                    orphans = await wconfd.call(ListOrphanedLocks())
                    keys = tuple(
                        command.key for orphan in orphans for command in orphan.commands if command.node == node
                    )
                    if keys:
                        await wconfd.call(ReleaseKeptLocks(keys, f"node {node}: fenced, says a fence agent"))
                    _log.info("orphaned_locks.fenced", node=node, keys=len(keys))
                    return
            except GantryError as error:
                _log.info(
                    "orphaned_locks.not_told", node=node, reason=error.message, going_on="again until it succeeds"
                )
            await trio.sleep(pause_s)


# Bring the master's address up and down by the operator's program.
#
# Source: DESIGN section 14.


_LIMIT_S: Final = 30.0


class Address:
    """Nothing is done where the settings name no program. Never raises: the mastership does not depend on it."""

    def __init__(self, settings: Settings) -> None:
        self._program = settings.keeperd.address_program
        self._node = settings.cluster.own_name
        # whether the program has been called with `up`, and not with `down` since; None: not known
        self._is_up: bool | None = None

    async def bring_up(self) -> None:
        await self._call(is_up=True)

    async def take_down(self) -> None:
        await self._call(is_up=False)

    async def _call(self, *, is_up: bool) -> None:
        if not self._program or self._is_up is is_up:
            return
        # not known while the program runs, also if it is cut off
        self._is_up = None
        word = "up" if is_up else "down"
        ended = await _run([self._program, word], {**os.environ, "GANTRY_NODE": self._node}, _LIMIT_S)
        if isinstance(ended, str):
            _log.error("address.failed", program=self._program, word=word, reason=ended)
            return
        if ended.code:
            _log.error("address.failed", program=self._program, word=word, code=ended.code, output=ended.output)
        else:
            _log.info("address.changed", word=word)
        self._is_up = is_up


# Have luxid prepare the mastership for another node: nothing new begins, and what runs here ends.
#
# Source: lease.md 7.


class Draining:
    def __init__(self, settings: Settings) -> None:
        self._paths = settings.paths

    async def hold(self, *, kill: bool, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep luxid from taking and starting work; started when nothing runs here any more.

        Cancellation: luxid takes work again.
        """
        for pause_s in retry_pauses():
            try:
                async with Client(self._paths.query_socket, daemon="luxid") as luxid:
                    _log.info("master.draining", kill=kill)
                    await luxid.call(PrepareMove(kill))
                    _log.info("master.drained")
                    task_status.started()
                    # the connection holds luxid so
                    await trio.sleep_forever()
            except UnknownMethod:
                raise
            except GantryError as error:
                _log.warning("master.not_drained", reason=error.message, going_on="again until it succeeds")
            await trio.sleep(pause_s)


@attrs.frozen
class MastershipParts:
    """What carries out acts."""

    keys: MasterKeys
    teller: NodeTeller
    servants: Servants
    memories: Memories
    renewer: Renewer
    fencing: Fencing
    address: Address
    draining: Draining
    ailments: Ailments


# What is done beside the machine: at most one task for each kind of work.


class Tasks:
    """Args: nursery: of the machine's loop; all tasks end with it."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        # kind of work -> what ends it
        self._running: dict[str, trio.CancelScope] = {}

    def begin(self, kind: str, work: Callable[..., Awaitable[object]], *args: object) -> None:
        """Do this beside the machine; what is under way of this kind ends."""
        self.end(kind)
        scope = self._running[kind] = trio.CancelScope()
        self._nursery.start_soon(self._work, kind, scope, work, *args)

    def end(self, *kinds: str) -> None:
        for kind in kinds:
            if (scope := self._running.pop(kind, None)) is not None:
                scope.cancel()

    def runs(self, kind: str) -> bool:
        return kind in self._running

    def finish(self, work: Callable[..., Awaitable[object]], *args: object) -> None:
        """Do this to its end, also while keeperd ends."""
        self._nursery.start_soon(self._shielded, work, *args)

    async def _work(
        self, kind: str, scope: trio.CancelScope, work: Callable[..., Awaitable[object]], *args: object
    ) -> None:
        with scope:
            try:
                await work(*args)
            except (GantryError, OSError) as error:
                _log.error("work.failed", work=kind, reason=error)
        if self._running.get(kind) is scope:
            del self._running[kind]

    async def _shielded(self, work: Callable[..., Awaitable[object]], *args: object) -> None:
        with trio.CancelScope(shield=True):
            await work(*args)


class MastershipActs:
    """Carries out what the machine asks for. Args: report: tells the machine."""

    def __init__(self, parts: MastershipParts, tasks: Tasks, report: Callable[[Event], None], looker: Looker) -> None:
        self._parts = parts
        self._tasks = tasks
        self._report = report
        self._looker = looker
        # the mastership that was won last; the machine says whether it is held
        self._won: Won | None = None
        # whether luxid has prepared the move of the mastership
        self._is_drained = False

    @property
    def epoch(self) -> int:
        """Of the mastership that was won last and is not released; 0: there is none."""
        return self._won.fence.epoch if self._won else 0

    async def carry_out(self, act: Act, keeper: Keeper) -> bool:
        """Carry out an act that led to this keeper; return whether keeperd is to end. Never raises: failures are told.

        Only what must be durable before the next act is waited for.
        """
        parts, begin = self._parts, self._tasks.begin
        match act:
            case Look(elsewhere):
                self._looker.look_at(elsewhere=elsewhere)
            case Campaign():
                begin("campaign", self.campaign, act)
            case Renew(epoch, times):
                self._renew(epoch, times)
            case SetDeadline(until):
                parts.renewer.hold(self.epoch, until)
            case TellNodes(fence):
                begin("tell", parts.teller.tell, fence, self._report)
            case FenceOld(last):
                begin("fence", parts.fencing.fence, last, self.epoch)
            case StartDaemons():
                self._start_daemons(keeper)
            case Drain(node, kill):
                self.drain(node, kill=kill)
            case DrainNoMore():
                self._drain_no_more()
            case StopDaemons():
                self._end_daemons("servants", parts.servants.end, keeper.started_epoch)
            case KillDaemons():
                # one that is under way kills all that it finds until nothing is left
                if not self._tasks.runs("kill"):
                    self._end_daemons("kill", parts.servants.kill, keeper.started_epoch)
            case Release(clean):
                self._release(is_clean=clean)
            case DropLease():
                parts.renewer.renew_no_more()
            case Remember(memory):
                await self._remember(memory)
            case RemoveWanted(wanted, refusal):
                begin("request", self._again, lambda: parts.keys.remove_wanted(wanted, refusal))
            case AcceptRestore(accepted):
                begin("accept", self._accept, accepted)
            case Tell(event, fields, is_error):
                (_log.error if is_error else _log.info)(event, **fields)
            case MayEnd():
                return True
            case _:
                assert_never(act)
        return False

    async def campaign(self, act: Campaign) -> None:
        try:
            above = max(act.above, await self._parts.teller.highest_epoch())
            outcome = await self._parts.keys.campaign(above, act.epoch_revision)
        except (GantryError, OSError) as error:
            # whatever fails, the machine hears of the end of its campaign
            outcome = CampaignLost(str(error))
        if isinstance(outcome, Won):
            self._won = outcome
            self._report(outcome.event)
        else:
            self._report(outcome)

    def _renew(self, epoch: int, times: LeaseTimes) -> None:
        if self._won is not None and self._won.fence.epoch == epoch:
            self._parts.renewer.renew(epoch, self._won.lease, times, self._won.event.sent_at)

    def _start_daemons(self, keeper: Keeper) -> None:
        won = self._won
        if won is None:
            return
        self._tasks.end("servants", "kill")
        self._drain_no_more()
        self._tasks.begin("address", self._parts.address.bring_up)
        record = won.event.record
        cluster_id = keeper.view.cluster_id if keeper.view else ""
        request = keeper.held.request if keeper.held else None
        takes_loss = request is not None and request.kind is WantedKind.TAKEOVER and request.node == record.node
        grant = Grant(record.node, record.nonce, won.fence, cluster_id, record.ttl_s, takes_loss)
        self._tasks.begin("servants", self._parts.servants.start, grant)

    def drain(self, node: str, *, kill: bool) -> None:
        self._tasks.begin("drain", self._drain, node, kill)

    def _drain_no_more(self) -> None:
        """End the call of luxid; one that lives takes work again."""
        self._is_drained = False
        self._tasks.end("drain")

    def _release(self, *, is_clean: bool) -> None:
        self._tasks.end("tell", "fence")
        self._drain_no_more()
        self._parts.renewer.renew_no_more()
        self._parts.renewer.close_watchdog()
        won, self._won = self._won, None
        if won is not None:
            self._tasks.finish(self._release_keys, won, is_clean)

    def _end_daemons(self, kind: str, end: Callable[[int], Awaitable[None]], epoch: int) -> None:
        # only who holds the mastership may tell nodes, and have an old master fenced
        self._tasks.end("tell", "fence", "servants", "kill")
        if not self._is_drained:
            self._tasks.end("drain")
        self._tasks.begin("address", self._parts.address.take_down)
        self._tasks.begin(kind, end, epoch)

    async def _release_keys(self, won: Won, is_clean: bool) -> None:
        await self._parts.keys.release(won, is_clean=is_clean)
        self._looker.look_now()

    async def _drain(self, node: str, kill: bool) -> None:
        won = self._won
        if won is None:
            return
        try:
            async with trio.open_nursery() as nursery:
                await nursery.start(partial(self._parts.draining.hold, kill=kill))
                await self._again(lambda: self._parts.keys.mark_leaving(won, node))
                # the call goes on until luxid has ended: else it would take work again
                self._is_drained = True
                self._report(Drained(won.fence.epoch))
        except* GantryError as failed:
            _log.error(
                "master.not_drained", reason=failed.exceptions[0], effect="the request stays until it is taken back"
            )

    async def _again(self, work: Callable[[], Awaitable[object]]) -> None:
        """Try until etcd has taken it: a full etcd, or one that denies it, ends neither a move nor keeperd."""
        for pause_s in retry_pauses():
            try:
                await work()
                return
            except EtcdError as error:
                _log.warning("etcd.not_written", reason=error.message, going_on="again until it is")
            await trio.sleep(pause_s)

    async def _accept(self, accepted: AcceptedRestore) -> None:
        await self._again(lambda: self._parts.keys.accept(accepted))
        self._looker.look_now()

    async def _remember(self, memory: NodeMemory) -> None:
        try:
            await in_thread(self._parts.memories.store, memory)
        except OSError as error:
            self._parts.ailments.set("memory", f"what keeperd must remember cannot be stored: {error}")
        else:
            self._parts.ailments.set("memory", "")
