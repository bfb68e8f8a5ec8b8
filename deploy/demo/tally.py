"""The tally of the demo: what ran on each machine, and when, as the commands themselves wrote it down.

Each command says when it begins, numbers its lines of output, and says when it has ended. A job that wants the lock of
a machine for itself writes down when it got it. So the tally tells what the daemons cannot: that nothing ran twice, and
that no lock was free while what it guards still ran.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs

_WORK = """\
#!/bin/sh
# work STEPS: a command that takes a fifth of a second for each step
tally=$(dirname "$0")/tally/$GANTRY_NODE
echo "begin $GANTRY_JOB_ID $(date +%s.%N)" >> "$tally"
for step in $(seq "$1"); do
    echo "step $step of $1 on $GANTRY_NODE"
    sleep 0.2
done
echo "end $GANTRY_JOB_ID $(date +%s.%N)" >> "$tally"
"""
_CLAIM = """\
#!/bin/sh
# claim NODE: runs under the lock of this node, which it has for itself
echo "alone $GANTRY_JOB_ID $(date +%s.%N)" >> "$(dirname "$0")/tally/$1"
"""


@attrs.frozen
class Entry:
    """A line of the tally of one machine."""

    # begin, end, alone, or lost: the machine lost its power
    what: str
    job_id: int
    at: float


@attrs.frozen
class Tally:
    folder: Path

    @property
    def work(self) -> str:
        return str(self.folder / "work")

    @property
    def claim(self) -> str:
        return str(self.folder / "claim")

    def set_up(self) -> None:
        """Make the folder of tallies, and the two scripts."""
        (self.folder / "tally").mkdir()
        for path, text in ((self.work, _WORK), (self.claim, _CLAIM)):
            Path(path).write_text(text)
            Path(path).chmod(0o755)

    def note_loss(self, node: str, at: float) -> None:
        """Note that the machine loses its power: what ran there runs no longer."""
        with self._path(node).open("a") as file:
            file.write(f"lost 0 {at:.9f}\n")

    def read(self, node: str) -> list[Entry]:
        """What is written of a machine, by time."""
        path = self._path(node)
        lines = path.read_text().splitlines() if path.exists() else []
        entries = [Entry(what, int(job), float(at)) for what, job, at in map(str.split, lines)]
        return sorted(entries, key=lambda entry: entry.at)

    def has_begun(self, node: str, job_id: int) -> bool:
        return any(entry.what == "begin" and entry.job_id == job_id for entry in self.read(node))

    def _path(self, node: str) -> Path:
        return self.folder / "tally" / node


def claims(tally: Tally, nodes: Sequence[str]) -> Iterator[tuple[bool, str]]:
    """What the tallies prove, each with whether it holds."""
    entries = {node: tally.read(node) for node in nodes}
    begun = Counter((node, entry.job_id) for node in nodes for entry in entries[node] if entry.what == "begin")
    twice = [f"job {job_id} on {node}" for (node, job_id), count in begun.items() if count > 1]
    yield not twice, f"nothing ran twice: {begun.total()} commands began, each once{''.join(map(', '.__add__, twice))}"
    alone = sum(entry.what == "alone" for node in nodes for entry in entries[node])
    wrong = [node for node in nodes if not _is_guarded(entries[node])]
    text = f"no lock was free while its command ran: {alone} jobs that wanted one came later"
    yield not wrong, f"{text}{''.join(map(', not so on '.__add__, wrong))}"


def at_once(tally: Tally, nodes: Sequence[str], job_ids: Sequence[int]) -> int:
    """The largest number of these jobs whose commands ran at the same time."""
    steps = {"begin": 1, "end": -1}
    found = [entry for node in nodes for entry in tally.read(node) if entry.job_id in job_ids]
    running = most = 0
    for entry in sorted(found, key=lambda entry: (entry.at, steps[entry.what])):
        running += steps[entry.what]
        most = max(most, running)
    return most


def _is_guarded(entries: Sequence[Entry]) -> bool:
    """Whether no job had the lock for itself between the begin and the end of a command."""
    running: set[int] = set()
    for entry in entries:
        match entry.what:
            case "begin":
                running.add(entry.job_id)
            case "end":
                running.discard(entry.job_id)
            case "lost":
                running.clear()
            case _ if running:
                return False
    return True


def is_whole(output: str, node: str, steps: int) -> bool:
    """Whether the output of a command has each of its lines once, in order."""
    return output.splitlines() == [f"step {step} of {steps} on {node}" for step in range(1, steps + 1)]
