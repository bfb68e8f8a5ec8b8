"""Figures of runs in a file, a JSON object a line, and as a table in PERFORMANCE.md.

python -m tests.bench --results FILE [PART ...]      measures, and adds the figures to the file
python -m tests.bench.results FILE                   puts the figures of the file into PERFORMANCE.md
"""

import re
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import attrs
import orjson

PAGE: Final = Path(__file__).resolve().parents[2] / "PERFORMANCE.md"
_MARKED: Final = re.compile(r"(<!-- figures -->\n).*?(<!-- end -->)", re.DOTALL)


@attrs.frozen
class Figure:
    """One line that a benchmark shows."""

    # name of the part of `python -m tests.bench`
    part: str
    what: str
    value: float
    unit: str
    # what stands beside it: a bare loop, another way
    remark: str
    # UTC
    day: str


class _Kept:
    """Where figures are kept; nowhere, unless a run says so."""

    def __init__(self) -> None:
        self.path: Path | None = None
        self.part = ""


_kept: Final = _Kept()


def keep(path: Path, part: str) -> None:
    """Add the figures of this process to the file, as those of this part."""
    _kept.path, _kept.part = path, part


def note(what: str, value: float, unit: str, remark: str = "") -> None:
    """Keep a figure, if figures are kept."""
    if _kept.path is None:
        return
    day = datetime.now(UTC).date().isoformat()
    line = orjson.dumps(attrs.asdict(Figure(_kept.part, what, value, unit, remark.strip(), day)))
    with _kept.path.open("ab") as file:
        file.write(line + b"\n")


def read_figures(lines: Iterable[bytes]) -> list[Figure]:
    """The figures; of one that was measured again only the last, in the place of the first."""
    latest: dict[tuple[str, str], Figure] = {}
    for line in lines:
        found = Figure(**orjson.loads(line))
        latest[found.part, found.what] = found
    return list(latest.values())


def tables(figures: Iterable[Figure]) -> Iterator[str]:
    """The lines of a table a part."""
    part = None
    for figure in figures:
        if figure.part != part:
            part = figure.part
            yield from ("", f"**{part}**, {figure.day}", "", "| what | figure | beside it |", "|---|--:|---|")
        yield f"| {_cell(figure.what)} | {shown(figure.value)} {figure.unit} | {_cell(figure.remark)} |".replace(
            "  ", " "
        )
    yield ""


def shown(value: float) -> str:
    """Three digits that count; large numbers whole, with commas."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def filled(page: str, figures: Iterable[Figure]) -> str:
    """The page with these figures between its marks."""
    drawn = "\n".join(tables(figures)) + "\n"
    return _MARKED.sub(lambda found: f"{found[1]}{drawn}{found[2]}", page)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main(arguments: list[str]) -> None:
    if len(arguments) != 1:
        sys.exit(__doc__)
    figures = read_figures(Path(arguments[0]).read_bytes().splitlines())
    PAGE.write_text(filled(PAGE.read_text(), figures))
    print(f"{len(figures)} figures are in {PAGE.name}")


if __name__ == "__main__":
    main(sys.argv[1:])
