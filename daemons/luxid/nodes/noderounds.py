"""Rounds at one node: its commands are listed, those of jobs that are over are stopped, their ghosts laid.

Source: DESIGN sections 13 and 14; `daemons.luxid.core.ghosts.rounds` decides.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, TypeVar

import trio

from common.errors import GantryError
from common.system.log import get_log
from daemons.luxid.core.ghosts.rounds import Concern, Round, round_at
from protocol.client import Client
from protocol.noded.call import NodeCall
from protocol.noded.clients.client import NodeClient
from protocol.noded.clients.nodes import NodeAddress
from protocol.noded.clients.outcomes import Failed, Replied
from protocol.noded.commands import (
    LONGEST_WAIT_S,
    MOST_COMMANDS,
    CommandPhase,
    FollowCommand,
    ForgetCommands,
    ListCommands,
    StopCommand,
)
from protocol.wconfd.ghosts import LayGuards

# commands of one node whose ends are waited for at a time; with more of them, each wait is short
_FOLLOWED: Final = 8
_SHORT_WAIT_S: Final = 5.0
# a byte that no output reaches: only phases are of interest
_NO_OUTPUT: Final = 2**62
# seconds for wconfd to come back
_WCONFD_S: Final = 30.0
R = TypeVar("R")
_log: Final = get_log(__name__)


class NodeSilent(Exception):
    """A call to the node, or wconfd's reply about it, has failed; the text says why."""


class NodeRounds:
    """The rounds at a node, one after the other.

    Args:
        address: returns the node's address; None: the configuration does not know the node.
    """

    def __init__(
        self,
        node: str,
        client: NodeClient,
        wconfd: Client,
        address: Callable[[str], Awaitable[NodeAddress | None]],
        concern: Concern,
    ) -> None:
        self._node = node
        self._client = client
        self._wconfd = wconfd
        self._address = address
        self._concern = concern
        # keys that were asked to stop since the node last failed to reply
        self._stopped: set[str] = set()

    async def round(self, ghosts: AbstractSet[str]) -> Round:
        """List, stop, lay, forget; returns what was done, with what is to be waited for.

        Args: ghosts: keys of guards of ghosts, at this node.
        Raises: NodeSilent: it is not known what has become of the rest.
        Durability: ghosts that were laid stay so.
        """
        try:
            told = await self.list_commands()
            await self._stop(round_at(ghosts, told, self._stopped, self._concern).stop, told)
            done = round_at(ghosts, told, self._stopped, self._concern)
            await self._lay(done.laid)
            await self._forget(done.forget)
        except NodeSilent:
            # it may be another life of the node that replies next
            self._stopped.clear()
            raise
        return done

    async def until_news(self, follow: Mapping[str, CommandPhase], news: trio.Event) -> None:
        """Return when one of these commands is in another phase, or there is other news, or after a while.

        Raises: NodeSilent: one of the calls has failed.
        """
        keys = list(follow)[:_FOLLOWED]
        wait_s = LONGEST_WAIT_S if len(follow) <= _FOLLOWED else _SHORT_WAIT_S
        failures: list[NodeSilent] = []

        async def wait(key: str) -> None:
            try:
                news = await self._call(FollowCommand(key, _NO_OUTPUT, _NO_OUTPUT, follow[key], wait_s))
                if news.state.phase is follow[key]:
                    # the signal had no effect, or was not delivered: the next round sends it again
                    self._stopped.discard(key)
            except NodeSilent as error:
                failures.append(error)
            nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            for key in keys:
                nursery.start_soon(wait, key)
            await news.wait()
            nursery.cancel_scope.cancel()
        if failures:
            self._stopped.clear()
            raise failures[0]

    async def list_commands(self) -> dict[str, CommandPhase]:
        """All commands that the node knows. Raises: NodeSilent."""
        told: dict[str, CommandPhase] = {}
        last = ""
        while True:
            page = await self._call(ListCommands(last))
            told.update({state.key: state.phase for state in page})
            if len(page) < MOST_COMMANDS:
                return told
            last = max(state.key for state in page)

    async def _stop(self, keys: Sequence[str], told: dict[str, CommandPhase]) -> None:
        for key in keys:
            told[key] = (await self._call(StopCommand(key))).phase
            self._stopped.add(key)
            _log.info("command.stopped", node=self._node, command=key, phase=told[key].value)

    async def _lay(self, laid: Mapping[str, tuple[str, ...]]) -> None:
        for word, keys in laid.items():
            try:
                await self._wconfd.call_retrying(LayGuards(keys, f"node {self._node}: {word}"), _WCONFD_S)
            except GantryError as error:
                raise NodeSilent(f"wconfd cannot be told that {', '.join(keys[:3])} ended: {error.message}") from error
            _log.info("ghosts.laid", node=self._node, commands=",".join(keys), word=word)

    async def _forget(self, keys: Sequence[str]) -> None:
        for start in range(0, len(keys), MOST_COMMANDS):
            await self._call(ForgetCommands(tuple(keys[start : start + MOST_COMMANDS])))

    async def _call(self, call: NodeCall[R]) -> R:
        """Raises: NodeSilent."""
        address = await self._address(self._node)
        if address is None:
            raise NodeSilent("the configuration does not know the node")
        outcome = (await self._client.call_nodes([address], call, even_paused=True))[address.name]
        if isinstance(outcome, Replied):
            return outcome.value
        raise NodeSilent(outcome.text if isinstance(outcome, Failed) else "the node is marked offline")
