"""The door of the master: it lets machines with a token into the cluster."""

import datetime
import ipaddress
import re
import time
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Final

import attrs
import trio

from common.daemons import NodeKind
from common.errors import (
    Conflict,
    DamagedFile,
    Denied,
    GantryError,
    InternalError,
    InvalidRequest,
    JobLost,
    NotFound,
    RemoteError,
    Unavailable,
    explain,
)
from common.ids import JobId
from common.nodes.certificates import certificates_in, digest_of, public_digest_of, sign_request
from common.nodes.joining import JoinToken, JoinTokenFiles, TokenUse, WrongToken, shared_tables, with_job, wrong_token
from common.nodes.nodeplace import is_local, place_of
from common.objects.config import CONFIG_VERSION
from common.objects.ssconf import MAX_BYTES
from common.queue.jobs import FINAL_NAMES
from common.settings import Settings
from common.system.inthread import in_thread
from common.system.log import get_log
from common.system.shortages import retry_pauses
from common.system.watch import EventKind, FolderWatch
from daemons.noded.files.places import SSCONF_KEYS
from daemons.noded.transport import NodedReply, TlsIdentity, caller_of, peer_of
from protocol.client import Client
from protocol.http.body import Bodies, BodyRefused, HungUp
from protocol.http.connection import Receive, Scope, Send
from protocol.http.connections import Connections, open_listener
from protocol.luxi.jobs import OpInput, SubmitJob
from protocol.luxi.queries import JobSnapshot, QueryJobs, WaitForJobChange
from protocol.noded.joining import (
    MAX_REQUEST,
    MAX_SKEW_S,
    NEWS_S,
    Admitted,
    AskNews,
    Join,
    JoinProgress,
    Ready,
    TakingIn,
    failure_body,
    read_body,
    to_body,
)

# Whether a machine that has a valid token may become the node that it wants to be. Pure.
#
# Raises, all: InvalidRequest: a name or an address that no node can have. Conflict: it does not fit this cluster.
#
# Source: DESIGN section 13, "Joining".


# names of hosts; they lead out of no folder and fit into a line of ssconf
_LABEL: Final = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_NAME: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*", re.ASCII)
_NAME_MAX: Final = 253


def check_machine(call: Join, now: float) -> None:
    """Judge the machine by itself. Args: now: the master's clock, seconds since the epoch."""
    _check_name(call.node_name)
    _check_address(call.address)
    if call.version != CONFIG_VERSION:
        raise Conflict(
            f"this machine has version {call.version} of the formats, and the cluster has {CONFIG_VERSION}; install "
            "the same release"
        )
    # this form refuses nan as well
    if not abs(call.now - now) <= MAX_SKEW_S:
        raise Conflict(
            f"the clocks of this machine and of the master differ by {abs(call.now - now):.0f} s, and at most "
            f"{MAX_SKEW_S:.0f} s are possible; set the clock of this machine"
        )


def check_place(call: Join, readd: str, addresses: Mapping[str, str]) -> None:
    """Judge the machine among the nodes.

    Args:
        readd: name of the node that the token is for; empty: it is for a new one.
        addresses: name -> primary address of all nodes.
    """
    name = call.node_name
    if readd and name != readd:
        raise Conflict(
            f"the token is for the node '{readd}' that comes back, and this machine asks as '{name}'; repeat the "
            f"command with --node {readd}"
        )
    if readd and readd not in addresses:
        raise Conflict(f"the cluster has no node '{readd}' any more; make a token without --readd")
    if not readd and name in addresses:
        raise Conflict(
            f"the cluster has a node '{name}' already; choose another name with --node, or let that node come back, "
            f"with a token of: gnt-cluster join-token --readd {name}"
        )
    for other, address in addresses.items():
        if is_local(address) and not is_local(call.address):
            raise Conflict(
                f"the node '{other}' has the address {address} in the configuration, and other machines do not reach "
                "it there; stop the daemons of the master, set primary_ip and secondary_ip of that node in config.data "
                "to an address that all machines reach, and start them"
            )
        if address == call.address and other != name:
            raise Conflict(f"the node '{other}' has the address {address} already; choose another with --address")


