"""One opcode for all nodes becomes one job for each.

Source: DESIGN section 13, "Fleet"; `common.queue.batch`.
"""

import os
import time
from collections.abc import Mapping, Sequence

from cli.fleet.fleetoptions import NODE_MARK, FleetWish
from common.queue.batch import Batch, batch_entry
from protocol.luxi.submission import OpInput


def jobs_for(op: OpInput, nodes: Sequence[str], wish: FleetWish) -> list[list[OpInput]]:
    """A job of this opcode for each node; the jobs are a batch if the wish may have several."""
    batch_id, now_ns = os.urandom(6).hex(), time.time_ns()
    jobs: list[list[OpInput]] = []
    for place, node in enumerate(nodes, 1):
        mine: dict[str, object] = {**op, "node": node, "locks": _for_node(op.get("locks"), node)}
        if wish.is_batch:
            batch = Batch(batch_id, place, len(nodes), wish.at_most, wish.failures)
            mine["reason"] = [*_trail(op), batch_entry(batch, now_ns).to_wire()]
        jobs.append([mine])
    return jobs


def _trail(op: OpInput) -> Sequence[object]:
    trail = op.get("reason")
    return trail if isinstance(trail, list) else ()


def _for_node(locks: object, node: str) -> Mapping[str, object]:
    found = locks if isinstance(locks, Mapping) else {}
    return {str(name).replace(NODE_MARK, node): mode for name, mode in found.items()}
