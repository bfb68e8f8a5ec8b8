"""Drawings of the machines, made from their tables, between the markers in docs/machines.md and in pages of the guide.

    python tests/drawings.py        draw them anew; a test compares

One line a step: from, what happens, to.
"""

import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from textwrap import dedent
from typing import Final

TOP: Final = Path(__file__).parents[1]
sys.path.insert(0, str(TOP))

from common.commands.stopping import EVENTS as COMMAND  # noqa: E402
from common.queue.jobs import EVENTS as OPCODE  # noqa: E402  # run as a script, too
from daemons.keeperd.core.states import STEPS as KEEPER  # noqa: E402
from daemons.luxid.core.queue.entries import STEPS as JOB  # noqa: E402
from daemons.supervisor.core.restarts import TRANSITIONS as DAEMON  # noqa: E402
from daemons.wconfd.core.locks.fairness import STANDINGS as REQUEST  # noqa: E402

# the first has all of them
FILES: Final = (TOP / "docs" / "machines.md", TOP / "docs" / "guide" / "why-does-it-wait.md")
OVER: Final = "over"
_MARKED: Final = re.compile(r"(<!-- drawing: (\w+) -->\n)(```text\n)?.*?(<!-- end -->)", re.DOTALL)

Step = tuple[str, str, str]


def machines() -> Mapping[str, list[Step]]:
    """The steps of each machine, in the order of its table."""
    return {
        "opcode": [
            (state.value, event.value, after.value) for state, row in OPCODE.items() for event, after in row.items()
        ],
        "job": [(phase.value, why, after.value) for phase, row in JOB.items() for after, why in row.items()],
        "command": [
            (phase.value, event.value, after.value if after else OVER)
            for phase, row in COMMAND.items()
            for event, after in row.items()
        ],
        "daemon": [
            (phase.value, event.value, after.value) for phase, row in DAEMON.items() for event, after in row.items()
        ],
        "keeper": [(state.value, why, after.value) for state, row in KEEPER.items() for after, why in row.items()],
        "request": [(before.value, why, after.value) for before, row in REQUEST.items() for why, after in row.items()],
    }


def drawing(steps: Iterable[Step]) -> str:
    """The steps in columns; a state is named once for all that leave it."""
    rows = list(steps)
    first, second = (max(len(row[place]) for row in rows) for place in (0, 1))
    lines: list[str] = []
    last = None
    for before, event, after in rows:
        lines.append(
            f"    {'' if before == last else before:<{first}}  -- {event} {'-' * (second - len(event))}-> {after}"
        )
        last = before
    return "\n".join(lines)


def drawn(text: str) -> str:
    """The text with all its drawings made anew. Raises: KeyError: it has a marker of an unknown machine."""
    all_steps = machines()

    def anew(found: re.Match[str]) -> str:
        lines = drawing(all_steps[found[2]])
        # a block by indentation, or a fence where there was one
        whole = f"{found[3]}{dedent(lines)}\n```\n" if found[3] else f"\n{lines}\n\n"
        return f"{found[1]}{whole}{found[4]}"

    return _MARKED.sub(anew, text)


if __name__ == "__main__":
    for file in FILES:
        file.write_text(drawn(file.read_text()))
