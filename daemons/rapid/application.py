"""The ASGI application: for each request its row, its caller, its body, its handler, its reply, in this order.

Theory. A request is checked before its body is read, so a stranger cannot make us keep one; but every body is read to
its end, within bounds, before the reply, else the connection could not be used again. A call that only waits is
cancelled as soon as its client goes, or the daemon is told to stop, or its caller's password or token is good no more;
a stream ends then, too. Whatever fails in a handler becomes a reply. Each request has an id, its client's if that is
well-formed, which stands in the reply and in all lines of the log that the request has caused; so does its trace.

Source: rapi.md 2 to 4.
"""

import re
import secrets
from collections.abc import Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Final

import attrs
import trio
from starlette.requests import Request as HttpRequest
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from common.access import Role
from common.errors import GantryError
from common.system.log import get_log, shared_fields
from common.tracecontext import HEADER, read_traceparent, trace_text
from common.webaccess.rights import Principal
from daemons.rapid.access.authenticator import RequestCallers
from daemons.rapid.backend import Backend, CallersDaemons
from daemons.rapid.calls import WAITS, Asked, Call, Face
from daemons.rapid.load import Load
from daemons.rapid.mastership import Mastership
from daemons.rapid.refusals import RequestRefused
from daemons.rapid.transport.callers import Proxies, address_of, is_encrypted, is_of_another_site
from daemons.rapid.transport.compression import Compression
from daemons.rapid.transport.crossorigin import CrossOrigin
from daemons.rapid.transport.routing import Faces, MatchedRoute, Routes, bug, read_body, success
from protocol.http.body import Bodies, BodyRefused, HungUp, until_gone
from protocol.http.connections import CROWDED

_CROWDED: Final = {"Retry-After": "1", "Connection": "close"}
# bytes of a body of a caller without a name, such as a form with a password
_BODY_OF_NOBODY: Final = 64 * 1024
# key of ASGI's scope: who calls
_CALLER: Final = "gantry.caller"
_PROTECTION: Final = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))
_REQUEST_ID: Final = "X-Request-Id"
# what is common as one: UUIDs, numbers, Base64, names of proxies
_WELL_FORMED: Final = re.compile(r"[A-Za-z0-9._~:/+=@-]{1,128}")
_log: Final = get_log(__name__)


@attrs.frozen
class _Admitted:
    """A request that may be carried out."""

    call: Call
    caller: Principal
    # with which luxid carries it out
    role: Role


