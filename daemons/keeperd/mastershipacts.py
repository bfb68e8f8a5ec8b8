"""The mastership of this node, from its campaign to the release of its key: the acts that concern it.

Theory. What takes long runs beside the machine, in a task for each kind of act; a later act of its kind, or one that
undoes it, ends it.

Source: DESIGN section 14; lease.md 7.
"""

import os
import subprocess
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final

import attrs
import trio

from common.errors import GantryError, InvalidRequest, UnknownMethod
from common.featuresettings import KeeperdSettings
from common.lease.grant import Grant
from common.lease.records import AcceptedRestore, Fence, LastMaster, OperatorRequest, WantedKind
from common.lease.times import LeaseTimes
from common.nodes.nodeplace import node_ips
from common.settings import Settings
from common.system.inthread import in_thread
from common.system.log import get_log
from common.system.shortages import retry_pauses
from daemons.keeperd.ailments import Ailments, Memories
from daemons.keeperd.core.events import Campaign, CampaignLost, Drained, Event, NodesTold, OwnNodeSilent
from daemons.keeperd.core.keeper import Keeper
from daemons.keeperd.core.mastership import Claimed, judge_claims
from daemons.keeperd.keys import MasterKeys, Won
from daemons.keeperd.renewer import Renewer
from daemons.keeperd.servants import Servants
from daemons.keeperd.tasks import Tasks
from protocol.client import Client
from protocol.etcd.kv import EtcdError
from protocol.luxi.daemon import PrepareMove
from protocol.noded.call import Failed, FailureKind, NodeAddress, Outcome, Replied
from protocol.noded.clients.certificates import CertificateFiles
from protocol.noded.clients.client import NodeClient
from protocol.noded.membership import ClaimEpoch, GetStanding
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
        outcomes = await self._client.call_nodes(nodes, GetStanding(), _ASK_S, even_paused=True)
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
        told = await self._client.call_nodes(refusing, GetStanding(), _ROUND_S, even_paused=True) if refusing else {}
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
        limit_s = self._settings.fence_timeout_s
        _log.info("fence.begun", node=node, program=program)
        try:
            with trio.fail_after(limit_s):
                done = await trio.run_process(
                    [program, node],
                    env=surroundings,
                    capture_stdout=True,
                    stderr=subprocess.STDOUT,
                    check=False,
                )
        except trio.TooSlowError:
            _log.error("fence.failed", node=node, program=program, reason=f"not done within {limit_s:g} s")
            return False
        except OSError as error:
            _log.error("fence.failed", node=node, program=program, reason=error)
            return False
        output = done.stdout.decode(errors="replace").strip()[-400:]
        if done.returncode == 0:
            _log.warning("fence.done", node=node, program=program, output=output)
        elif done.returncode == _NOT_FOR_IT:
            _log.info("fence.not_for_node", node=node, program=program)
        else:
            _log.error("fence.failed", node=node, program=program, code=done.returncode, output=output)
        return done.returncode == 0

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
        try:
            with trio.fail_after(_LIMIT_S):
                done = await trio.run_process(
                    [self._program, word],
                    env={**os.environ, "GANTRY_NODE": self._node},
                    capture_stdout=True,
                    stderr=subprocess.STDOUT,
                    check=False,
                )
        except trio.TooSlowError:
            _log.error("address.failed", program=self._program, word=word, reason=f"not done within {_LIMIT_S:g} s")
        except OSError as error:
            _log.error("address.failed", program=self._program, word=word, reason=error)
        else:
            text = done.stdout.decode(errors="replace").strip()[-400:]
            if done.returncode:
                _log.error("address.failed", program=self._program, word=word, code=done.returncode, output=text)
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


