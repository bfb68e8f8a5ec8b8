"""The plan of the failover demo, and its live view: chains of commands on nodes, and what has become of each.

Every node goes through the same steps, each waiting for the one before it to succeed; a last job waits for all.
"""

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

STEPS = ("fetch", "build", "test", "pack", "ship")
LAST = "report"
_DONE = "success"
# state of a job -> its sign; of all others: waits
_SIGNS = {_DONE: "done", "running": "runs", "error": "FAILED", "canceled": "FAILED", "canceling": "ends"}
_WIDTH = 80


@attrs.frozen
class Step:
    """A job of the plan."""

    name: str
    node: str
    # place in the plan of the jobs that it waits for
    after: tuple[int, ...] = ()


def plan_for(nodes: Sequence[str]) -> list[Step]:
    steps: list[Step] = []
    for node in nodes:
        for number, name in enumerate(STEPS):
            steps.append(Step(name, node, (len(steps) - 1,) if number else ()))
    ends = tuple(place for place, step in enumerate(steps) if step.name == STEPS[-1])
    return [*steps, Step(LAST, nodes[0], ends)]


def as_jobs(steps: Sequence[Step], program: str, length: int) -> list[list[dict[str, Any]]]:
    """What `gnt-job submit` takes: each job a command on its node.

    Args: length: of a command, in fifths of a second.
    """
    return [
        [
            {
                "OP_ID": "OP_RUN_COMMAND",
                "argv": [program, str(length)],
                "node": step.node,
                "comment": f"{step.name} on {step.node}",
                "depends": [[after - place, [_DONE]] for after in step.after] or None,
            }
        ]
        for place, step in enumerate(steps)
    ]


class LiveView:
    """What the plan does, drawn anew in place on a terminal; else a line for each change."""

    def __init__(self, steps: Sequence[Step], job_ids: Sequence[int]) -> None:
        self._steps = steps
        self.job_ids = job_ids
        self._drawn: list[str] = []
        # by id; the last that a master has told
        self.states: dict[int, str] = {}

    def show(self, states: Mapping[int, str] | None, head: str) -> None:
        """Args: states: by id; None: nobody tells them now. head: who is the master, or that nobody is."""
        if states is not None:
            self.states = dict(states)
        done = sum(state == _DONE for state in self.states.values())
        if sys.stdout.isatty():
            stamp = time.strftime("%H:%M:%S")
            lines = [f"{stamp}  {head:50}{done:3} of {len(self.job_ids)} jobs done", *self._rows()]
            up = f"\033[{len(self._drawn)}A" if self._drawn else ""
            sys.stdout.write(up + "".join(f"\033[2K{line[:_WIDTH]}\n" for line in lines))
            self._drawn = lines
        else:
            # without the time for which nobody has been the master
            line = f"{head.partition(' for ')[0]:28} {'  '.join(self._marks())}"
            if self._drawn != [line]:
                self._drawn = [line]
                sys.stdout.write(f"{time.strftime('%H:%M:%S')}  {line}\n"[:_WIDTH])
        sys.stdout.flush()

    def _rows(self) -> list[str]:
        return [
            f"{node:8}" + "".join(f"{name:7}{sign:7}" for name, sign in cells)
            for node, cells in self._by_node().items()
        ]

    def _marks(self) -> list[str]:
        """A letter for each job: # done, > runs, . waits, ! failed."""
        letters = {"done": "#", "runs": ">", "ends": ">", "FAILED": "!"}
        return [
            f"{node} {''.join(letters.get(sign, '.') for _, sign in cells)}" for node, cells in self._by_node().items()
        ]

    def _by_node(self) -> dict[str, list[tuple[str, str]]]:
        found: dict[str, list[tuple[str, str]]] = {}
        for step, job_id in zip(self._steps, self.job_ids, strict=True):
            place = LAST if step.name == LAST else step.node
            found.setdefault(place, []).append((step.name, _SIGNS.get(self.states.get(job_id, ""), "-")))
        return found
