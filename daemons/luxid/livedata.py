"""Asks node daemons what only they know, for queries.

Only what a shown or filtered field needs is asked, and only of nodes that the rest of the filter does not rule out. The
client is not that of the copies: a node that is slow for a query gets its copies as before. When the client of the
query hangs up, the calls are given up.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, TypeVar

import trio

from common.objects.config import Node
from common.paths import Paths
from common.system.inthread import give_way, in_thread
from common.system.log import get_log
from daemons.luxid.core.live import console_calls, facts_of, instance_calls, node_info, notes_on
from daemons.luxid.core.query.engine import Need, NoFacts, RowsWithNotes
from daemons.luxid.core.query.instances import InstanceRow, with_consoles, with_sightings
from daemons.luxid.core.query.nodes import NodeRow
from daemons.luxid.core.query.objects import ExportRow, found_exports
from protocol.noded.call import Failed, NodeAddress, NodeCall, Outcome, Replied
from protocol.noded.clients.certificates import CertificateFiles
from protocol.noded.clients.client import NodeClient
from protocol.noded.clients.connection import MAX_CONNECTIONS
from protocol.noded.clients.judging import no_reply, no_turn
from protocol.noded.facts import ExportList, InstanceFacts

# Asks many node daemons at a time, within a limit of time for each and for all.
#
# Theory. A query waits for the slowest node, so its limits are short. They count from the node's turn: nodes that
# hang take turns of others only as long as one limit, those that were silent last time come last, and many queries
# that wait for the same node take few turns. A node is asked at each query, even if it has just been silent: whoever
# has mended it wants to see that.
#
# Source: luxid.md 7.6; noded.md 2.


R = TypeVar("R")
Calls = Sequence[tuple[Node, NodeCall[R]]]

# calls to one node at a time, of all queries
_AT_ONE_NODE: Final = 4
# the limit for all nodes together, in limits for one
_LIMITS: Final = 2
_log: Final = get_log(__name__)


class NodeAsking:
    """Asks nodes on behalf of queries; any number of them at a time.

    Args:
        client: no other part uses it: its back-off says nothing about other calls.
        limit_s: seconds for one node.
    """

    def __init__(self, client: NodeClient, port: int, limit_s: float) -> None:
        self._client = client
        self._port = port
        self._limit_s = limit_s
        # as many as the client has connections, so that a turn need not wait for one
        self._turns = trio.CapacityLimiter(MAX_CONNECTIONS)
        # by the name of the node
        self._turns_at: defaultdict[str, trio.CapacityLimiter] = defaultdict(lambda: trio.CapacityLimiter(_AT_ONE_NODE))
        # names of nodes whose last call failed
        self._silent: set[str] = set()

    async def ask(self, calls: Calls[R]) -> dict[str, Outcome[R]]:
        """Send each node its call; return what it came to, by the node's UUID.

        Cancellation: calls under way are given up.
        """
        outcomes: dict[str, Outcome[R]] = {}
        with trio.move_on_after(self._limit_s * _LIMITS):
            async with trio.open_nursery() as nursery:
                for has_been_silent in (False, True):
                    for node, call in calls:
                        if (node.name in self._silent) is has_been_silent:
                            nursery.start_soon(self._ask_one, node, call, outcomes)
                    # these come to their turns, or into the queue, before those that are started next
                    await give_way()
        return {node.uuid: self._noted(node, call, outcomes) for node, call in calls}

    async def _ask_one(self, node: Node, call: NodeCall[R], outcomes: dict[str, Outcome[R]]) -> None:
        address, uuid = self._address(node), node.uuid
        async with self._turns_at[node.name], self._turns:
            # stays if the time of all is over
            outcomes[uuid] = no_reply(address, call, self._limit_s * _LIMITS)
            found = await self._client.call_nodes([address], call, self._limit_s, even_paused=True)
            outcomes[uuid] = found[node.name]

    def _noted(self, node: Node, call: NodeCall[R], outcomes: dict[str, Outcome[R]]) -> Outcome[R]:
        """The outcome at a node; logs whether it has begun or ceased to be silent."""
        outcome = outcomes.get(node.uuid)
        if outcome is None:
            return no_turn(self._address(node), call, self._limit_s * _LIMITS)
        if isinstance(outcome, Failed) and node.name not in self._silent:
            self._silent.add(node.name)
            _log.warning("livedata.missing", node=node.name, error=outcome.text, effect="queries show no live data")
        elif isinstance(outcome, Replied) and node.name in self._silent:
            self._silent.discard(node.name)
            _log.info("livedata.back", node=node.name)
        return outcome

    def _address(self, node: Node) -> NodeAddress:
        return NodeAddress(node.name, node.primary_ip, self._port, offline=node.offline)


# What node daemons tell, beside what the configuration has, for the rows of queries.
#
# Source: luxid.md 7.6, "live data".


Needs = AbstractSet[Need]


class NodesData:
    """Completes rows; start `run` first. Facts are kept as long as the rows of their query.

    Args: limit_s: seconds for one node; all together have twice as much.
    """

    def __init__(self, paths: Paths, port: int, limit_s: float) -> None:
        self._client = NodeClient(CertificateFiles.of(paths))
        self._asking = NodeAsking(self._client, port, limit_s)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep connections to nodes, until cancelled; for `nursery.start`."""
        async with self._client:
            task_status.started()
            await trio.sleep_forever()

    async def of_nodes(self, rows: Sequence[NodeRow], needs: Needs) -> RowsWithNotes[NodeRow]:
        """The rows with the facts of their nodes. Cancellation: calls under way are given up."""
        notes: list[str] = []
        found = await self._ask([(row.object, node_info(row.config, row.object, needs)) for row in rows], notes)
        return RowsWithNotes([NodeRow(row.object, row.config, found[row.object.uuid]) for row in rows], notes)

    async def of_exports(self, rows: Sequence[ExportRow], _: Needs) -> RowsWithNotes[ExportRow]:
        """A row for each export of the nodes of these rows. Cancellation: as `of_nodes`."""
        call, notes = ExportList(), list[str]()
        told = await self._ask([(row.object, call) for row in rows], notes)
        return RowsWithNotes(found_exports(rows, told), notes)

    async def of_instances(self, rows: Sequence[InstanceRow], needs: Needs) -> RowsWithNotes[InstanceRow]:
        """The rows with what the primary nodes of their instances tell. Cancellation: as `of_nodes`."""
        notes: list[str] = []
        seen: dict[str, Mapping[str, InstanceFacts] | NoFacts] = {}
        consoles: dict[str, Mapping[str, Mapping[str, object]] | NoFacts] = {}

        async def see() -> None:
            told = await self._ask(instance_calls(rows), notes)
            seen.update(told)

        async def find_consoles() -> None:
            # whole instances are written for it, perhaps thousands
            told = await self._ask(await in_thread(console_calls, rows), notes)
            consoles.update(told)

        async with trio.open_nursery() as nursery:
            if Need.INSTANCES in needs:
                nursery.start_soon(see)
            if Need.CONSOLES in needs:
                nursery.start_soon(find_consoles)
        sighted = with_sightings(rows, seen) if Need.INSTANCES in needs else rows
        whole = with_consoles(sighted, consoles) if Need.CONSOLES in needs else sighted
        return RowsWithNotes(whole, list(dict.fromkeys(notes)))

    async def _ask(self, calls: Calls[R], notes: list[str]) -> dict[str, R | NoFacts]:
        """Args: notes: gets what people should know."""
        outcomes = await self._asking.ask(calls)
        notes += notes_on(outcomes.values())
        found: dict[str, R | NoFacts] = {}
        for uuid, outcome in outcomes.items():
            told = facts_of(outcome)
            found[uuid] = told
        return found
