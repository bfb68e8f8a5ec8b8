"""keeperd: the only module that knows all its parts.

Source: DESIGN section 14.
"""

import os
from typing import Final

import trio

from common.daemons import Feature
from common.lease.deadline import FullnessWriter
from common.lease.records import EtcdKeys
from common.lease.times import check_times, watchdog_s
from common.settings import Settings
from common.system.daemon import run_daemon, tell_if_enabled
from common.system.inthread import in_thread
from daemons.keeperd.ailments import Ailments, Memories
from daemons.keeperd.clusterview import ClusterViews, member_record
from daemons.keeperd.core.events import StopAsked
from daemons.keeperd.core.keeper import Me
from daemons.keeperd.handlers import ClusterViewHandlers, RequestHandlers
from daemons.keeperd.health import HealthPages
from daemons.keeperd.identity import KeeperIdentity
from daemons.keeperd.keys import Campaigner, Chronicle, ClusterViewer, MasterKeys, Membership
from daemons.keeperd.mastershipacts import Address, Draining, Fencing, MastershipParts, NodeTeller, check_programs
from daemons.keeperd.renewer import Renewer
from daemons.keeperd.rpc import KeeperdHandlers, routes
from daemons.keeperd.servants import Servants
from daemons.keeperd.shell import Shell
from daemons.keeperd.storekeeping import StoreKeeping
from protocol.etcd.address import EtcdAddress
from protocol.etcd.client import EtcdClient
from protocol.http.connections import Connections, open_listener
from protocol.serving.bounds import BudgetLimits, ConnectionLimits
from protocol.serving.server import ServerRules, serve_unix
from protocol.serving.service import Service

NAME: Final = "keeperd"
# seconds to give the mastership up when keeperd is ended
_END_S: Final = 25.0
_IDLE_S: Final = 60.0


def main() -> None:
    """The program gantry-keeperd; with --check-enabled its exit code says whether the settings enable it."""
    tell_if_enabled(Feature.LEASE)
    run_daemon(NAME, "Holds the mastership under a lease.", serve)


async def serve(settings: Settings, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    """Run keeperd; started when its socket listens, whatever etcd does.

    Raises: InvalidRequest: the settings do not fit each other. DamagedFile, OSError: its memory cannot be read.
        Unavailable: the port for health checks is taken.
    Cancellation: the mastership is given up first, if there is one: what runs under it ends, then its key goes.
    """
    check_times(settings.keeperd, settings.etcd)
    check_programs(settings.keeperd)
    identity = KeeperIdentity.of(settings.cluster.own_name)
    memories = await in_thread(Memories, settings.paths.lease_memory, identity.nonce)
    async with EtcdClient(EtcdAddress.of(settings)) as client:
        keeperd = _Keeperd(settings, identity, memories, client)
        await _end_in_order(keeperd, task_status)


async def _end_in_order(keeperd: "_Keeperd", task_status: trio.TaskStatus[None]) -> None:
    """Work until the machine ends; when cancelled, have it end, within a time."""
    scope = trio.CancelScope(shield=True)

    async def ask() -> None:
        try:
            await trio.sleep_forever()
        finally:
            scope.deadline = trio.current_time() + _END_S
            keeperd.shell.report(StopAsked())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        with scope:
            await keeperd.work(task_status)
        nursery.cancel_scope.cancel()


class _Keeperd:
    """All parts, wired."""

    def __init__(self, settings: Settings, identity: KeeperIdentity, memories: Memories, client: EtcdClient) -> None:
        self._settings = settings
        self._client = client
        self._keys = keys = EtcdKeys(settings.etcd.prefix)
        self._me = me = _me(settings, identity)
        self.shell = shell = Shell(me)
        ailments = Ailments(settings, shell.report)
        self._renewer = Renewer(settings, shell.report, lambda: shell.is_well, ailments.watchdog)
        self._viewer = ClusterViewer(client, keys, identity, memories.nonces)
        self._chronicle = Chronicle(client, keys, identity.node)
        self._parts = MastershipParts(
            keys=MasterKeys(client, keys, Campaigner(identity, me.ttl_s, me.watchdog_s)),
            teller=NodeTeller(settings),
            servants=Servants(settings, shell.report),
            memories=memories,
            renewer=self._renewer,
            fencing=Fencing(settings),
            address=Address(settings),
            draining=Draining(settings),
            ailments=ailments,
        )
        self._member = Membership(
            client, keys, identity, memories.nonces, lambda: member_record(shell.keeper, identity), me.ttl_s
        )
        self._store = StoreKeeping(client, keys, FullnessWriter(settings.paths.fullness_file))
        self._views = ClusterViews(settings, client, keys, identity, self._chronicle)
        shell.on_change(lambda _: self._member.tell())
        shell.on_change(self._chronicle.hear)
        shell.on_change(self._store.hear)

    async def work(self, task_status: trio.TaskStatus[None]) -> None:
        """Until the machine ends."""
        settings, shell = self._settings, self.shell
        address, port = settings.keeperd.address or settings.noded.address, settings.keeperd.port
        with open_listener(address, port, where="'address' and 'port' in [keeperd]") as listener:
            async with trio.open_nursery() as nursery:
                await nursery.start(self._renewer.run)
                nursery.start_soon(self._health().serve, listener)
                await nursery.start(serve_unix, settings.paths.keeperd_socket, self._service(), _rules(settings))
                nursery.start_soon(self._member.run)
                nursery.start_soon(self._chronicle.run)
                nursery.start_soon(self._store.run, lambda: shell.keeper)
                nursery.start_soon(self._parts.ailments.run, lambda: not self._renewer.wants_watchdog)
                nursery.start_soon(shell.looker.look, self._me.ttl_s / 2, self._viewer)
                for prefix in (self._keys.master, self._keys.wanted):
                    nursery.start_soon(shell.looker.watch, self._client, prefix)
                task_status.started()
                await shell.run(self._parts)
                nursery.cancel_scope.cancel()
        await self._parts.teller.close()

    def _health(self) -> Connections:
        shell = self.shell
        return HealthPages(self._me.node, lambda: shell.keeper, lambda: shell.is_well).pages().connections()

    def _service(self) -> Service:
        cluster = ClusterViewHandlers(self.shell, self._views, self._viewer, self._problems)
        requests = RequestHandlers(self.shell, self._client, self._keys, self._renewer)
        return Service(routes(KeeperdHandlers(cluster, requests)))

    def _problems(self) -> list[str]:
        """What is wrong here, in words for an operator."""
        return [*self._parts.ailments.reasons, *self._store.problems]


def _me(settings: Settings, identity: KeeperIdentity) -> Me:
    return Me(
        node=identity.node,
        boot_id=identity.boot_id,
        ttl_s=settings.keeperd.ttl_s,
        request_s=settings.etcd.request_timeout_s,
        priority=settings.keeperd.priority,
        watchdog_s=watchdog_s(settings.keeperd),
    )


def _rules(settings: Settings) -> ServerRules:
    access = settings.access_table(os.getuid())
    return ServerRules(
        idle_timeout_s=_IDLE_S,
        access=access,
        socket_mode=settings.access.socket_mode | (0o666 if access.is_shared else 0),
        connections=ConnectionLimits.of(settings.limits),
        budget=BudgetLimits.of(settings.limits),
    )


if __name__ == "__main__":
    main()
