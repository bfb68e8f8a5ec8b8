"""The mastership and all that have a part in it, as this keeperd knows them.

Source: DESIGN section 14; lease.md 2.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Final

import attrs
import trio

from common.errors import GantryError
from common.lease.deadline import boottime
from common.lease.records import Change, EtcdKeys, MemberRecord, Role
from common.metrics import Metrics, gauge
from common.nodes.nodeplace import candidate_names
from common.settings import Settings
from common.system.inthread import in_thread
from common.system.log import get_log
from common.system.program import release
from common.wire import structure
from daemons.keeperd.core.fitness import bars, only_lacks_copies
from daemons.keeperd.core.keeper import Keeper
from daemons.keeperd.core.states import ROLES, State
from daemons.keeperd.identity import KeeperIdentity
from daemons.keeperd.keys import Chronicle, number_in
from protocol.client import Client
from protocol.etcd.address import Endpoint, EtcdAddress
from protocol.etcd.client import EtcdClient
from protocol.etcd.kv import EtcdError, Get, Transaction
from protocol.keeperd import ClusterView, EtcdMemberView, MemberView
from protocol.luxi.queries import QUEUE_LAGS, QueryConfigValues, QueueLag
from protocol.wconfd.config import ListNodesBehind

# What this keeperd says of itself.
#
# Source: lease.md 2.


def member_record(keeper: Keeper | None, identity: KeeperIdentity) -> MemberRecord:
    """The record of this node as a member."""
    state = keeper.state if keeper else State.OFF
    return MemberRecord(
        node=identity.node,
        nonce=identity.nonce,
        machine_id=identity.machine_id,
        boot_id=identity.boot_id,
        release=release(),
        state=state.value,
        role=ROLES[state],
        reasons=_reasons(keeper) if keeper else (),
        lacks_copies=keeper is not None and only_lacks_copies(keeper, boottime()),
        priority=keeper.me.priority if keeper else 0,
        epoch=keeper.memory.epoch if keeper else 0,
    )


def _reasons(keeper: Keeper) -> tuple[str, ...]:
    found = tuple(bar.reason for bar in bars(keeper, boottime()))
    if not keeper.is_draining or keeper.leaving is None:
        return found
    to = f"'{keeper.leaving.node}'" if keeper.leaving.node else "another node"
    what = "the jobs that run here are being killed" if keeper.leaving.kill else "the jobs that run here end first"
    return (*found, f"makes way for {to}; {what}; take it back: gantry cluster maintenance on, and then off")


# limit of each question
_ASK_S: Final = 2.0
# entries that are counted
_MOST_DIRTY: Final = 10_000
_log: Final = get_log(__name__)


@attrs.define
class _Replies:
    """What was asked for one view; what nobody told stays unknown."""

    etcd: list[EtcdMemberView] = attrs.Factory(list)
    alarms: Sequence[str] = ()
    history: Sequence[Change] = ()
    stale: frozenset[str] = frozenset()
    synced: Mapping[str, int] = attrs.Factory(dict)
    dirty: int | None = None
    lags: Mapping[str, int] | None = None
    behind: frozenset[str] | None = None
    candidates: Sequence[str] = ()


class ClusterViews:
    """Makes such views; each asks anew."""

    def __init__(
        self, settings: Settings, client: EtcdClient, keys: EtcdKeys, identity: KeeperIdentity, chronicle: Chronicle
    ) -> None:
        self._settings = settings
        self._client = client
        self._keys = keys
        self._identity = identity
        self._chronicle = chronicle

    async def view(self, keeper: Keeper, heard_at: float | None, problems: Sequence[str]) -> ClusterView:
        """All that is known, within some seconds, whoever is silent.

        Args: heard_at: when etcd was heard last, by `boottime`; None: never.
        """
        found = _Replies()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._ask_keys, found)
            nursery.start_soon(self._read_candidates, found)
            nursery.start_soon(self._ask_members, found)
            if keeper.held is not None:
                nursery.start_soon(self._ask_luxid, found)
                nursery.start_soon(self._ask_wconfd, found)
        now = boottime()
        seen = keeper.view
        own = member_record(keeper, self._identity)
        records = {**(seen.others if seen else {}), own.node: own}
        # a key of this node without a mastership here is one that it has lost
        other = seen.master.node if seen and seen.master and seen.master.node != own.node else ""
        # the record of a member goes with its lease; where etcd was not read, no silence is known
        silent = [name for name in found.candidates if name not in records] if seen else []
        master = own.node if keeper.held else other
        members = [self._member(record, found, master) for record in (*records.values(), *map(_silent, silent))]
        return ClusterView(
            asked=own.node,
            state=own.state,
            master=master,
            epoch=keeper.held.epoch if keeper.held else keeper.memory.epoch,
            ttl_s=self._settings.keeperd.ttl_s,
            valid_s=keeper.valid_s(now),
            members=tuple(sorted(members, key=lambda each: each.name)),
            etcd=tuple(sorted(found.etcd, key=lambda each: each.endpoint)),
            dirty=found.dirty,
            alarms=tuple(found.alarms),
            etcd_heard_s=None if heard_at is None else max(0.0, now - heard_at),
            maintenance=keeper.in_maintenance,
            history=tuple(found.history),
            problems=tuple(problems),
        )

    def _member(self, record: MemberRecord, found: _Replies, master: str) -> MemberView:
        # the record of a master that has died outlives its mastership by some seconds
        was_master = record.role is Role.MASTER and record.node != master
        return MemberView(
            name=record.node,
            role=Role.WAS_MASTER if was_master else record.role,
            state=record.state,
            epoch=record.epoch,
            release=record.release,
            priority=record.priority,
            reasons=record.reasons,
            copies=_copies(record.node, found),
            lag_files=None if found.lags is None else found.lags.get(record.node, 0),
            config_behind=None if found.behind is None else record.node in found.behind,
            since_s=max(0.0, time.time() - record.at) if record.at else None,
        )

    async def _read_candidates(self, found: _Replies) -> None:
        try:
            found.candidates = await in_thread(candidate_names, self._settings.paths)
        except OSError as error:
            _log.warning("candidates.unread", reason=error)

    async def _ask_keys(self, found: _Replies) -> None:
        keys = self._keys
        gets = [
            Get(keys.stales, is_prefix=True),
            Get(keys.synceds, is_prefix=True),
            Get(keys.dirty, is_prefix=True, keys_only=True, limit=_MOST_DIRTY),
            Get(keys.config, is_prefix=True, keys_only=True, limit=_MOST_DIRTY),
        ]
        try:
            stale, synced, dirty, config = (await self._client.transact(Transaction((), gets), _ASK_S)).found
            found.history = await self._chronicle.read()
        except EtcdError as error:
            _log.info("etcd.silent", reason=error.message)
            return
        found.stale = frozenset(pair.key.removeprefix(keys.stales) for pair in stale)
        found.synced = {pair.key.removeprefix(keys.synceds): number_in(pair) for pair in synced}
        found.dirty = len(dirty) + len(config)

    async def _ask_members(self, found: _Replies) -> None:
        names: dict[str, str] = {}
        try:
            names = {each.member_id: each.name for each in await self._client.members(_ASK_S)}
            found.alarms = sorted({alarm.kind for alarm in await self._client.alarms(_ASK_S)})
        except EtcdError as error:
            _log.info("etcd.silent", reason=error.message)
        async with trio.open_nursery() as nursery:
            for endpoint in EtcdAddress.of(self._settings).endpoints:
                nursery.start_soon(self._ask_member, endpoint, names, found)

    async def _ask_member(self, endpoint: Endpoint, names: Mapping[str, str], found: _Replies) -> None:
        try:
            status = await self._client.status(endpoint, _ASK_S)
        except EtcdError as error:
            found.etcd.append(EtcdMemberView(name="", endpoint=str(endpoint), failure=error.message))
            return
        found.etcd.append(
            EtcdMemberView(
                name=names.get(status.member_id, ""),
                endpoint=str(endpoint),
                version=status.release,
                is_leader=status.is_leader,
                db_bytes=status.size,
                quota_bytes=status.quota or await self._quota(endpoint),
            )
        )

    async def _quota(self, endpoint: Endpoint) -> int:
        """By its metrics, as releases before 3.6 tell it; 0: they are not to be had."""
        try:
            return await self._client.quota(endpoint, _ASK_S)
        except EtcdError:
            return 0

    async def _ask_luxid(self, found: _Replies) -> None:
        try:
            with trio.fail_after(_ASK_S):
                async with Client(self._settings.paths.query_socket, daemon="luxid") as luxid:
                    (value,) = await luxid.call(QueryConfigValues((QUEUE_LAGS,)))
        except (GantryError, trio.TooSlowError):
            return
        if value is not None:
            lags = structure(value, tuple[QueueLag, ...], QUEUE_LAGS)
            found.lags = {lag.node: lag.files for lag in lags}

    async def _ask_wconfd(self, found: _Replies) -> None:
        try:
            with trio.fail_after(_ASK_S):
                async with Client(self._settings.paths.wconfd_socket, daemon="wconfd") as wconfd:
                    found.behind = frozenset(each.name for each in await wconfd.call(ListNodesBehind()))
        except (GantryError, trio.TooSlowError):
            return


def _silent(name: str) -> MemberRecord:
    """In place of the record that a candidate lacks."""
    return MemberRecord(node=name, nonce="", machine_id="", boot_id="", release="", state="", role=Role.SILENT)


def _copies(node: str, found: _Replies) -> str:
    if node in found.stale:
        return "stale"
    if found.lags is None:
        return "unknown" if node not in found.synced else "fresh"
    return "catching up" if found.lags.get(node) else "fresh"


# Numbers of the mastership for graphs and alerts.
#
# Source: DESIGN section 15.


@attrs.frozen(kw_only=True)
class MastershipNow(Metrics):
    is_master: bool = gauge("is_master", "1 if this node is the master.", begin=bool)
    epoch: int = gauge("mastership_epoch", "Highest epoch that this node has heard of.")
    valid_s: float = gauge(
        "lease_valid_seconds",
        "Time for which this node may act as the master without a renewal; 0: it is not the master.",
    )
    # None: not known
    dirty: int | None = gauge("etcd_changes", "All changes that are kept in etcd, since a candidate may lack them.")
    etcd_heard_s: float | None = gauge("etcd_silence_seconds", "Time since etcd has replied to this node last.")
    alarms: int = gauge("etcd_alarms", "Alarms that etcd has raised.")
    etcd_members: int = gauge("etcd_members", "Members of etcd that this node knows.")
    silent: int = gauge("etcd_members_silent", "Members of etcd that do not reply.")
    etcd_bytes: int = gauge("etcd_size_bytes", "Size of the largest member of etcd.")
    stale: int = gauge("candidates_stale", "Candidates that were away too long, and may not become the master.")
    maintenance: bool = gauge("maintenance", "1 if the mastership stays where it is.", begin=bool)


def mastership_now(view: ClusterView) -> MastershipNow:
    sizes = [member.db_bytes for member in view.etcd if member.version]
    return MastershipNow(
        is_master=view.master == view.asked,
        epoch=view.epoch,
        valid_s=view.valid_s or 0.0,
        dirty=view.dirty,
        etcd_heard_s=view.etcd_heard_s,
        alarms=len(view.alarms),
        etcd_members=len(view.etcd),
        silent=len(view.etcd) - len(sizes),
        etcd_bytes=max(sizes, default=0),
        stale=sum(member.copies == "stale" for member in view.members),
        maintenance=view.maintenance,
    )
