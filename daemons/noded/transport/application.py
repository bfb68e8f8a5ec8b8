"""The ASGI application: `POST /<procedure>`, its caller checked, its body read, its result as JSON.

Source: noded.md 2 to 4.
"""

from typing import Final, Protocol

from anycorn.typing import ASGIReceiveCallable, ASGISendCallable, HTTPScope, Scope

from common.errors import DamagedFile, GantryError
from common.nodes.certificates.pemcontent import digest_of
from common.system.log import get_log
from daemons.noded.transport.pages import Page, error_page, result_page
from protocol.http.body import Bodies, BodyRefused, HungUp
from protocol.noded.call import EPOCH_HEADER
from protocol.noded.replies import failure_body

_EPOCH_NAME: Final = EPOCH_HEADER.lower().encode()
_NO_CALLER: Final = ""
_log: Final = get_log(__name__)


class Answering(Protocol):
    """The procedures behind the application."""

    def may_call(self, digest: str) -> bool:
        """Whether the holder of this certificate is obeyed. Raises: GantryError: that cannot be told now."""
        ...

    def has(self, procedure: str) -> bool: ...

    @property
    def epoch(self) -> int:
        """The highest epoch of a master that this node has seen."""
        ...

    async def answer(self, procedure: str, body: bytes, epoch: str | None) -> bytes:
        """Carry out a procedure; return the body of its reply. Raises: GantryError, OSError: it failed."""
        ...


class Application:
    """An ASGI application over HTTP with TLS."""

    def __init__(self, answering: Answering, bodies: Bodies) -> None:
        self._answering = answering
        self._bodies = bodies

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        if scope["type"] != "http":
            # a web socket, which nobody needs here
            await send({"type": "websocket.close", "code": 1008, "reason": None})
            return
        try:
            page = await self._page(scope, receive)
        except HungUp:
            return
        except BodyRefused as refused:
            page = error_page(refused.status, refused.text)
        await send({"type": "http.response.start", "status": page.status, "headers": page.headers})
        await send({"type": "http.response.body", "body": page.body, "more_body": False})

    async def _page(self, scope: HTTPScope, receive: ASGIReceiveCallable) -> Page:
        procedure = str(scope["path"]).removeprefix("/")
        refusal = self._refusal(scope, procedure)
        if refusal is not None:
            await self._bodies.skip(scope, receive)
            return refusal
        async with self._bodies.read(scope, receive) as body:
            return await self._result(procedure, body, _epoch(scope))

    def _refusal(self, scope: HTTPScope, procedure: str) -> Page | None:
        """The page for a request that is not carried out, whatever its body is."""
        digest = caller_of(scope)
        try:
            may_call = self._answering.may_call(digest)
        except GantryError as error:
            return self._failure(error.message)
        if not may_call:
            _log.warning("caller.refused", peer=peer_of(scope), certificate=digest, procedure=procedure)
            return error_page(403, "only master candidates may call this node")
        if scope["method"] != "POST":
            return error_page(400, "procedures are called by POST")
        if not self._answering.has(procedure):
            return error_page(404, f"there is no procedure '{procedure}'")
        return None

    async def _result(self, procedure: str, body: bytes, epoch: str | None) -> Page:
        try:
            result = await self._answering.answer(procedure, body, epoch)
            return result_page(result, self._answering.epoch)
        except GantryError as error:
            _log.warning("call.failed", procedure=procedure, reason=error.message)
            return self._failure(error.message)
        except OSError as error:
            _log.error("call.failed", procedure=procedure, reason=error, path=error.filename)
            return self._failure(f"{procedure} failed: {_text(error)}")
        except Exception as error:
            _log.exception("call.crashed", procedure=procedure)
            return self._failure(f"internal error ({type(error).__name__}) in {procedure}; noded's log tells where")

    def _failure(self, text: str) -> Page:
        return result_page(failure_body(text), self._answering.epoch)


def _text(error: OSError) -> str:
    place = f": '{error.filename}'" if error.filename else ""
    return f"{(error.strerror or str(error)).lower()}{place}"


def _epoch(scope: HTTPScope) -> str | None:
    for name, value in scope["headers"]:
        if name == _EPOCH_NAME:
            return bytes(value).decode("ascii", "replace")
    return None


def caller_of(scope: HTTPScope) -> str:
    """The digest of the caller's certificate; that of nobody if there is none."""
    chain = scope["extensions"].get("tls", {}).get("client_cert_chain") or ("",)
    try:
        return digest_of(str(chain[0]).encode())
    except DamagedFile:
        return _NO_CALLER


def peer_of(scope: HTTPScope) -> str:
    """Address and port of the caller."""
    client = scope.get("client") or ("unknown", 0)
    return f"{client[0]}:{client[1]}"