def _check_name(name: str) -> None:
    if len(name) > _NAME_MAX or not _NAME.fullmatch(name):
        raise InvalidRequest(
            f"no node can be named {name!r:.80}; a name is that of a host: letters, digits and '-', with '.' between "
            "its parts"
        )


def _check_address(address: str) -> None:
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        raise InvalidRequest(f"{address!r:.80} is no IP address") from None
    if found.is_unspecified or found.is_multicast:
        raise InvalidRequest(f"no node has the address {address}; name one of this machine with --address")


# The jobs that add nodes: submitted to luxid, and followed for the machines that wait for them.
#
# Source: DESIGN section 13, "Joining".


_FIELDS: Final = ("status", "opresult")
_SUCCESS: Final = "success"
_NS: Final = 1_000_000_000


class AddJobs:
    """Args: socket: luxid's. Raises, all: RemoteError, Unavailable: luxid refuses, or is away."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    async def submit(self, token: JoinToken) -> int:
        """Submit the job for the machine that has used this token; under one number of `use.jobs` only once."""
        async with self._client() as client:
            return await client.call(SubmitJob((_opcode(token),), _key(token)))

    async def has_failed(self, job_id: int) -> bool:
        """Whether a job has ended without success, or is gone."""
        async with self._client() as client:
            (row,) = await client.call(QueryJobs((JobId(job_id),), ("status",)))
        return row[0] is None or (row[0] in FINAL_NAMES and row[0] != _SUCCESS)

    async def news(self, job_id: int, status: str, serial: int) -> JoinProgress:
        """Wait until the job's status differs, or its log has more than `serial` entries; at most `NEWS_S`."""
        async with self._client() as client:
            previous = None if not status else await self._values(client, job_id)
            if previous is not None and previous[0] != status:
                previous = None
            call = WaitForJobChange(JobId(job_id), _FIELDS, previous, serial, NEWS_S)
            try:
                return _news(await client.call(call), serial)
            except RemoteError as error:
                if error.wire_name != JobLost.wire_name:
                    raise
                values = await self._values(client, job_id)
                return JoinProgress(str(values[0] or "gone"), serial, (), _error(values[1]))

    async def _values(self, client: Client, job_id: int) -> tuple[object, ...]:
        return (await client.call(QueryJobs((JobId(job_id),), _FIELDS)))[0]

    def _client(self) -> Client:
        return Client(self._socket, daemon="the queue daemon of the master")


