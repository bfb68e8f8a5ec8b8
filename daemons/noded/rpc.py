"""noded's procedures: the class of the call, its handler, and whether it changes anything; one row each.

All other procedures of Ganeti's node daemon are known and refused, see `protocol.noded.procedures`.

Source: noded.md 5.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, Protocol, TypeVar, cast

import attrs

from common.errors import GantryError, Unavailable, reason_of
from common.nodes.mastership import parse_epoch
from common.system.inthread import in_thread
from common.system.log import get_log
from daemons.noded.callers import Callers
from daemons.noded.epochs import Epochs
from daemons.noded.handlers.facts import FactsHandlers
from daemons.noded.handlers.files import QueueHandlers, UploadHandlers
from daemons.noded.handlers.mastership import FailoverHandlers
from daemons.noded.handlers.membership import MembershipHandlers
from daemons.noded.handlers.verifying import VerifyHandlers
from daemons.noded.handlers.work import WorkHandlers
from daemons.noded.transport import NodedReply, caller_of, error_page, peer_of, result_page
from protocol.http.body import Bodies, BodyRefused, HungUp
from protocol.http.connection import Receive, Scope, Send
from protocol.noded import commands, facts, files, membership, statefiles
from protocol.noded.call import EPOCH_HEADER, AnyCall, failure_body, read_request, reply_body
from protocol.noded.procedures import REFUSED, call_classes, why_refused
from protocol.serving.route import RequestClass

C = TypeVar("C", bound=AnyCall)
R = TypeVar("R")
# bytes of a body from which it is read in a thread
_LARGE: Final = 64 * 1024
_EPOCH_NAME: Final = EPOCH_HEADER.lower().encode()
_log: Final = get_log(__name__)


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
    uploads: UploadHandlers
    facts: FactsHandlers
    mastership: FailoverHandlers
    membership: MembershipHandlers
    verifying: VerifyHandlers
    work: WorkHandlers


def rows(to: NodedHandlers) -> Sequence[AnyRow]:
    """The table."""
    return [
        ProcedureRow(statefiles.JobqueueUpdate, to.queue.update, changes=True),
        ProcedureRow(statefiles.JobqueueRename, to.queue.rename, changes=True),
        ProcedureRow(statefiles.JobqueuePurge, to.queue.purge, changes=True),
        ProcedureRow(statefiles.JobqueueSetDrainFlag, to.queue.set_drain_flag, changes=True),
        ProcedureRow(statefiles.WriteStateFiles, to.queue.write_state, changes=True),
        ProcedureRow(statefiles.RemoveStateFiles, to.queue.remove_state, changes=True),
        ProcedureRow(statefiles.ListStateFiles, to.queue.state_names),
        ProcedureRow(statefiles.ReadStateFiles, to.queue.read_state),
        ProcedureRow(files.UploadFile, to.uploads.upload_file, changes=True),
        ProcedureRow(files.UploadFileSingle, to.uploads.upload_file_single, changes=True),
        ProcedureRow(files.WriteSsconfFiles, to.uploads.write_ssconf_files, changes=True),
        ProcedureRow(files.GetFileInfo, to.uploads.get_file_info),
        ProcedureRow(membership.NodeVersion, to.facts.version),
        ProcedureRow(facts.NodeInfo, to.facts.node_info),
        ProcedureRow(facts.NodeHasIpAddress, to.facts.has_ip_address),
        ProcedureRow(facts.BridgesExist, to.facts.bridges_exist),
        ProcedureRow(facts.ExportList, to.facts.export_list),
        ProcedureRow(facts.AllInstancesInfo, to.facts.all_instances),
        ProcedureRow(facts.InstanceList, to.facts.instance_names),
        ProcedureRow(facts.InstanceInfo, to.facts.instance_info),
        ProcedureRow(facts.InstanceConsoleInfo, to.facts.console_info),
        ProcedureRow(membership.MasterNodeName, to.mastership.master_node_name),
        ProcedureRow(membership.NodeStartMasterDaemons, to.mastership.start_master_daemons),
        ProcedureRow(membership.NodeStopMaster, to.mastership.stop_master),
        ProcedureRow(membership.ClaimEpoch, to.mastership.claim_epoch),
        ProcedureRow(membership.ReadNodeProgress, to.mastership.standing),
        ProcedureRow(membership.NodeDemoteFromMc, to.membership.demote, changes=True),
        ProcedureRow(membership.NodeLeaveCluster, to.membership.leave_cluster, changes=True),
        ProcedureRow(membership.NodeCryptoTokens, to.membership.crypto_tokens, changes=True),
        ProcedureRow(membership.NodeEnsureDaemon, to.membership.ensure_daemon),
        ProcedureRow(membership.RequestCertificate, to.membership.request_certificate, changes=True),
        ProcedureRow(membership.InstallCertificate, to.membership.install_certificate, changes=True),
        ProcedureRow(membership.PutClusterCertificate, to.membership.put_cluster_certificate, changes=True),
        ProcedureRow(facts.NodeVerify, to.verifying.verify),
        ProcedureRow(facts.NodeVerifyLight, to.verifying.verify_light),
        ProcedureRow(commands.TestDelay, to.work.test_delay),
        ProcedureRow(commands.GetWatcherPause, to.work.watcher_pause),
        ProcedureRow(commands.SetNodeWatcherPause, to.work.set_watcher_pause, changes=True),
        ProcedureRow(commands.HooksRunner, to.work.run_hooks),
        ProcedureRow(commands.StartCommand, to.work.start_command, changes=True),
        ProcedureRow(commands.FollowCommand, to.work.follow_command),
        ProcedureRow(commands.StopCommand, to.work.stop_command, changes=True),
        ProcedureRow(commands.ForgetCommands, to.work.forget_commands, changes=True),
        ProcedureRow(commands.ListCommands, to.work.command_states),
    ]


class NodedApplication:
    """The table at work: an ASGI application, `POST /<procedure>`, its caller checked, its result as JSON.

    Source: noded.md 2 to 4.
    """

    def __init__(self, table: Sequence[AnyRow], callers: Callers, epochs: Epochs, bodies: Bodies) -> None:
        self._rows = {row.call_class.METHOD: row for row in table}
        # also those that have a class and no row
        self._known = {*self._rows, *REFUSED, *(kind.METHOD for kind in call_classes())}
        self._callers = callers
        self._epochs = epochs
        self._bodies = bodies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            page = await self._page(scope, receive)
        except HungUp:
            return
        except BodyRefused as refused:
            page = error_page(refused.status, refused.text)
        await send({"type": "http.response.start", "status": page.status, "headers": page.headers})
        await send({"type": "http.response.body", "body": page.body, "more_body": False})

    async def _page(self, scope: Scope, receive: Receive) -> NodedReply:
        procedure = str(scope["path"]).removeprefix("/")
        refusal = self._refusal(scope, procedure)
        if refusal is not None:
            await self._bodies.skip(scope, receive)
            return refusal
        async with self._bodies.read(scope, receive) as body:
            return await self._result(procedure, body, _epoch(scope))

    def _refusal(self, scope: Scope, procedure: str) -> NodedReply | None:
        """The page for a request that is not carried out, whatever its body is."""
        digest = caller_of(scope)
        try:
            may_call = self._callers.may_call(digest)
        except GantryError as error:
            return self._failure(error.message)
        if not may_call:
            _log.warning("caller.refused", peer=peer_of(scope), certificate=digest, procedure=procedure)
            return error_page(403, "only master candidates may call this node")
        if scope["method"] != "POST":
            return error_page(400, "procedures are called by POST")
        if procedure not in self._known:
            return error_page(404, f"there is no procedure '{procedure}'")
        return None

    async def _result(self, procedure: str, body: bytes, epoch: str | None) -> NodedReply:
        try:
            result = await self._answer(procedure, body, epoch)
            return result_page(result, self._epochs.highest)
        except GantryError as error:
            _log.warning("call.failed", procedure=procedure, reason=error.message)
            return self._failure(error.message)
        except OSError as error:
            _log.error("call.failed", procedure=procedure, reason=error, path=error.filename)
            return self._failure(f"{procedure} failed: {_text(error)}")
        except Exception as error:
            _log.exception("call.crashed", procedure=procedure)
            return self._failure(f"internal error ({type(error).__name__}) in {procedure}; noded's log tells where")

    def _failure(self, text: str) -> NodedReply:
        return result_page(failure_body(text), self._epochs.highest)

    async def _answer(self, procedure: str, body: bytes, epoch: str | None) -> bytes:
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


def _text(error: OSError) -> str:
    place = f": '{error.filename}'" if error.filename else ""
    return f"{reason_of(error)}{place}"


def _epoch(scope: Scope) -> str | None:
    for name, value in scope["headers"]:
        if name == _EPOCH_NAME:
            return bytes(value).decode("ascii", "replace")
    return None
