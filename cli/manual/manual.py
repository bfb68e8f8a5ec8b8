"""All pages of the manual, from all sources; the folders in which they stand."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from cli.manual.commands.daemons import daemon_pages
from cli.manual.commands.exitcodes import exit_codes_page
from cli.manual.commands.programs import children_of, program_pages
from cli.manual.files.places import files_page
from cli.manual.files.plan import plan_page
from cli.manual.files.settings import settings_page
from cli.manual.interfaces.http import http_page
from cli.manual.interfaces.metrics import metrics_page
from cli.manual.interfaces.ports import ports_page
from cli.manual.interfaces.requests import call_pages
from cli.manual.languages.errors import errors_page
from cli.manual.languages.fields import fields_page
from cli.manual.languages.filters import filters_page
from cli.manual.languages.opcodes import opcodes_page
from cli.manual.languages.overview import overview_page
from cli.manual.languages.query import query_page
from cli.manual.languages.reasons import reasons_page
from cli.manual.markdown import file_name, markdown, toctree
from cli.manual.page import Page
from cli.manual.roff import roff, roff_alias
from common.reference.daemonfacts import read_daemon_facts

_CHAPTERS: Final[Mapping[int, str]] = {
    1: "Programs",
    5: "Files",
    7: "Languages and tables",
    8: "Daemons",
}


@cache
def all_pages() -> tuple[Page, ...]:
    """Every page, the overview first. Cost: some seconds; the daemons are asked, as a process."""
    facts = read_daemon_facts()
    pages = (
        *program_pages(),
        settings_page(),
        plan_page(),
        files_page(),
        *language_pages(),
        fields_page(facts),
        *call_pages(facts),
        http_page(facts.http),
        metrics_page(facts.metrics),
        ports_page(),
        *daemon_pages(facts),
    )
    return (overview_page(pages), *pages)


def language_pages() -> tuple[Page, ...]:
    """The pages for which no daemon is asked."""
    return (filters_page(), query_page(), opcodes_page(), reasons_page(), errors_page(), exit_codes_page())


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
