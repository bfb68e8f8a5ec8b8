"""The calls of keeperd's Unix socket, by noun."""

import pwd
import secrets
from collections.abc import Callable, Sequence
from typing import Final

import attrs
import trio

from common.errors import Conflict, Unavailable
from common.lease.records import (
    EtcdKeys,
    Maintenance,
    MasterRecord,
    OperatorReply,
    OperatorRequest,
    WantedKind,
    decode,
    encode,
)
from common.metrics import read
from common.system.log import get_log
from common.system.processuse import own_use
from common.system.program import release
from common.system.watch import unwatched
from daemons.keeperd.clusterview import ClusterViews, mastership_now
from daemons.keeperd.core.events import RestoreAccepted
from daemons.keeperd.core.mastership import living_node
from daemons.keeperd.core.states import State
from daemons.keeperd.keys import ClusterViewer
from daemons.keeperd.renewer import Renewer
from daemons.keeperd.shell import Shell
from protocol.etcd.client import EtcdClient
from protocol.etcd.kv import ComparedField, Delete, Equals, EtcdError, Get, KeyValue, Put, Transaction
from protocol.keeperd import (
    AcceptRestoredEtcd,
    ClusterView,
    ReadKeeperdMetrics,
    SetMaintenance,
    ShowCluster,
    Switchover,
    Takeover,
    TestWatchdog,
)
from protocol.metrics import DaemonMetrics
from protocol.peer import Peer

# What operators ask of the mastership: move it, leave it where it is, take etcd as it is.
#
# Theory. A request is a key in etcd, so any candidate may be asked for it, and who holds the mastership, or wants it,
# obeys. What became of the request is a key as well, with the nonce of the request.
#
# Source: DESIGN section 14; lease.md 2 and 7.


# seconds in which etcd replies, or a request is refused
_HEARD_S: Final = 2.0
_log: Final = get_log(__name__)


