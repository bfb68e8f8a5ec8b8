"""A command that tells of itself: when it begins and ends, on which node, and whether another one has its lock.

Each node has a tally, a file with a line for each event. What a job's lock guards is a file of the campaign, which the
command locks in the kernel without waiting: if that fails, two jobs had the same lock at once.
"""

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import attrs

_SCRIPT: Final = """
echo "begin $TAG" >> "$TALLY"
exec 9>>"$HELD"
flock --nonblock 9 || echo "clash $TAG" >> "$TALLY"
i=0
while [ $i -lt $LINES ]; do i=$((i + 1)); echo "line $i of $TAG"; sleep $PAUSE; done
echo "end $TAG" >> "$TALLY"
exit $CODE
"""
_EVENT: Final = re.compile(r"(begin|clash|end) (\S+)")


@attrs.frozen
class Work:
    """A command to be run on a node."""

    tag: str
    node: str
    # name of the instance whose lock it takes, alone
    guarded: str
    lines: int
    # seconds before each next line
    pause: float
    exit_code: int

    @property
    def output(self) -> bytes:
        """All that it writes."""
        return b"".join(b"line %d of %s\n" % (number, self.tag.encode()) for number in range(1, self.lines + 1))

    def opcode(self, folder: Path) -> Mapping[str, object]:
        variables = {
            "TAG": self.tag,
            "TALLY": str(folder / f"tally-{self.node}"),
            "HELD": str(folder / f"held-{self.guarded}"),
            "LINES": str(self.lines),
            "PAUSE": f"{self.pause:g}",
            "CODE": str(self.exit_code),
        }
        script = "".join(f"{name}={shlex.quote(value)}\n" for name, value in variables.items()) + _SCRIPT
        locks = {f"instance/{self.guarded}": "exclusive"}
        return {"OP_ID": "OP_RUN_COMMAND", "argv": ["sh", "-c", script], "node": self.node, "locks": locks}


class Tallies:
    """What the commands have told, on all nodes. Args: folder: that of the tallies."""

    def __init__(self, folder: Path) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        for path in folder.glob("tally-*"):
            for event in _EVENT.finditer(path.read_text()):
                self._counts[event[1], event[2]] += 1

    def complaints(self, work: Work, status: str, has_begun: bool, output: bytes) -> Iterator[str]:
        """What is wrong with a job that has ended so.

        Args: has_begun: false: the job says that its program was not started.
        """
        begins, ends = self._counts["begin", work.tag], self._counts["end", work.tag]
        if begins > 1:
            yield f"it ran {begins} times"
        if self._counts["clash", work.tag]:
            yield f"another job had the lock of {work.guarded} at the same time"
        if status == "error" and not has_begun:
            if begins:
                yield "it says that its program was not started, and it was"
            return
        if status == "canceled":
            if not work.output.startswith(output):
                yield f"its output is not the begin of what it wrote: {output[-80:]!r}"
            return
        if status != ("success" if work.exit_code == 0 else "error"):
            yield f"it should have ended with exit code {work.exit_code}"
        if (begins, ends) != (1, 1):
            yield f"its command began {begins} times, and came to its end {ends} times"
        if output != work.output:
            yield f"its output has {len(output)} bytes of {len(work.output)}, or others"
