"""noded's procedures: the class of the call, its handler, and whether it changes anything; one row each.

All other procedures of Ganeti's node daemon are known and refused, see `protocol.noded.procedures`.

Source: noded.md 5.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, Protocol, TypeVar, cast

import attrs

from common.errors import Unavailable
from common.nodes.mastership import parse_epoch
from common.system.inthread import in_thread
from daemons.noded.callers import Callers
from daemons.noded.epochs import Epochs
from daemons.noded.handlers.facts import FactsHandlers, InstanceHandlers
from daemons.noded.handlers.files import QueueHandlers, StateHandlers, UploadHandlers
from daemons.noded.handlers.mastership import FailoverHandlers
from daemons.noded.handlers.membership import MembershipHandlers, RenewalHandlers
from daemons.noded.handlers.verifying import VerifyHandlers
from daemons.noded.handlers.work import CommandHandlers, WorkHandlers
from protocol.noded import commands, facts, files, membership, statefiles
from protocol.noded.call import AnyCall, read_request, reply_body
from protocol.noded.procedures import REFUSED, call_classes, why_refused
from protocol.serving.route import RequestClass

C = TypeVar("C", bound=AnyCall)
R = TypeVar("R")
# bytes of a body from which it is read in a thread
_LARGE: Final = 64 * 1024


@attrs.frozen
class ProcedureRow(Generic[C, R]):
    """One procedure; mypy refuses a handler that takes another call than the class, or returns another reply."""

    kind: RequestClass[C, R]
    handler: Callable[[C], Awaitable[R]]
    # whether it changes files, so that a new master waits for its end
    changes: bool = attrs.field(default=False, kw_only=True)

    @property
    def call_class(self) -> type[AnyCall]:
        return cast(type[AnyCall], self.kind)

    async def carry_out(self, call: AnyCall) -> bytes:
        """Return the body of the reply. Args: call: of this row's class."""
        return reply_body(self.call_class, await self.handler(cast(C, call)))


class AnyRow(Protocol):
    """A row for any procedure."""

    @property
    def call_class(self) -> type[AnyCall]: ...

    @property
    def changes(self) -> bool: ...

    async def carry_out(self, call: AnyCall) -> bytes: ...


@attrs.frozen
class NodedHandlers:
    """The handlers, by noun."""

    queue: QueueHandlers
    state: StateHandlers
    uploads: UploadHandlers
    facts: FactsHandlers
    instances: InstanceHandlers
    mastership: FailoverHandlers
    membership: MembershipHandlers
    verifying: VerifyHandlers
    work: WorkHandlers
    renewal: RenewalHandlers
    commands: CommandHandlers