class RequestHandlers:
    def __init__(self, shell: Shell, client: EtcdClient, keys: EtcdKeys, renewer: Renewer) -> None:
        self._shell = shell
        self._client = client
        self._keys = keys
        self._renewer = renewer

    async def switchover(self, call: Switchover, peer: Peer) -> str:
        """Raises: Conflict: it may not be, or another is pending. Unavailable: not in time; it is taken back."""
        wanted = OperatorRequest(
            kind=WantedKind.SWITCHOVER,
            node=call.node,
            kill=call.kill,
            limit_s=call.limit_s,
            nonce=secrets.token_hex(8),
            by=_name(peer),
        )
        wanted = await self._note(wanted)
        limit_s = call.limit_s or float("inf")
        with trio.move_on_after(limit_s):
            return await self._fulfilled(wanted)
        await self._take_back(wanted)
        raise Unavailable(
            f"the mastership was not moved within {limit_s:g} s, as jobs run on the master; the request is taken back: "
            "give it more time by --limit, or end the jobs by --kill"
        )

    async def takeover(self, call: Takeover, peer: Peer) -> str:
        """Raises: Conflict: it may not be, or there is a master, or the node dies before it is the master."""
        wanted = OperatorRequest(kind=WantedKind.TAKEOVER, node=call.node, nonce=secrets.token_hex(8), by=_name(peer))
        return await self._fulfilled(await self._note(wanted))

    async def maintenance(self, call: SetMaintenance, peer: Peer) -> None:
        """Raises: Conflict: somebody else has just changed it."""
        keeper = self._shell.present()
        found = await self._client.get(Get(self._keys.maintenance))
        revision = found.values[0].mod_revision if found.values else 0
        stored = [decode(pair.value, Maintenance, pair.key) for pair in found.values]
        known = [*stored, *([keeper.memory.maintenance] if keeper.memory.maintenance else [])]
        wanted = Maintenance(on=call.on, change=1 + max((each.change for each in known), default=0), by=_name(peer))
        when = [Equals(self._keys.maintenance, ComparedField.MODIFIED, revision)]
        outcome = await self._client.transact(Transaction(when, [Put(self._keys.maintenance, encode(wanted))]))
        if not outcome.succeeded:
            raise Conflict("maintenance has just been changed by somebody else; look, and ask again")
        _log.warning("maintenance.changed", on=call.on, by=wanted.by)
        self._shell.looker.look_now()

    async def accept_restore(self, _: AcceptRestoredEtcd, __: Peer) -> None:
        """Raises: Conflict: there is no doubt here."""
        keeper = self._shell.present()
        if keeper.state is not State.DOUBT:
            raise Conflict(
                f"keeperd on this node is not in doubt about etcd but in state '{keeper.state.value}'; nothing is to "
                "be accepted"
            )
        self._shell.report(RestoreAccepted())
        while self._shell.present().state is State.DOUBT:
            await self._shell.changed.wait()

    async def starve_watchdog(self, _: TestWatchdog, peer: Peer) -> None:
        """Raises: Conflict: there is none."""
        if not self._renewer.starve_watchdog():
            raise Conflict("this node has no watchdog: set 'watchdog' in [keeperd] of gantry.toml")
        _log.error("watchdog.starved", by=_name(peer), effect="the machine restarts if the watchdog works")
        await trio.lowlevel.checkpoint()

    async def _note(self, wanted: OperatorRequest) -> OperatorRequest:
        """Note it for whoever is, or will be, the master; return it with the whole name of its node.

        Raises: Conflict: nothing was noted; the message says why.
        """
        key = self._keys.wanted
        try:
            # what fails to be read leaves nothing behind; of a write nobody would know
            living = await self._living(_HEARD_S)
        except EtcdError as error:
            raise Conflict(
                f"etcd cannot be read, and without it nobody can become the master: {error.message}; see gantry cluster"
            ) from error
        wanted = attrs.evolve(wanted, node=living_node(wanted.node, living))
        put = Put(key, encode(wanted))
        outcome = await self._client.transact(
            Transaction([Equals(key, ComparedField.CREATED, 0)], [put], otherwise=[Get(key)])
        )
        if not outcome.succeeded:
            for pair in (pair for found in outcome.found for pair in found):
                pending = decode(pair.value, OperatorRequest, pair.key)
                if pending != wanted and not await self._replace(pair, pending, wanted):
                    raise Conflict(
                        f"another request is being fulfilled: {pending.kind.value} to '{pending.node or 'any node'}'; "
                        "wait for its end, or take it back: gantry cluster maintenance on, and then off"
                    )
        self._shell.looker.look_now()
        return wanted

    async def _replace(self, pair: KeyValue, pending: OperatorRequest, wanted: OperatorRequest) -> bool:
        """While no node is the master, nobody judges a request: the last word of an operator on a takeover counts.

        Returns: whether the request has taken the place of the pending one.
        """
        if wanted.kind is not WantedKind.TAKEOVER:
            return False
        verdict = OperatorReply(nonce=pending.nonce, refusal=f"a takeover to '{wanted.node}' was asked for instead")
        when = [
            Equals(pair.key, ComparedField.MODIFIED, pair.mod_revision),
            Equals(self._keys.master, ComparedField.CREATED, 0),
        ]
        puts = [Put(pair.key, encode(wanted)), Put(self._keys.verdict, encode(verdict))]
        outcome = await self._client.transact(Transaction(when, puts, otherwise=[Get(pair.key)]))
        return outcome.succeeded or any(
            decode(each.value, OperatorRequest, each.key) == wanted for found in outcome.found for each in found
        )

    async def _living(self, limit_s: float | None = None) -> Sequence[str]:
        """The names of the candidates whose keeperd runs, or ran a moment ago. Raises: EtcdError."""
        found = await self._client.get(Get(self._keys.members, is_prefix=True, keys_only=True), limit_s)
        # the record of a keeperd that has just begun follows
        own = [self._shell.keeper.me.node] if self._shell.keeper else []
        return list(dict.fromkeys([*own, *(pair.key.removeprefix(self._keys.members) for pair in found.values)]))

    async def _fulfilled(self, wanted: OperatorRequest) -> str:
        """Wait for the verdict; return the name of the master.

        An etcd that is silent for a while says nothing of the request: it is asked again.

        Raises: Conflict: it was refused, with the reason.
        """
        while True:
            changed = self._shell.changed
            try:
                if (master := await self._outcome(wanted)) is not None:
                    return master
            except EtcdError as error:
                _log.info("verdict.unread", reason=error.message, going_on="again until it is known")
            # a look comes at least each half lease
            await changed.wait()

    async def _outcome(self, wanted: OperatorRequest) -> str | None:
        """The name of the master by this request; None: it is not fulfilled yet. Raises: Conflict, EtcdError."""
        verdict = await self._verdict(wanted)
        if verdict is None:
            if wanted.kind is WantedKind.TAKEOVER and wanted.node not in await self._living():
                # there is no master who would refuse it
                await self._take_back(wanted)
                raise Conflict(
                    f"keeperd on '{wanted.node}' has ended before it was the master; the request is taken back"
                )
            return None
        if verdict.refusal:
            raise Conflict(verdict.refusal)
        found = await self._client.get(Get(self._keys.master))
        return next((decode(pair.value, MasterRecord, pair.key).node for pair in found.values), wanted.node)

    async def _verdict(self, wanted: OperatorRequest) -> OperatorReply | None:
        """What became of the request; None: it is still there. Raises: EtcdError."""
        asked = Transaction((), [Get(self._keys.verdict), Get(self._keys.wanted)])
        verdicts, pending = (await self._client.transact(asked)).found
        for pair in verdicts:
            if (verdict := decode(pair.value, OperatorReply, pair.key)).nonce == wanted.nonce:
                return verdict
        if any(decode(pair.value, OperatorRequest, pair.key) == wanted for pair in pending):
            return None
        return OperatorReply(nonce=wanted.nonce, refusal="it was taken back, or another request has followed it since")

    async def _take_back(self, wanted: OperatorRequest) -> None:
        found = await self._client.get(Get(self._keys.wanted))
        for pair in found.values:
            if decode(pair.value, OperatorRequest, pair.key) == wanted:
                when = [Equals(pair.key, ComparedField.MODIFIED, pair.mod_revision)]
                await self._client.transact(Transaction(when, [Delete(pair.key)]))
        self._shell.looker.look_now()


def _name(peer: Peer) -> str:
    """The caller, for the log and the history."""
    if isinstance(peer.caller, str):
        return peer.caller
    try:
        return pwd.getpwuid(peer.uid).pw_name
    except KeyError:
        return str(peer.uid)


# Show the mastership.
#
# Source: DESIGN section 14.


class ClusterViewHandlers:
    """Args: problems: tells what is wrong here, in words for an operator."""

    def __init__(
        self, shell: Shell, views: ClusterViews, viewer: ClusterViewer, problems: Callable[[], Sequence[str]]
    ) -> None:
        self._shell = shell
        self._views = views
        self._viewer = viewer
        self._problems = problems

    async def show_cluster(self, _: ShowCluster, __: Peer) -> ClusterView:
        """Raises: Unavailable: keeperd is just starting."""
        return await self._views.view(self._shell.present(), self._viewer.heard_at, self._problems())

    async def read_metrics(self, _: ReadKeeperdMetrics, peer: Peer) -> DaemonMetrics:
        """Raises: as `show_cluster`."""
        view = await self.show_cluster(ShowCluster(), peer)
        return DaemonMetrics(own_use(release(), unwatched()), tuple(read(mastership_now(view))))
