"""What `gnt-cluster verify` checks of the lease and of certificates."""

import os
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from cli.connection import ask_luxid
from common.errors import GantryError
from common.featuresettings import KeeperdSettings
from common.lease.records import Role
from common.nodes.certificates import faults_in_file
from common.settings import Settings
from protocol.etcd.member import BROKEN_RELEASES
from protocol.keeperd import ClusterView, EtcdMemberView, MemberView
from protocol.luxi.queries import QueryNodes
from protocol.noded.call import Failed, NodeAddress, Outcome, Replied
from protocol.noded.clients.blocking import BlockingNodeClient
from protocol.noded.clients.certificates import CertificateFiles
from protocol.noded.facts import Check, NodeVerify

# What is wrong with etcd, the mastership, and what is to end an old master, for `gnt-cluster verify`.
#
# Source: DESIGN section 14; lease.md 5 and 6.


# part of its quota from which etcd counts as nearly full
_NEARLY_FULL: Final = 0.8
# programs that say that they have fenced a node, and do nothing
_SHAM: Final = ("true", "false", "echo", "sleep")


def lease_problems(view: ClusterView, *, allows_broken: bool) -> Sequence[str]:
    """Faults of etcd and of the mastership. Args: allows_broken: whether the settings allow bad releases of etcd."""
    return [*_mastership(view), *_etcd(view, allows_broken=allows_broken), *_members(view)]


def lease_notes(view: ClusterView) -> Sequence[str]:
    """What is worth telling, and no fault."""
    notes = []
    if view.maintenance:
        notes.append("maintenance is on: no node takes over by itself; end it with 'gantry cluster maintenance off'")
    if len(view.etcd) % 2 == 0 and view.etcd:
        notes.append(f"etcd has {len(view.etcd)} members, which tolerate no more losses than {len(view.etcd) - 1} do")
    elif len(view.etcd) == 1:
        notes.append("etcd has one member: when it is lost, nothing is acknowledged and nobody takes over")
    if view.dirty:
        notes.append(f"{view.dirty} changes are kept in etcd, since a candidate may lack them")
    for member in view.members:
        if member.copies == "catching up":
            notes.append(f"node '{member.name}' is being compared, and cannot take over before that is done")
    return notes


def guard_problems(settings: KeeperdSettings) -> Sequence[str]:
    """Faults of what this node uses to end an old master: its watchdog, fence agents, and the address program."""
    found = list(_watchdog(settings.watchdog))
    for program in settings.fence:
        found += _program(program, "the fence agent", is_fence=True)
    if settings.address_program:
        found += _program(settings.address_program, "the address program", is_fence=False)
    return found


def guard_notes(settings: KeeperdSettings) -> Sequence[str]:
    if settings.watchdog or settings.fence:
        return []
    return [
        "neither a watchdog nor a fence agent is configured: locks of jobs on a master that is silent are kept until "
        "its node daemon replies, or an operator says 'gantry fenced NODE'"
    ]


def _mastership(view: ClusterView) -> Iterator[str]:
    if not view.master:
        yield f"no node is the master; the last epoch is {view.epoch}; 'gantry cluster' tells the reasons of each node"
    yield from view.problems


def _etcd(view: ClusterView, *, allows_broken: bool) -> Iterator[str]:
    for alarm in view.alarms:
        yield f"etcd has raised the alarm {alarm}; see 'gantry cluster', and deploy/etcd for what to do"
    for member in view.etcd:
        yield from _etcd_member(member, allows_broken=allows_broken)


def _etcd_member(member: EtcdMemberView, *, allows_broken: bool) -> Iterator[str]:
    if member.failure or not member.version:
        yield f"etcd's member '{member.name}' at {member.endpoint} does not reply: {member.failure or 'no version'}"
        return
    if member.version in BROKEN_RELEASES and not allows_broken:
        yield f"etcd's member '{member.name}' is of {member.version}, which may lose data when it crashes; upgrade it"
    if member.quota_bytes and member.db_bytes > _NEARLY_FULL * member.quota_bytes:
        share = round(100 * member.db_bytes / member.quota_bytes)
        yield (
            f"etcd's member '{member.name}' has used {share} % of its quota of {member.quota_bytes} bytes; when it is "
            "full no job is taken and nobody takes over"
        )


