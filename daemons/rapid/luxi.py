"""LUXI over HTTP: a row for each method of luxid, which is passed on in the name of the bearer of the token.

Source: DESIGN section 15; `protocol.rapid.luxi`.
"""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Final, cast

from starlette.responses import Response

from common.access import Role
from common.errors import InvalidRequest, RemoteError
from common.system.inthread import in_thread
from common.webaccess.rights import Right
from daemons.rapid.calls import Asked, Call, Handler
from daemons.rapid.refusals import RequestRefused
from daemons.rapid.resources.parameters import strict
from daemons.rapid.streams import RelayedFeed
from protocol.client import Client
from protocol.envelope import Dialect, failure
from protocol.framing import pack
from protocol.luxi.feed import Subscribe
from protocol.messages import AnyRequest, structure_request
from protocol.rapid.jobs import PAGE_MOST
from protocol.rapid.luxi import LOCAL, PASSED, PING, STREAM_TYPE, Passed, needs, path_of

_JSON: Final = "application/json"
_HEADERS: Final = {"content-type": STREAM_TYPE, "cache-control": "no-store", "x-accel-buffering": "no"}
# arguments from which they are read in a thread
_MANY: Final = 100
_ABOUT: Final = """For `gnt-job --remote` and programs like it; other programs use `/3`, whose forms last.

The body is the list of the method's arguments by position, the reply is luxid's own: `{"success", "result"}`, also of
an error, with the status 200. The reply of `Subscribe` is a stream of such messages, each ended by the byte 3.
Only the bearer of a token may call. Methods that work only on a machine of the cluster are refused."""
# what stands in the document for all rows
ENTRY: Final = Call(
    "POST",
    "/luxi/{method}",
    cast(Handler, None),
    "Pass a message of LUXI on to luxid.",
    name="callLuxi",
    takes=list[object],
    gives=object,
    rights=tuple(Right),
    errors=(HTTPStatus.NOT_FOUND, HTTPStatus.BAD_GATEWAY),
    is_for_tokens=True,
    tag="luxi",
    description=_ABOUT,
)


def rows() -> Sequence[Call]:
    """The rows; of methods that stay on the machine, those that refuse them."""
    passed = [_row(path_of(kind), _passing(each), each) for kind, each in PASSED.items()]
    return [*passed, *(_row(path_of(kind), _refusing(kind), Passed(kind, tuple(Right))) for kind in LOCAL)]


def _row(path: str, handler: Handler, passed: Passed) -> Call:
    return strict(
        Call(
            "POST",
            path,
            handler,
            f"{passed.kind.METHOD} of LUXI.",
            takes=list[object],
            gives=object,
            rights=passed.rights,
            only_waits=passed.only_waits,
            changes=passed.changes,
            is_for_tokens=True,
        )
    )


def _refusing(kind: type[AnyRequest]) -> Handler:
    async def refuse(asked: Asked) -> object:
        """Raises: RequestRefused."""
        raise RequestRefused(403, f"{kind.METHOD} works only on a machine of the cluster: {LOCAL[kind]}")

    return refuse


def _passing(passed: Passed) -> Handler:
    async def pass_on(asked: Asked) -> Response:
        """Raises: InvalidRequest: the arguments are not those of the method. RequestRefused: a right is missing."""
        args = asked.body_as(list)
        if _is_large(args):
            request = await in_thread(structure_request, passed.kind, args)
        else:
            request = structure_request(passed.kind, args)
        _check_rights(asked, passed, request)
        if isinstance(request, Subscribe):
            return await _stream(asked, request)
        return Response(await asked.daemons.luxi(request), media_type=_JSON)

    return pass_on


def _is_large(args: Sequence[object]) -> bool:
    return any(isinstance(value, list) and len(value) >= _MANY for value in args)


def _check_rights(asked: Asked, passed: Passed, request: AnyRequest) -> None:
    """Raises: RequestRefused: the arguments need a right that the token lacks."""
    rights = asked.caller.rights
    if rights.role_for(passed.rights) is Role.NONE:
        # he is here only where everybody may read
        return
    for right in needs(request):
        if rights.role_for((right,)) is Role.NONE:
            raise RequestRefused(
                403, f"'{asked.caller.name}' lacks the right '{right.value}', which this {request.METHOD} needs"
            )


async def _stream(asked: Asked, request: Subscribe) -> Response:
    """Raises: InvalidRequest: only the feed of a machine of the cluster tells of all jobs."""
    if not 0 < len(request.ids or ()) <= PAGE_MOST:
        raise InvalidRequest(f"name 1 to {PAGE_MOST} jobs to follow; on a machine of the cluster there is no limit")
    try:
        feed, reply = await asked.daemons.feed(request)
    except RemoteError as error:
        # luxid's, which nothing follows
        return Response(pack(failure(Dialect.GANETI, error)), headers=_HEADERS)
    return RelayedFeed(feed, _message, _HEADERS, first=pack(reply), ping=PING)


async def _message(feed: Client) -> bytes:
    return pack(await feed.message())
