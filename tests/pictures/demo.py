"""The terminal of `make demo` as two pictures: while its jobs run, and its proof."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.pictures.drawing import draw
from tests.pictures.terminal import Screen, Shown, play

_CHECKOUT: Final = Path(__file__).resolve().parents[2]
_COUNTS: Final = re.compile(r"^(\d+) success, .*$", re.MULTILINE)
_LIVE, _PROOF, _END = "== Live", "== Proof", "== The cluster is stopped"


class _Middle:
    """The moment at which most is seen: jobs that have ended, that run, and that wait, with what they wait for."""

    def __init__(self) -> None:
        self.screen: Screen | None = None
        self._best = 0

    def look(self, shown: Shown) -> None:
        text = shown.text()
        if _LIVE not in text or _PROOF in text or not _COUNTS.search(text):
            return
        rows = text[text.rindex("NOW") :]
        found = 3 * rows.count(" running ") + min(rows.count(" success "), 7) + min(rows.count(" waits for "), 7)
        if found > self._best:
            self._best, self.screen = found, shown.screen()


def make(folder: Path) -> Iterator[Path]:
    """Draw both; return their paths."""
    middle = _Middle()
    end, code = play([sys.executable, "-P", "deploy/demo/run.py"], _CHECKOUT, middle.look)
    if code or middle.screen is None:
        raise SystemExit("the demo failed; see `make demo`")
    for name, title, screen in (
        ("demo", "make demo: eighteen chained jobs, while they run", middle.screen.between(_LIVE)),
        ("demo-proof", "make demo: its proof", end.between(_PROOF, _END)),
    ):
        yield draw(screen, title, folder / f"{name}.svg")
