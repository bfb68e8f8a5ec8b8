"""Ask the leader of etcd first, where it is known who that is.

Theory. A member that does not lead passes each change on to the leader and waits for it: one way more between machines,
and work for one member more. Every reply bears a term of etcd, and a term has at most one leader. So all members are
asked once in each new term who leads, beside the requests, which wait for nothing: until the leader is found, they go
where they went before. A term begins before its leader is elected, and a reply may bear it by then: as long as nobody
says that it leads, members are asked again now and then. A leader that does not reply is left as any other member.

Source: lease.md 1.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import trio

from common.errors import GantryError
from protocol.etcd.address import Endpoint
from protocol.etcd.maintenance import MemberStatus

# seconds; nobody is asked more often
_PAUSE_S: Final = 0.5


class LeaderFirst:
    """Follows the leader; start `run`, and tell the term of each reply.

    Args:
        endpoints: of all members.
        ask: returns what a member says of itself, or raises GantryError.
        found: hears the endpoint of each new leader.
    """

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        ask: Callable[[Endpoint], Awaitable[MemberStatus]],
        found: Callable[[Endpoint], None],
    ) -> None:
        self._endpoints = endpoints
        self._ask = ask
        self._found = found
        # the highest one that a reply bore
        self._term = 0
        # whether its leader is found
        self._is_known = False
        self._is_new = trio.Event()

    def heard(self, term: int) -> None:
        """A reply bore this term."""
        if term > self._term:
            self._term = term
            self._is_known = False
        if not self._is_known:
            self._is_new.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._is_new.wait()
            self._is_new = trio.Event()
            async with trio.open_nursery() as nursery:
                for endpoint in self._endpoints:
                    nursery.start_soon(self._look, endpoint)
            if not self._is_known:
                await trio.sleep(_PAUSE_S)

    async def _look(self, endpoint: Endpoint) -> None:
        try:
            status = await self._ask(endpoint)
        except GantryError:
            return
        # one that is cut off may believe that it leads, in a term that is over
        if status.is_leader and status.header.raft_term >= self._term:
            self._is_known = True
            self._found(endpoint)
