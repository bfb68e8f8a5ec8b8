"""The bodies of requests, packed once.

Theory. A large content is compressed and written as base64, which costs more than sending it. The same call may go to
many nodes one by one, as the configuration does, each when that node is ready. So the body of a large call is kept as
long as the call itself lives, and callers that come while it is packed wait for it.
"""

import weakref
from collections.abc import Mapping, Sequence
from typing import Final

import attrs
import trio

from common.system.inthread import in_thread
from protocol.noded.call import AnyCall, request_bodies, request_body

# bytes that are packed or read in a thread: the event loop has others to serve
HEAVY_BYTES: Final = 64 * 2**10


@attrs.define(eq=False)
class _Body:
    is_packed: trio.Event = attrs.Factory(trio.Event)
    # None after `is_packed`: the packing was given up
    content: bytes | None = None


class Bodies:
    """Makes the bodies of calls."""

    def __init__(self) -> None:
        # by the identity of the call
        self._large: dict[int, _Body] = {}

    def __len__(self) -> int:
        """The number of bodies that are kept."""
        return len(self._large)

    async def of(self, calls: Sequence[AnyCall]) -> Mapping[int, bytes]:
        """The bodies by the identity of the call. Cost: a large one is packed in a thread."""
        different = {id(call): call for call in calls}
        if sum(call.carried_bytes for call in different.values()) <= HEAVY_BYTES:
            return request_bodies(calls)
        if len(different) > 1:
            return await in_thread(request_bodies, calls)
        (call,) = different.values()
        return {id(call): await self._large_one(call)}

    async def _large_one(self, call: AnyCall) -> bytes:
        kept = self._large.get(id(call))
        if kept is None:
            kept = self._large[id(call)] = _Body()
            # another call may have the same identity then
            weakref.finalize(call, self._large.pop, id(call), None).atexit = False
            try:
                kept.content = await in_thread(request_body, call)
            finally:
                kept.is_packed.set()
        await kept.is_packed.wait()
        return await in_thread(request_body, call) if kept.content is None else kept.content