class MastershipActs:
    """Args: report: tells the machine. look_now: says that something has changed in etcd."""

    def __init__(
        self, parts: MastershipParts, tasks: Tasks, report: Callable[[Event], None], look_now: Callable[[], None]
    ) -> None:
        self._parts = parts
        self._tasks = tasks
        self._report = report
        self._look_now = look_now
        # the mastership that was won last; the machine says whether it is held
        self._won: Won | None = None
        # whether luxid has prepared the move of the mastership
        self._is_drained = False

    @property
    def epoch(self) -> int:
        """Of the mastership that was won last and is not released; 0: there is none."""
        return self._won.fence.epoch if self._won else 0

    async def campaign(self, act: Campaign) -> None:
        try:
            above = max(act.above, await self._parts.teller.highest_epoch())
            outcome = await self._parts.keys.campaign(above, act.epoch_revision)
        except (GantryError, OSError) as error:
            # whatever fails, the machine hears of the end of its campaign
            outcome = CampaignLost(error.message if isinstance(error, GantryError) else str(error))
        if isinstance(outcome, Won):
            self._won = outcome
            self._report(outcome.event)
        else:
            self._report(outcome)

    def renew(self, epoch: int, times: LeaseTimes) -> None:
        if self._won is not None and self._won.fence.epoch == epoch:
            self._parts.renewer.renew(epoch, self._won.lease, times, self._won.event.sent_at)

    def fence_old(self, last: LastMaster) -> None:
        self._tasks.begin("fence", self._parts.fencing.fence, last, self.epoch)

    def start_daemons(self, keeper: Keeper | None) -> None:
        won = self._won
        if won is None:
            return
        self._tasks.end("servants", "kill")
        self.drain_no_more()
        self._tasks.begin("address", self._parts.address.bring_up)
        view = keeper.view if keeper else None
        record = won.event.record
        cluster_id = view.cluster_id if view else ""
        held = keeper.held if keeper else None
        wish = held.wish if held else None
        takes_loss = wish is not None and wish.kind is WantedKind.TAKEOVER and wish.node == record.node
        grant = Grant(record.node, record.nonce, won.fence, cluster_id, record.ttl_s, takes_loss)
        self._tasks.begin("servants", self._parts.servants.start, grant)

    def stop_daemons(self, epoch: int) -> None:
        """Args: epoch: of the last start of the daemons, which is told when none is left."""
        self._end_daemons("servants", self._parts.servants.end, epoch)

    def kill_daemons(self, epoch: int) -> None:
        # one that is under way kills all that it finds until nothing is left
        if not self._tasks.runs("kill"):
            self._end_daemons("kill", self._parts.servants.kill, epoch)

    def drain(self, node: str, *, kill: bool) -> None:
        self._tasks.begin("drain", self._drain, node, kill)

    def drain_no_more(self) -> None:
        """End the call of luxid; one that lives takes work again."""
        self._is_drained = False
        self._tasks.end("drain")

    def release(self, *, is_clean: bool) -> None:
        self._tasks.end("tell", "fence")
        self.drain_no_more()
        self._parts.renewer.renew_no_more()
        self._parts.renewer.close_watchdog()
        won, self._won = self._won, None
        if won is not None:
            self._tasks.finish(self._release_keys, won, is_clean)

    def remove_wanted(self, wanted: OperatorRequest, refusal: str) -> None:
        self._tasks.begin("wish", self._again, lambda: self._parts.keys.remove_wanted(wanted, refusal))

    def accept(self, accepted: AcceptedRestore) -> None:
        self._tasks.begin("accept", self._accept, accepted)

    def _end_daemons(self, kind: str, end: Callable[[int], Awaitable[None]], epoch: int) -> None:
        # only who holds the mastership may tell nodes, and have an old master fenced
        self._tasks.end("tell", "fence", "servants", "kill")
        if not self._is_drained:
            self._tasks.end("drain")
        self._tasks.begin("address", self._parts.address.take_down)
        self._tasks.begin(kind, end, epoch)

    async def _release_keys(self, won: Won, is_clean: bool) -> None:
        await self._parts.keys.release(won, is_clean=is_clean)
        self._look_now()

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
                "master.not_drained", reason=failed.exceptions[0], effect="the wish stays until it is taken back"
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
        self._look_now()