def _members(view: ClusterView) -> Iterator[str]:
    for member in view.members:
        yield from _member(member)


def _member(member: MemberView) -> Iterator[str]:
    if member.role is Role.DOUBT:
        yield f"node '{member.name}' is in doubt: etcd is older than what it remembers; see 'gantry cluster'"
    if member.copies == "stale":
        how = "start it" if member.role is Role.SILENT else "it is catching up"
        yield (
            f"node '{member.name}' is new, or was away so long that nothing is kept for it, and cannot take over: {how}"
        )
    elif member.role is Role.SILENT:
        yield (
            f"node '{member.name}' is silent, and cannot take over: its keeperd does not run, or does not reach etcd; "
            "see 'gantry status' there"
        )


def _watchdog(path: str) -> Iterator[str]:
    if not path:
        return
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        yield (
            f"the watchdog '{path}' cannot be used: {error.strerror}; load its driver, such as softdog, or correct "
            "'watchdog' in [keeperd]"
        )
        return
    if not stat.S_ISCHR(mode):
        yield f"the watchdog '{path}' is not a device; correct 'watchdog' in [keeperd]"


def _program(text: str, what: str, *, is_fence: bool) -> Iterator[str]:
    if is_fence and os.path.basename(text) in _SHAM:
        yield f"{what} '{text}' fences nothing, and says that it has; name a program that cuts the power or resets"
    elif shutil.which(text) is None:
        lacks = "may not be executed: chmod +x" if os.path.exists(text) else "is not there"
        yield f"{what} '{text}' {lacks}"


# The certificates of the cluster and of all nodes, for `gnt-cluster verify`.


_FIELDS: Final = ("name", "pip", "offline")
_LIMIT_S: Final = 15.0
_RENEW: Final = "renew it with: gnt-cluster renew-crypto"


def certificate_problems(settings: Settings) -> list[str]:
    """What is wrong with the certificates on this node, and on the others if luxid can be asked which they are.

    Raises: PermissionError: this user may not read this node's certificate.
    """
    paths = settings.paths
    own = [*faults_in_file(paths.server_pem), *faults_in_file(paths.client_pem)]
    if paths.next_server_pem.exists():
        own.append("a renewal of the cluster's certificate is not finished; finish it with: gnt-cluster renew-crypto")
    client = BlockingNodeClient(CertificateFiles.of(paths))
    call = NodeVerify({Check.CLIENT_CERT.value: None}, "", {})
    return [*own, *_problems_of(client.call_nodes(_online_nodes(settings.noded.port), call, _LIMIT_S))]


def _online_nodes(port: int) -> list[NodeAddress]:
    """All nodes that are online; none if luxid cannot be asked, which another check reports."""
    try:
        rows = ask_luxid(QueryNodes((), _FIELDS))
    except GantryError:
        return []
    return [NodeAddress(str(name), str(ip), port) for name, ip, offline in rows if not offline]


def _problems_of(outcomes: Mapping[str, Outcome[Mapping[str, object]]]) -> Iterator[str]:
    for name, outcome in outcomes.items():
        if isinstance(outcome, Failed):
            yield f"the certificate of node '{name}' could not be checked: {outcome.text}"
        elif isinstance(outcome, Replied):
            finding = outcome.value.get(Check.CLIENT_CERT.value)
            # Ganeti's pair: the weight of a fault and its text, or null
            if isinstance(finding, list | tuple) and len(finding) == 2 and finding[0] is not None:
                yield f"node '{name}': {finding[1]}; {_RENEW} --new-node-certificates"
