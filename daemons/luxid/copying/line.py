"""The calls to one node, of which each has a reply or fails."""

from typing import Final, TypeVar

import trio

from common.errors import GantryError, explain_os_error
from protocol.noded.call import NodeCall
from protocol.noded.clients.client import NodeClient
from protocol.noded.clients.nodes import NodeAddress
from protocol.noded.clients.outcomes import Failed, FailureKind, Replied

# limits of time, seconds: a call of a file, and a call about many files
CALL_S: Final = 10.0
LONG_CALL_S: Final = 120.0
R = TypeVar("R")


class NotSent(Exception):
    """A call to the node has failed, or a file cannot be read here."""

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

    async def call(self, call: NodeCall[R], limit_s: float) -> R:
        """Raises: NotSent."""
        outcome = (await self._client.call_nodes([self.node], call, limit_s))[self.node.name]
        if isinstance(outcome, Replied):
            self.heard_at, self.tells_epoch = trio.current_time(), outcome.epoch is not None
            return outcome.value
        text = f"{self.node} is offline"
        raise NotSent(outcome if isinstance(outcome, Failed) else Failed(FailureKind.UNSENT, text))

    def pause_s(self, at_least_s: float) -> float:
        """For how long it is left alone after a failure."""
        silence = self._client.silence(self.node.name)
        return max(at_least_s, silence.until - trio.current_time() if silence is not None else 0.0)


def failed_of(error: NotSent | OSError | GantryError) -> Failed:
    """Why a node was not sent something."""
    if isinstance(error, NotSent):
        return error.failed
    text = explain_os_error(error) if isinstance(error, OSError) else error.message
    return Failed(FailureKind.UNSENT, text)


def garbled(line: NodeLine, text: str) -> NotSent:
    """The failure of a node whose reply makes no sense."""
    return NotSent(Failed(FailureKind.GARBLED, f"{line.node} {text}"))
