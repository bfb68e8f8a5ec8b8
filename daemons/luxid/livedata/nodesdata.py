"""What node daemons tell, beside what the configuration has, for the rows of queries.

Source: luxid.md 7.6, "live data".
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TypeVar

import trio

from common.paths import Paths
from common.system.inthread import in_thread
from daemons.luxid.core.live.hearing import facts_of, notes_on
from daemons.luxid.core.live.livecalls import console_calls, instance_calls, node_info
from daemons.luxid.core.query.exports import ExportRow, found_exports
from daemons.luxid.core.query.fields import Need
from daemons.luxid.core.query.instance.instancelive import InstanceRow, with_consoles, with_sightings
from daemons.luxid.core.query.live import NoFacts, Told
from daemons.luxid.core.query.nodelive import NodeRow
from daemons.luxid.livedata.asking import Calls, NodeAsking
from protocol.noded.clients.certificates import CertificateFiles
from protocol.noded.clients.client import NodeClient
from protocol.noded.facts import ExportList
from protocol.noded.instances import InstanceFacts

R = TypeVar("R")
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

    async def of_nodes(self, rows: Sequence[NodeRow], needs: Needs) -> Told[NodeRow]:
        """The rows with the facts of their nodes. Cancellation: calls under way are given up."""
        notes: list[str] = []
        found = await self._ask([(row.object, node_info(row.config, row.object, needs)) for row in rows], notes)
        return Told([NodeRow(row.object, row.config, found[row.object.uuid]) for row in rows], notes)

    async def of_exports(self, rows: Sequence[ExportRow], _: Needs) -> Told[ExportRow]:
        """A row for each export of the nodes of these rows. Cancellation: as `of_nodes`."""
        call, notes = ExportList(), list[str]()
        told = await self._ask([(row.object, call) for row in rows], notes)
        return Told(found_exports(rows, told), notes)

    async def of_instances(self, rows: Sequence[InstanceRow], needs: Needs) -> Told[InstanceRow]:
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
        return Told(whole, list(dict.fromkeys(notes)))

    async def _ask(self, calls: Calls[R], notes: list[str]) -> dict[str, R | NoFacts]:
        """Args: notes: gets what people should know."""
        outcomes = await self._asking.ask(calls)
        notes += notes_on(outcomes.values())
        found: dict[str, R | NoFacts] = {}
        for uuid, outcome in outcomes.items():
            told = facts_of(outcome)
            found[uuid] = told
        return found
