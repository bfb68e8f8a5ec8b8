"""Calls to one node, of which each has a reply or fails.

Source: noded.md 4 and 6.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import TypeVar

import trio

from common.errors import GantryError
from common.wire import structure
from protocol.noded.call import Failed, FailureKind, NodeAddress, NodeCall, Replied
from protocol.noded.clients.client import NodeClient
from protocol.noded.facts import Check, NodeVerify

R = TypeVar("R")


class NotSent(Exception):
    """A call to the node has failed, or what it was to carry cannot be read here."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.text)
        self.failed = failed


class NodeLine:
    """Calls one node."""

    def __init__(self, node: NodeAddress, client: NodeClient) -> None:
        self.node = node
        self._client = client
        # when it replied last, by trio's clock
        self.heard_at = trio.current_time()
        # whether its last reply bore an epoch, which Ganeti's node daemon does not know
        self.tells_epoch = False

    async def call(self, call: NodeCall[R], limit_s: float, *, even_paused: bool = False) -> R:
        """Args: even_paused: also while the client leaves the node alone. Raises: NotSent."""
        outcomes = await self._client.call_nodes([self.node], call, limit_s, even_paused=even_paused)
        outcome = outcomes[self.node.name]
        if isinstance(outcome, Replied):
            self.heard_at, self.tells_epoch = trio.current_time(), outcome.epoch is not None
            return outcome.value
        text = f"{self.node} is offline"
        raise NotSent(outcome if isinstance(outcome, Failed) else Failed(FailureKind.UNSENT, text))

    async def digests(self, names: Sequence[str], limit_s: float, *, even_paused: bool = False) -> Mapping[str, str]:
        """The digests of the node's files, as of `digest`; those that it does not have are left out.

        Args: names: on the wire. even_paused: as for `call`.
        Raises: NotSent.
        """
        call = NodeVerify({Check.FILES.value: list(names)}, "", {})
        reply = await self.call(call, limit_s, even_paused=even_paused)
        try:
            return structure(reply.get(Check.FILES.value), dict[str, str], Check.FILES.value)
        except GantryError as error:
            raise self.garbled(f"does not tell which files it has: {error.message}") from error

    def garbled(self, text: str) -> NotSent:
        """The failure of the node when its reply makes no sense."""
        return NotSent(Failed(FailureKind.GARBLED, f"{self.node} {text}"))

    def pause_s(self, at_least_s: float) -> float:
        """For how long it is left alone after a failure."""
        silence = self._client.silence(self.node.name)
        return max(at_least_s, silence.until - trio.current_time() if silence is not None else 0.0)


def digest(content: bytes) -> str:
    """As node daemons tell it of a file with this content."""
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()