@attrs.frozen
class RapidApplication:
    """An ASGI application made of a table of calls."""

    routes: Routes
    callers: RequestCallers
    backend: Backend
    mastership: Mastership
    bodies: Bodies
    faces: Faces
    load: Load
    proxies: Proxies = attrs.field(factory=Proxies)
    compression: Compression = attrs.field(factory=Compression)
    cross_origin: CrossOrigin = attrs.field(factory=CrossOrigin)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.proxies.look_behind(scope)
        http = HttpRequest(scope, receive)
        request_id = request_id_of(http.headers.getlist(_REQUEST_ID))
        with self.load.request(), suppress(HungUp), shared_fields(**_log_fields(http, request_id)):
            found = self.routes.find(scope)
            response = await self._response(found, http, receive)
            if found.face is Face.OURS:
                _protect(response)
            response.headers[_REQUEST_ID] = request_id
            self.cross_origin.mark(http, response)
            # the tag of a thing is a strong one, and would be weak of other bytes; nothing matches that in `If-Match`
            if found.call is None or not found.call.is_tagged:
                await self.compression.apply(found.face, http, response)
            await self._send(response, scope, receive, send)

    async def _send(self, response: Response, scope: Scope, receive: Receive, send: Send) -> None:
        if not isinstance(response, StreamingResponse):
            await response(scope, receive, send)
            return
        try:
            with self.load.wait() as waiting:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._end_with, scope.get(_CALLER), waiting)
                    await response(scope, receive, send)
                    nursery.cancel_scope.cancel()
        except* GantryError as group:
            # without its end the reply is seen to be cut off
            _log.warning("stream.cut_off", path=scope["path"][:200], reason=group.exceptions[0])
        except* Exception:
            _log.exception("stream.crashed", path=scope["path"][:200])

    async def _end_with(self, caller: Principal | None, scope: trio.CancelScope) -> None:
        """End the scope when the caller's password or token is good no more."""
        if caller is not None:
            await self.callers.gate.wait_until_over(caller)
            scope.cancel()

    async def _response(self, found: MatchedRoute, http: HttpRequest, receive: Receive) -> Response:
        """Raises: HungUp: nobody waits for it."""
        http.scope["path_params"] = dict(found.params)
        try:
            _check_place(http)
            if (told := self.cross_origin.answers(http) or self._of_server(http)) is not None:
                return await self._without_body(told, http, receive)
            admitted = await self._admit(found, http)
        except GantryError as error:
            return await self._without_body(await self.faces.refusal(found.face, http, error), http, receive)
        if not _has_body(http):
            return await self._reply(admitted, http, b"")
        try:
            limit = _BODY_OF_NOBODY if admitted.caller.is_anonymous else None
            scope = http.scope
            async with self.bodies.read(scope, receive, limit) as raw:
                response = await self._reply(admitted, http, raw)
        except BodyRefused as refused:
            refusal = RequestRefused(refused.status, refused.text, code="invalid", headers={"Connection": "close"})
            return await self.faces.refusal(found.face, http, refusal)
        return response

    def _of_server(self, http: HttpRequest) -> Response | None:
        """What the server as a whole can do (`OPTIONS *`); None: another request."""
        if http.scope["path"] != "*":
            return None
        return Response(None, 204, {"Allow": ", ".join(self.routes.verbs)})

    async def _without_body(self, response: Response, http: HttpRequest, receive: Receive) -> Response:
        """The reply to a request whose body nobody wants. Raises: HungUp: nobody waits for it."""
        if not await self.bodies.skip(http.scope, receive):
            response.headers["Connection"] = "close"
        return response

    async def _admit(self, found: MatchedRoute, http: HttpRequest) -> _Admitted:
        """Raises: RequestRefused: the request is not to be carried out."""
        if found.call is None:
            # where everybody must say a name, nobody else learns what there is
            self.callers.check_unknown(found.face, http)
            raise _missing(found, http)
        if not found.call.is_everywhere:
            await self.mastership.check(http.url.path)
        # a page looks for itself, and for more
        if found.face is not Face.PAGE:
            self._check_site(found.call, http)
        caller = await self.callers.identify(http, found.face)
        if found.call.is_for_tokens:
            _check_token(caller)
        return _Admitted(found.call, caller, self.callers.gate.role_for(found.call, caller))

    def _check_site(self, call: Call, http: HttpRequest) -> None:
        """Raises: RequestRefused: a browser sends this for a page of another site, which the settings do not allow.

        With a password that the browser knows it may not read either: some of Ganeti's resources submit jobs to read.
        """
        has_password = http.headers.get("authorization", "")[:6].lower() == "basic "
        if not (call.changes or has_password) or self.cross_origin.admits(http):
            return
        if is_of_another_site(http.headers, is_encrypted=is_encrypted(http)):
            raise RequestRefused(403, "another site made a browser send this, so nothing was done")

    async def _reply(self, admitted: _Admitted, http: HttpRequest, raw: bytes) -> Response:
        call, caller = admitted.call, admitted.caller
        try:
            body = await read_body(call, http, raw)
        except GantryError as error:
            return await self.faces.refusal(call.face, http, error)
        # a call that only waits looks by itself whether its client goes
        receive = None if call.only_waits else http.receive
        daemons = CallersDaemons(self.backend, caller, admitted.role, receive)
        asked = Asked(http, caller, daemons, body)
        http.scope[_CALLER] = caller
        if call.only_waits:
            return await self._waited(call, asked)
        return await self._carried_out(call, asked)

    async def _waited(self, call: Call, asked: Asked) -> Response:
        """The reply of a call that only waits. Raises: HungUp: its client has gone."""
        asked.http.scope[WAITS] = True
        response: Response | None = None
        has_gone = False

        async def watch() -> None:
            nonlocal has_gone
            await until_gone(asked.http.receive)
            has_gone = True
            scope.cancel()

        with self.load.wait() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(watch)
                nursery.start_soon(self._end_with, asked.caller, scope)
                response = await self._carried_out(call, asked)
                nursery.cancel_scope.cancel()
        if response is not None:
            return response
        if has_gone:
            raise HungUp
        return await self.faces.refusal(call.face, asked.http, await self._why_ended(call, asked.http))

    async def _why_ended(self, call: Call, http: HttpRequest) -> GantryError:
        """The error for a caller whose wait was ended by us."""
        try:
            if not call.is_everywhere:
                await self.mastership.check(http.url.path)
            self.callers.gate.role_for(call, await self.callers.identify(http, call.face))
        except GantryError as refused:
            return refused
        return RequestRefused(
            503, "rapid is stopping, or your rights are others now; ask again", headers={"Retry-After": "1"}
        )

    async def _carried_out(self, call: Call, asked: Asked) -> Response:
        try:
            response = success(call, await call.handler(asked))
        except GantryError as error:
            response = await self.faces.refusal(call.face, asked.http, error)
        except HungUp:
            raise
        except Exception:
            response = await self.faces.refusal(call.face, asked.http, bug(call))
        if call.changes:
            _log.info(
                "call.changed",
                caller=asked.caller.name or "nobody",
                token=asked.caller.token_id,
                peer=address_of(asked.http),
                verb=call.verb,
                path=asked.http.url.path,
                status=response.status_code,
            )
        return response


