"""The ASGI application of the door: a few requests, strictly bounded, each refusal with its reason.

Wrong tokens are counted, and one after the other delayed: guessing is hopeless, and shall not be cheap either.

Source: DESIGN section 13, "Joining".
"""

from http import HTTPStatus
from typing import Final

import trio
from anycorn.typing import ASGIReceiveCallable, ASGISendCallable, HTTPScope, Scope

from common.errors import Conflict, Denied, GantryError, InternalError, InvalidRequest, NotFound, Unavailable
from common.nodes.joining.jointoken import WrongToken
from common.system.log import get_log
from daemons.noded.joining.admission import Admission
from daemons.noded.transport.application import caller_of, peer_of
from daemons.noded.transport.pages import Page
from protocol.http.body import Bodies, BodyRefused, HungUp
from protocol.noded.joining import MAX_REQUEST, AskNews, Join, Ready, failure_body, read_body, to_body

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
_log: Final = get_log(__name__)


class JoinApplication:
    """Args: pause_s: after a wrong token."""

    def __init__(self, admission: Admission, pause_s: float = WRONG_PAUSE_S) -> None:
        self._admission = admission
        self._bodies = Bodies(MAX_REQUEST, _BODY_S)
        self._pause_s = pause_s
        self._pausing = trio.Lock()
        self._wrong = 0

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008, "reason": None})
            return
        try:
            async with self._bodies.read(scope, receive) as body:
                page = await self._page(scope, body)
        except HungUp:
            return
        except BodyRefused as refused:
            page = _page(refused.status, failure_body(InvalidRequest(refused.text)))
        await send({"type": "http.response.start", "status": page.status, "headers": page.headers})
        await send({"type": "http.response.body", "body": page.body, "more_body": False})

    async def _page(self, scope: HTTPScope, body: bytes) -> Page:
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

    async def _answer(self, scope: HTTPScope, body: bytes) -> object:
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


def _failure(error: GantryError) -> Page:
    status = next((status for kind, status in _STATUSES if isinstance(error, kind)), HTTPStatus.INTERNAL_SERVER_ERROR)
    return _page(status, failure_body(error))


def _page(status: int, body: bytes) -> Page:
    return Page(int(status), "application/json", body)
