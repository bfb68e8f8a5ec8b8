"""Replies with as many rows as there are jobs, or instances.

Theory. Rows from luxid are JSON already: to look through them for values that are none takes longer than all the rest,
25 µs for a job. And a long list is written in a thread, so that other clients do not wait for it.
"""

from collections.abc import Callable
from typing import Final

from starlette.responses import Response

from common.asciijson import ascii_json
from common.system.inthread import in_thread

# number of rows up to which a reply is written at once
_FEW: Final = 500


async def list_reply(count: int, make: Callable[[], object]) -> Response:
    """The reply with what `make` returns, which must be of JSON-able values.

    Args: count: about so many rows.
    """

    def write() -> bytes:
        return ascii_json(make()) + b"\n"

    body = write() if count <= _FEW else await in_thread(write)
    return Response(body, media_type="application/json")
