"""The question that each daemon of the master answers before it begins: is this node the master?

Under a lease in etcd no node is asked: keeperd has won the mastership for this node, or it is not the master. From then
on the daemon ends by itself when the mastership has run out.

Source: masterfailover.md 1 and 2; DESIGN sections 12 and 14.
"""

from collections.abc import Callable
from typing import Final

from common.errors import InvalidRequest
from common.nodes.mastership import forget_not_master, needs_no_vote, own_epoch
from common.nodes.nodeplace import master_name, node_ips
from common.replica.replica import NoLongerMaster
from common.settings import Settings
from common.system.inthread import in_thread
from common.system.log import get_log
from common.system.program import DaemonOptions

_log: Final = get_log(__name__)


async def check_master(settings: Settings, options: DaemonOptions) -> None:
    """Return if this node is the master; on one machine at once. With other nodes, more than half must say so.

    Where the mastership is held under a lease, this process ends from now on when the lease has run out.

    Raises:
        NoLongerMaster: another node is; this one must not write.
        Unavailable: too few nodes reply.
        InvalidRequest: the vote is to be skipped, but not confirmed.
        DamagedFile, OSError: the epoch, the grant or a file of ssconf cannot be read.
    """
    if settings.cluster.has_lease:
        await in_thread(_check_lease, settings)
        return
    if options.no_voting and not options.yes_do_it:
        raise InvalidRequest("without a vote two nodes may be masters at a time; if you are sure, add --yes-do-it")
    if not settings.cluster.has_nodes:
        return
    await in_thread(_check_own_files, settings, options)
    voters = await in_thread(node_ips, settings.paths)
    if len(voters) > 1:
        await _vote(settings, options, voters=dict(voters))
    await in_thread(forget_not_master, settings.paths)


def reply_guard(settings: Settings) -> Callable[[], None] | None:
    """What a daemon of the master calls before each reply; it ends when the mastership has run out."""
    if not settings.cluster.has_lease:
        return None
    # imported late: most installations are one machine
    from common.system.leaseguard import end_if_passed

    return end_if_passed


def _check_lease(settings: Settings) -> None:
    # imported late: most installations are one machine
    from common.lease.grant import read_held
    from common.system.leaseguard import end_at_deadline

    paths = settings.paths
    held = read_held(paths)
    if held is None:
        raise NoLongerMaster("this node does not hold the mastership; 'gantry cluster' tells who does")
    epoch = own_epoch(paths.epoch_file, settings.cluster.own_name)
    if epoch != held.grant.fence.epoch:
        raise NoLongerMaster(
            f"this node's mastership has epoch {held.grant.fence.epoch}, but it has heard of {epoch} as its own; its "
            "node daemon must be told first, which keeperd does"
        )
    end_at_deadline(held.deadline)
    forget_not_master(paths)


def _check_own_files(settings: Settings, options: DaemonOptions) -> None:
    own_name = settings.cluster.own_name
    own_epoch(settings.paths.epoch_file, own_name)
    master = master_name(settings.paths)
    if master and master != own_name and not options.force_node:
        raise NoLongerMaster(f"this node is not the master; {master} is, by this node's files of ssconf")


async def _vote(settings: Settings, options: DaemonOptions, *, voters: dict[str, str]) -> None:
    paths, own_name = settings.paths, settings.cluster.own_name
    epoch = await in_thread(own_epoch, paths.epoch_file, own_name)
    if options.no_voting or await in_thread(needs_no_vote, paths.no_voting_note, epoch):
        _log.warning("votes.not_asked", nodes=len(voters), reason="an operator wants it so")
        return
    # imported late: TLS and HTTP are needed only where there are other nodes
    from protocol.noded.call import NodeAddress
    from protocol.noded.clients.certificates import CertificateFiles
    from protocol.noded.clients.client import NodeClient
    from protocol.noded.clients.voting import Contender, win_vote

    nodes = [NodeAddress(name, ip, settings.noded.port) for name, ip in voters.items()]
    async with NodeClient(CertificateFiles.of(paths)) as client:
        await win_vote(client, nodes, Contender(own_name, epoch))
