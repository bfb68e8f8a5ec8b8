"""All pages of the manual, from all sources; the folders in which they stand."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from cli.manual.exitcodes import exit_codes_page
from cli.manual.markdown import file_name, markdown, toctree
from cli.manual.overview import overview_page
from cli.manual.page import Page
from cli.manual.programs import children_of, program_pages
from cli.manual.roff import roff, roff_alias
from cli.manual.settings import settings_page

_CHAPTERS: Final[Mapping[int, str]] = {
    1: "Programs",
    5: "Files",
    7: "Languages and tables",
    8: "Daemons",
}


@cache
def all_pages() -> tuple[Page, ...]:
    """Every page, the overview first."""
    pages = (*program_pages(), settings_page(), exit_codes_page())
    return (overview_page(pages), *pages)


def write_man(folder: Path, release: str, date: str) -> None:
    """Write all man pages into `man1` and the others in the folder. Args: date: as 2026-11-23."""
    for page in all_pages():
        place = folder / f"man{page.volume}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{page.name}.{page.volume}").write_text(roff(page, release, date))
        for alias in page.aliases:
            (place / f"{alias}.{page.volume}").write_text(roff_alias(page))


def write_reference(folder: Path) -> None:
    """Write all pages as Markdown into the folder, and `index.md` with a list of them."""
    folder.mkdir(parents=True, exist_ok=True)
    for page in all_pages():
        (folder / file_name(page.link)).write_text(markdown(page, children_of(page)))
    (folder / "index.md").write_text("\n".join(_index(all_pages())))


def _index(pages: Sequence[Page]) -> Iterator[str]:
    yield "# Reference"
    yield ""
    yield "These pages are made from the programs, the settings and the tables of this release."
    yield ""
    below = {link for page in pages for link in children_of(page)}
    for volume, title in _CHAPTERS.items():
        found = [page.link for page in pages if page.volume == volume and page.link not in below]
        if found:
            yield from toctree([file_name(link).removesuffix(".md") for link in found], caption=title)
