"""The form of `tests/transcripts/*.txt`: a command before `----`, under it what it shows; an empty line ends it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

TRANSCRIPTS: Final = Path(__file__).parents[2] / "transcripts"


def steps(text: str) -> Iterator[tuple[str, str]]:
    """Each command with what is written under it; lines that begin with # are for readers."""
    for block in text.split("\n\n"):
        lines = [line for line in block.splitlines() if not line.startswith("#")]
        command, separator, shown = "\n".join(lines).strip().partition("\n----\n")
        if command:
            assert separator, f"no ---- after {command!r}"
            yield command, shown
