"""What a failed test's daemons have logged last: a run elsewhere leaves its reader nothing else."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.support.cluster import Cluster

_LINES: Final = 25
_MOST_LOGS: Final = 12


def last_words() -> list[tuple[str, str]]:
    """Title and last lines of the newest logs of the clusters that are in use; a test may have stopped its own."""
    paths = sorted(_logs(), key=lambda path: path.stat().st_mtime, reverse=True)[:_MOST_LOGS]
    return [(f"the end of {path}", _end_of(path)) for path in sorted(paths)]


def _logs() -> Iterator[Path]:
    for cluster in Cluster.made:
        for path in (*cluster.paths.log.glob("*.log"), *cluster.root.glob("stderr-*")):
            if path.stat().st_size:
                yield path


def _end_of(path: Path) -> str:
    return "\n".join(path.read_text(errors="replace").splitlines()[-_LINES:])
