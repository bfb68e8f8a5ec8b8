"""keeperd: the only module that knows all its parts.

Source: DESIGN section 14.
"""

from collections.abc import Awaitable, Callable
from typing import Final

import trio

from common.daemons import Feature
from common.lease.keys import Keys
from common.lease.times import check_times, watchdog_s
from common.settings import Settings
from common.system.daemons.daemon import run_daemon
from common.system.daemons.listenoptions import tell_if_enabled
from common.system.inthread import in_thread
from common.system.log import get_log
from daemons.keeperd.addressing import Address
from daemons.keeperd.core.keeper import Me
from daemons.keeperd.core.words import StopAsked
from daemons.keeperd.draining import Draining
from daemons.keeperd.fenceagents import Fencing, check_programs
from daemons.keeperd.identity import Identity
from daemons.keeperd.keys.masterkeys import Campaigner, MasterKeys
from daemons.keeperd.keys.memberrecord import Membership
from daemons.keeperd.keys.viewing import Viewer
from daemons.keeperd.memories import Memories
from daemons.keeperd.renewer import Renewer
from daemons.keeperd.servants import Servants
from daemons.keeperd.shell import Parts, Shell
from daemons.keeperd.standing import member_record
from daemons.keeperd.telling import NodeTeller
from protocol.etcd.address import EtcdAddress
from protocol.etcd.client import EtcdClient

NAME: Final = "keeperd"
# seconds to give the mastership up when keeperd is ended
_END_S: Final = 25.0
_log: Final = get_log(__name__)


def main() -> None:
    """The program gantry-keeperd; with --check-enabled its exit code says whether the settings enable it."""
    tell_if_enabled(Feature.LEASE)
    run_daemon(NAME, "Holds the mastership under a lease.", serve)


async def serve(settings: Settings, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    """Run keeperd; started when its socket listens, whatever etcd does.

    Raises: InvalidRequest: the settings do not fit each other. DamagedFile, OSError: its memory cannot be read.
    Cancellation: the mastership is given up first, if there is one: what runs under it ends, then its key goes.
    """
    check_times(settings.keeperd, settings.etcd)
    check_programs(settings.keeperd)
    identity = Identity.of(settings.cluster.own_name)
    memories = await in_thread(Memories, settings.paths.lease_memory, identity.nonce)
    me = Me(
        node=identity.node,
        boot_id=identity.boot_id,
        ttl_s=settings.keeperd.ttl_s,
        request_s=settings.etcd.request_timeout_s,
        priority=settings.keeperd.priority,
        watchdog_s=watchdog_s(settings.keeperd),
    )
    shell = Shell(me)
    keys = Keys(settings.etcd.prefix)
    async with EtcdClient(EtcdAddress.of(settings)) as client:
        campaigner = Campaigner(identity, me.ttl_s, me.watchdog_s)
        renewer = Renewer(settings, shell.report, lambda: shell.is_well)
        viewer = Viewer(client, keys, identity, memories.earlier_nonce)
        parts = Parts(
            keys=MasterKeys(client, keys, campaigner),
            teller=NodeTeller(settings),
            servants=Servants(settings, shell.report),
            memories=memories,
            renewer=renewer,
            fencing=Fencing(settings),
            address=Address(settings),
            draining=Draining(settings),
        )
        member = Membership(
            client, keys, identity, memories.earlier_nonce, lambda: member_record(shell.keeper, identity), me.ttl_s
        )
        shell.on_change(lambda _: member.tell())

        async def work(scope: trio.CancelScope) -> None:
            with scope:
                async with trio.open_nursery() as nursery:
                    await nursery.start(renewer.run)
                    nursery.start_soon(member.run)
                    nursery.start_soon(shell.look, me.ttl_s / 2, viewer)
                    for prefix in (keys.master, keys.wanted):
                        nursery.start_soon(shell.watch, client, prefix)
                    task_status.started()
                    await shell.run(parts)
                    nursery.cancel_scope.cancel()
            await parts.teller.close()

        await _end_in_order(shell, work)


async def _end_in_order(shell: Shell, work: Callable[[trio.CancelScope], Awaitable[None]]) -> None:
    """Work until the machine ends; when cancelled, have it end, within a time."""
    scope = trio.CancelScope(shield=True)

    async def ask() -> None:
        try:
            await trio.sleep_forever()
        finally:
            scope.deadline = trio.current_time() + _END_S
            shell.report(StopAsked())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await work(scope)
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    main()