def request_id_of(given: Sequence[str]) -> str:
    """The id of a request: what the client calls it if that is well-formed, else a new one.

    Args: given: the headers that say one.
    """
    if len(given) == 1 and _WELL_FORMED.fullmatch(given[0]):
        return given[0]
    return secrets.token_hex(8)


def _log_fields(http: HttpRequest, request_id: str) -> dict[str, object]:
    """What all lines of the log have that the request causes: its id, and its trace, if it names one."""
    parent = read_traceparent(trace_text(http.headers.getlist(HEADER)))
    return {"request": request_id} if parent is None else {"request": request_id, "trace": parent.trace_id}


def _check_place(http: HttpRequest) -> None:
    """Raises: RequestRefused: its connection has no place."""
    if (http.scope.get("state") or {}).get(CROWDED):
        raise RequestRefused(503, "there is no room for more connections; try again", headers=_CROWDED)


def _check_token(caller: Principal) -> None:
    """Raises: RequestRefused: the caller has shown no token."""
    if caller.token_id is not None:
        return
    if caller.is_anonymous:
        raise RequestRefused(401, "this call needs a token; 'gantry token create' makes one")
    raise RequestRefused(
        403, f"'{caller.name}' has shown no token, and only that counts here; 'gantry token create' makes one"
    )


def _protect(response: Response) -> None:
    """Tell browsers and proxies to take a reply for what it is, and not to keep it, where it says nothing else."""
    names = [name for name, _ in response.raw_headers]
    response.raw_headers += [header for header in _PROTECTION if header[0] not in names]


def _has_body(http: HttpRequest) -> bool:
    return "transfer-encoding" in http.headers or http.headers.get("content-length", "0") != "0"


def _missing(found: MatchedRoute, http: HttpRequest) -> RequestRefused:
    path, verb = http.url.path[:200], http.method
    if not found.verbs:
        return RequestRefused(404, f"there is no '{path}' here")
    if found.face is Face.GANETI:
        return RequestRefused(HTTPStatus.NOT_IMPLEMENTED, f"'{path}' has no method {verb}", code="invalid")
    allow = {"Allow": ", ".join(found.verbs)}
    return RequestRefused(405, f"'{path}' has no method {verb}, only {allow['Allow']}", code="invalid", headers=allow)
