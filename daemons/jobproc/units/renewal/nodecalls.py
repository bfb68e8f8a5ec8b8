"""Calls to all nodes but this one that are online; a step of a renewal is made on all of them, or the job ends.

Source: DESIGN section 13.
"""

from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

from common.errors import ExecutionError
from common.nodes.epochs import own_epoch
from common.objects.node import Node
from common.settings import Settings
from protocol.noded.call import NodeCall
from protocol.noded.clients.blocking import BlockingNodeClient
from protocol.noded.clients.certificates import CertificateFiles
from protocol.noded.clients.nodes import NodeAddress
from protocol.noded.clients.outcomes import Failed, FailureKind, Outcome, Replied

R = TypeVar("R")

# limit of a step; each is little work for a node
_LIMIT_S: Final = 30.0
AGAIN: Final = (
    "nothing is lost, and the old certificates are still good; mend that, or mark the node offline (gnt-node modify "
    "--offline=yes NODE), and repeat: gnt-cluster renew-crypto"
)


class RenewalCalls:
    """Args: nodes: those that are called."""

    def __init__(self, settings: Settings, nodes: Sequence[Node]) -> None:
        self.nodes = {node.name: node for node in nodes}
        self._port = settings.noded.port
        files = CertificateFiles.of(settings.paths)
        self._client = BlockingNodeClient(files, epoch=own_epoch(settings.paths.epoch_file, settings.cluster.own_name))

    def ask(self, calls: Mapping[str, NodeCall[R]]) -> Mapping[str, Outcome[R]]:
        """Send each node its call; return what it came to, by name."""
        addressed = [(self._address(name), call) for name, call in calls.items()]
        return self._client.call_each(addressed, _LIMIT_S, even_paused=True)

    def on_all(self, step: str, calls: Mapping[str, NodeCall[R]]) -> Mapping[str, R]:
        """Send each node its call; return the replies, by name.

        Raises: ExecutionError: a node has not done it; the step and the reasons are told.
        """
        return replies(step, self.ask(calls))

    def _address(self, name: str) -> NodeAddress:
        return NodeAddress(name, self.nodes[name].primary_ip, self._port)


def replies(step: str, outcomes: Mapping[str, Outcome[R]]) -> Mapping[str, R]:
    """Raises: ExecutionError: a node has failed."""
    faults = [outcome.text for outcome in outcomes.values() if isinstance(outcome, Failed)]
    if faults:
        raise ExecutionError(f"{step} failed: {'; '.join(faults)}. {AGAIN}")
    return {name: outcome.value for name, outcome in outcomes.items() if isinstance(outcome, Replied)}


def is_unknown(outcome: Outcome[R]) -> bool:
    """Whether the node's daemon does not know this call of ours, as Ganeti's."""
    return isinstance(outcome, Failed) and outcome.kind is FailureKind.UNKNOWN