def rows(to: NodedHandlers) -> Sequence[AnyRow]:
    """The table."""
    return [
        ProcedureRow(statefiles.JobqueueUpdate, to.queue.update, changes=True),
        ProcedureRow(statefiles.JobqueueRename, to.queue.rename, changes=True),
        ProcedureRow(statefiles.JobqueuePurge, to.queue.purge, changes=True),
        ProcedureRow(statefiles.JobqueueSetDrainFlag, to.queue.set_drain_flag, changes=True),
        ProcedureRow(statefiles.WriteStateFiles, to.state.write, changes=True),
        ProcedureRow(statefiles.RemoveStateFiles, to.state.remove, changes=True),
        ProcedureRow(statefiles.ListStateFiles, to.state.names),
        ProcedureRow(statefiles.ReadStateFiles, to.state.read),
        ProcedureRow(files.UploadFile, to.uploads.upload_file, changes=True),
        ProcedureRow(files.UploadFileSingle, to.uploads.upload_file_single, changes=True),
        ProcedureRow(files.WriteSsconfFiles, to.uploads.write_ssconf_files, changes=True),
        ProcedureRow(files.GetFileInfo, to.uploads.get_file_info),
        ProcedureRow(membership.Version, to.facts.version),
        ProcedureRow(facts.NodeInfo, to.facts.node_info),
        ProcedureRow(facts.NodeHasIpAddress, to.facts.has_ip_address),
        ProcedureRow(facts.BridgesExist, to.facts.bridges_exist),
        ProcedureRow(facts.ExportList, to.facts.export_list),
        ProcedureRow(facts.AllInstancesInfo, to.instances.all_info),
        ProcedureRow(facts.InstanceList, to.instances.names),
        ProcedureRow(facts.InstanceInfo, to.instances.info),
        ProcedureRow(facts.InstanceConsoleInfo, to.instances.console_info),
        ProcedureRow(membership.MasterNodeName, to.mastership.master_node_name),
        ProcedureRow(membership.NodeStartMasterDaemons, to.mastership.start_master_daemons),
        ProcedureRow(membership.NodeStopMaster, to.mastership.stop_master),
        ProcedureRow(membership.ClaimEpoch, to.mastership.claim_epoch),
        ProcedureRow(membership.GetStanding, to.mastership.standing),
        ProcedureRow(membership.NodeDemoteFromMc, to.membership.demote, changes=True),
        ProcedureRow(membership.NodeLeaveCluster, to.membership.leave_cluster, changes=True),
        ProcedureRow(membership.NodeCryptoTokens, to.membership.crypto_tokens, changes=True),
        ProcedureRow(membership.NodeEnsureDaemon, to.membership.ensure_daemon),
        ProcedureRow(membership.RequestCertificate, to.renewal.request_certificate, changes=True),
        ProcedureRow(membership.InstallCertificate, to.renewal.install_certificate, changes=True),
        ProcedureRow(membership.PutClusterCertificate, to.renewal.put_cluster_certificate, changes=True),
        ProcedureRow(facts.NodeVerify, to.verifying.verify),
        ProcedureRow(facts.NodeVerifyLight, to.verifying.verify_light),
        ProcedureRow(commands.TestDelay, to.work.test_delay),
        ProcedureRow(commands.GetWatcherPause, to.work.watcher_pause),
        ProcedureRow(commands.SetWatcherPause, to.work.set_watcher_pause, changes=True),
        ProcedureRow(commands.HooksRunner, to.work.run_hooks),
        ProcedureRow(commands.StartCommand, to.commands.start, changes=True),
        ProcedureRow(commands.FollowCommand, to.commands.follow),
        ProcedureRow(commands.StopCommand, to.commands.stop, changes=True),
        ProcedureRow(commands.ForgetCommands, to.commands.forget, changes=True),
        ProcedureRow(commands.ListCommands, to.commands.states),
    ]


class Procedures:
    """The table at work, for the application."""

    def __init__(self, table: Sequence[AnyRow], callers: Callers, epochs: Epochs) -> None:
        self._rows = {row.call_class.METHOD: row for row in table}
        # also those that have a class and no row
        self._known = {*self._rows, *REFUSED, *(kind.METHOD for kind in call_classes())}
        self._callers = callers
        self._epochs = epochs

    def may_call(self, digest: str) -> bool:
        return self._callers.may_call(digest)

    def has(self, procedure: str) -> bool:
        return procedure in self._known

    @property
    def epoch(self) -> int:
        return self._epochs.highest

    async def answer(self, procedure: str, body: bytes, epoch: str | None) -> bytes:
        """Raises: InvalidRequest: the body is not such a call. Unavailable: it is refused here. As the handlers."""
        row = self._rows.get(procedure)
        if row is None:
            raise Unavailable(_why_not(procedure))
        read = (row.call_class, body)
        call = await in_thread(read_request, *read) if len(body) > _LARGE else read_request(*read)
        async with self._epochs.admitted(None if epoch is None else parse_epoch(epoch), changes=row.changes):
            return await row.carry_out(call)


def _why_not(procedure: str) -> str:
    return why_refused(procedure) if procedure in REFUSED else f"'{procedure}' is not carried out by this node daemon"