def _opcode(token: JoinToken) -> OpInput:
    assert token.use is not None, "only a used token has a machine"
    return {
        "OP_ID": "OP_NODE_ADD",
        "node_name": token.use.node,
        "primary_ip": token.use.address,
        "readd": bool(token.readd),
        "reason": [["gantry:join", f"token {token.id}", time.time_ns() // _NS * _NS]],
    }


def _key(token: JoinToken) -> str:
    assert token.use is not None, "as above"
    return f"join-{token.id}-{token.use.jobs}"


def _news(change: JobSnapshot, serial: int) -> JoinProgress:
    status = change.values[0]
    if not isinstance(status, str):
        raise Unavailable("the queue daemon of the master cannot tell the state of the job; try again")
    lines = tuple(str(entry.message) for entry in change.entries if isinstance(entry.message, str))
    last = max([serial, *(entry.serial for entry in change.entries)])
    return JoinProgress(status, last, lines, _error(change.values[1]) if status in FINAL_NAMES else "")


def _error(results: object) -> str:
    """The text of the opcode's failure, from Ganeti's `[name, [text, ...]]`; empty: there is none."""
    match results:
        case [[str(), [str(text), *_]], *_]:
            return text
        case [str(text), *_]:
            return text
        case _:
            return ""


# Let a machine with a token into the cluster: sign its certificate, then have a job add the node.
#
# Theory. Each step can be repeated, whoever dies in between. The certificate is signed first, and stored in the token's
# record together with the machine's key, in one durable step: a second request with that key gets the same
# certificate, one with another key gets nothing. The number of the job that adds the node is stored before the job is
# submitted, and is part of the submission's key: luxid takes it once.
#
# Source: DESIGN section 13, "Joining".


_log: Final = get_log(__name__)


class JoinAdmission:
    """What a machine may ask. Raises, all: GantryError: refused, with the words for its user. OSError."""

    def __init__(self, settings: Settings, tokens: JoinTokenFiles, jobs: AddJobs) -> None:
        self._settings = settings
        self._tokens = tokens
        self._jobs = jobs
        # one machine after the other: a job is submitted once for each
        self._turn = trio.Lock()

    async def join(self, call: Join) -> Admitted:
        """Sign the machine's certificate, and bind the token to its key.

        Raises: WrongToken: the secret is not right. Denied: the token is used or over. Conflict: the name is taken,
            or the clocks differ. InvalidRequest. Unavailable: this node is not the master.
        Durability: on return the binding survives a loss of power.
        """
        return await in_thread(self._join, call)

    async def ready(self, call: Ready, caller: str) -> TakingIn:
        """Submit the job that adds the node; if there is one that has not failed, return that one.

        Args: caller: digest of the machine's certificate.
        """
        async with self._turn:
            token, use = await in_thread(self._known, call.token_id, caller)
            if use.job_id is not None and not await self._jobs.has_failed(use.job_id):
                return TakingIn(use.job_id)
            if use.job_id is not None or not use.jobs:
                # a number without a job: its submission may have reached luxid, and is repeated under this number
                token = await in_thread(self._note_job, token.id, use.jobs + 1, None)
            assert token.use is not None, "it was known"
            job_id = await self._jobs.submit(token)
            await in_thread(self._note_job, token.id, token.use.jobs, job_id)
            _log.info("join.submitted", node=use.node, job=job_id, token=token.id)
            return TakingIn(job_id)

    async def news(self, call: AskNews, caller: str) -> JoinProgress:
        """Wait for news of the job, for a bounded time."""
        _, use = await in_thread(self._known, call.token_id, caller)
        if use.job_id is None:
            raise Conflict("there is no job yet that adds this node; repeat the same command")
        return await self._jobs.news(use.job_id, call.status, call.serial)

    def _join(self, call: Join) -> Admitted:
        self._require_master()
        if self._settings.paths.next_server_pem.exists():
            raise Unavailable(
                "the certificate of the cluster is being renewed, and a new node would miss it; try again when that is "
                "finished, on the master by: gnt-cluster renew-crypto"
            )
        server_pem = self._settings.paths.server_pem.read_bytes()

        def use(token: JoinToken | None) -> JoinToken:
            if token is None or not token.is_of(call.secret):
                raise wrong_token()
            key = public_digest_of(call.request.encode())
            found = token.admit(key, time.time())
            if found is None or found.job_id is None:
                self._check(call, token)
            if found is not None:
                return self._repeated(call, token, found)
            now = datetime.datetime.now(datetime.UTC)
            certificate = sign_request(server_pem, call.request.encode(), call.node_name, now).decode()
            made = TokenUse(call.node_name, call.address, key, certificate, now.timestamp())
            return attrs.evolve(token, use=made)

        token = self._tokens.change(call.token_id, use)
        assert token.use is not None, "it was used just now"
        _log.info("join.admitted", node=token.use.node, address=token.use.address, token=token.id)
        paths = self._settings.paths
        ssconf = {key: paths.ssconf_file(key) for key in sorted(SSCONF_KEYS)}
        return Admitted(
            certificate=token.use.certificate,
            cluster_certificate=certificates_in(server_pem)[0].decode(),
            cluster_name=_text(paths.ssconf_file("cluster_name")).strip(),
            ssconf={key: _text(path) for key, path in ssconf.items() if path.exists()},
            port=self._settings.noded.port,
            shared=shared_tables(self._settings),
        )

    def _repeated(self, call: Join, token: JoinToken, found: TokenUse) -> JoinToken:
        """The token after the machine that has used it asks again, perhaps under another address."""
        if found.node != call.node_name:
            raise Conflict(
                f"this machine has used the token as '{found.node}', and asks as '{call.node_name}' now; repeat the "
                f"command with --node {found.node}, or make a new token"
            )
        return attrs.evolve(token, use=attrs.evolve(found, address=call.address))

    def _check(self, call: Join, token: JoinToken) -> None:
        check_machine(call, time.time())
        lines = _text(self._settings.paths.ssconf_file("node_primary_ips")).splitlines()
        check_place(call, token.readd, dict(line.split()[:2] for line in lines))

    def _known(self, token_id: str, caller: str) -> tuple[JoinToken, TokenUse]:
        """The token that the holder of this certificate has used. Raises: WrongToken, Unavailable."""
        self._require_master()
        token = self._tokens.find(token_id)
        if token is None or token.use is None or digest_of(token.use.certificate.encode()) != caller:
            raise wrong_token()
        return token, token.use

    def _note_job(self, token_id: str, jobs: int, job_id: int | None) -> JoinToken:
        def note(token: JoinToken | None) -> JoinToken:
            if token is None or token.use is None:
                raise wrong_token()
            return with_job(token, jobs=jobs, job_id=job_id)

        return self._tokens.change(token_id, note)

    def _require_master(self) -> None:
        if place_of(self._settings) is not NodeKind.MASTER:
            master = _text(self._settings.paths.ssconf_file("master_node")).strip()
            raise Unavailable(f"this node is not the master, that is '{master}'; make a token there, and join there")


def _text(path: Path) -> str:
    """Raises: NotFound: there is no such file. DamagedFile: it is too long. OSError."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise NotFound(f"'{path}' is missing on the master; write it anew with: gnt-cluster redist-conf") from None
    if len(content) > MAX_BYTES:
        raise DamagedFile(f"'{path}' is longer than {MAX_BYTES} bytes", file=str(path))
    return content.decode("utf-8", "replace")


# The ASGI application of the door: a few requests, strictly bounded, each refusal with its reason.
#
# Wrong tokens are counted, and one after the other delayed: guessing is hopeless, and shall not be cheap either.
#
# Source: DESIGN section 13, "Joining".


# pause after each wrong token
WRONG_PAUSE_S: Final = 1.0
_BODY_S: Final = 10.0
_STATUSES: Final = (
    (InvalidRequest, HTTPStatus.BAD_REQUEST),
    (Denied, HTTPStatus.FORBIDDEN),
    (NotFound, HTTPStatus.NOT_FOUND),
    (Conflict, HTTPStatus.CONFLICT),
    (Unavailable, HTTPStatus.SERVICE_UNAVAILABLE),
)


class JoinApplication:
    """Args: pause_s: after a wrong token."""

    def __init__(self, admission: JoinAdmission, pause_s: float = WRONG_PAUSE_S) -> None:
        self._admission = admission
        self._bodies = Bodies(MAX_REQUEST, _BODY_S)
        self._pause_s = pause_s
        self._pausing = trio.Lock()
        self._wrong = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with self._bodies.read(scope, receive) as body:
                page = await self._page(scope, body)
        except HungUp:
            return
        except BodyRefused as refused:
            page = _page(refused.status, failure_body(InvalidRequest(refused.text)))
        await send({"type": "http.response.start", "status": page.status, "headers": page.headers})
        await send({"type": "http.response.body", "body": page.body, "more_body": False})

    async def _page(self, scope: Scope, body: bytes) -> NodedReply:
        try:
            return _page(HTTPStatus.OK, to_body(await self._answer(scope, body)))
        except WrongToken as error:
            self._wrong += 1
            _log.warning("join.wrong_token", peer=peer_of(scope), wrong=self._wrong)
            async with self._pausing:
                await trio.sleep(self._pause_s)
            return _failure(error)
        except GantryError as error:
            _log.warning("join.refused", peer=peer_of(scope), reason=error.message)
            return _failure(error)
        except OSError as error:
            _log.error("join.failed", peer=peer_of(scope), reason=error, path=error.filename)
            return _failure(
                Unavailable("the master cannot read or write one of its files; its node daemon's log tells")
            )
        except Exception:
            _log.exception("join.crashed", peer=peer_of(scope))
            return _failure(InternalError("the master has a fault here; its node daemon's log tells where"))

    async def _answer(self, scope: Scope, body: bytes) -> object:
        if scope["method"] != "POST":
            raise InvalidRequest("requests are made by POST")
        path = scope["path"]
        if path == Join.PATH:
            return await self._admission.join(read_body(body, Join, "request"))
        if path == Ready.PATH:
            return await self._admission.ready(read_body(body, Ready, "request"), caller_of(scope))
        if path == AskNews.PATH:
            return await self._admission.news(read_body(body, AskNews, "request"), caller_of(scope))
        raise NotFound(f"there is no '{path[:40]}' here; this is the door for machines that join")


def _failure(error: GantryError) -> NodedReply:
    status = next((status for kind, status in _STATUSES if isinstance(error, kind)), HTTPStatus.INTERNAL_SERVER_ERROR)
    return _page(status, failure_body(error))


def _page(status: int, body: bytes) -> NodedReply:
    return NodedReply(int(status), "application/json", body)


# The door is open as long as a token can be used: its port listens then, and only then.
#
# Source: DESIGN section 13, "Joining".


# connections at once; further machines wait
_CLIENTS: Final = 16
_IDLE_S: Final = 30.0
# longest wait without a look at the clock, which somebody may set
_LOOK_S: Final = 300.0
_CHANGES: Final = EventKind.MOVED_TO | EventKind.MOVED_FROM | EventKind.DELETE


class _FolderGone(Exception):
    """The folder of the tokens is gone, as when the node leaves its cluster: it is made again."""


class JoinGate:
    """Opens and closes the port for machines that join."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._tokens = JoinTokenFiles(settings.paths)
        jobs = AddJobs(settings.paths.query_socket)
        self._app = JoinApplication(JoinAdmission(settings, self._tokens, jobs))
        self._rules = attrs.evolve(settings.noded, max_clients=_CLIENTS, idle_timeout_s=_IDLE_S)
        self._identity = TlsIdentity(settings.paths, needs_caller=False)

    async def run(self) -> None:
        """Open and close the port until cancelled. A fault of disk or port is logged, and waited out."""
        pauses, told = retry_pauses(), ""
        while True:
            try:
                await in_thread(self._tokens.make_folder)
                async with FolderWatch(self._tokens.folder, kinds=_CHANGES) as watch:
                    await self._follow(watch)
            except _FolderGone:
                continue
            except (OSError, GantryError) as error:
                reason = explain(error)
                if reason != told:
                    told = reason
                    _log.error("join.closed", reason=reason, going_on="again until it succeeds")
                await trio.sleep(next(pauses))

    async def _follow(self, watch: FolderWatch) -> None:
        while True:
            if await self._open_s() <= 0:
                await self._changed(watch, None)
            else:
                await self._serve(watch)

    async def _serve(self, watch: FolderWatch) -> None:
        """Keep the port open until no token can be used any more. Raises: Unavailable: it is not free."""
        rules = self._settings.noded
        # they serve once: what ends them ends all later connections, too
        connections = Connections(self._app, self._identity, self._rules)
        with open_listener(rules.address, rules.join_port, where="'address' and 'join_port' in [noded]") as listener:
            _log.info("join.open", port=rules.join_port)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(connections.serve, listener)
                fault = await self._until_over(watch)
                nursery.cancel_scope.cancel()
        _log.info("join.over", port=rules.join_port)
        if fault is not None:
            raise fault

    async def _until_over(self, watch: FolderWatch) -> Exception | None:
        """Wait until no token can be used any more; return what prevents to know it, which no nursery shall wrap."""
        try:
            while (left_s := await self._open_s()) > 0:
                await self._changed(watch, min(left_s, _LOOK_S))
        except (OSError, GantryError, _FolderGone) as error:
            return error
        return None

    async def _changed(self, watch: FolderWatch, within_s: float | None) -> None:
        """Wait until a token was made or removed, or the time is over."""
        with trio.move_on_after(float("inf") if within_s is None else within_s):
            events = await watch.events()
            if any(event.kind & EventKind.FOLDER_GONE for event in events):
                raise _FolderGone

    async def _open_s(self) -> float:
        """Seconds for which a token can be used; 0: none can."""
        tokens = await in_thread(self._tokens.list)
        return max([0.0, *(token.is_over_at - time.time() for token in tokens)])
