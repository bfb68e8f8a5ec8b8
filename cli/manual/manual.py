"""All pages of the manual, from all sources; the folders in which they stand."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from cli.manual.errors import errors_page, reasons_page
from cli.manual.files import files_page, plan_page, settings_page
from cli.manual.interfaces import call_pages, fields_page, http_page, metrics_page, ports_page
from cli.manual.markdown import file_name, markdown, toctree
from cli.manual.opcodes import opcodes_page
from cli.manual.page import (
    FILES,
    Block,
    Definition,
    Definitions,
    Literal,
    ManualPage,
    PageLink,
    Section,
    described,
    linked,
    paragraph,
)
from cli.manual.programs import children_of, daemon_pages, exit_codes_page, program_pages
from cli.manual.queries import filters_page, query_page
from cli.manual.roff import roff, roff_alias
from common.reference import read_daemon_facts

# The page gantry(7): what Gantry is, its words, and where to read on.


_WORDS: Final[Mapping[str, str]] = {
    "job": "An ordered list of opcodes, with an id, a file and a process of its own.",
    "opcode": "One operation, such as to run a command: gantry-opcodes(7).",
    "queued, waiting, running": "The states of a job that has not ended: it has no process yet; its process waits for "
    "locks; it works.",
    "success, error, canceled": "The states of a job that has ended.",
    "lock": "A name such as `node/web1` that a job holds exclusively, or shares with others. A job gets the locks of "
    "an opcode together, and frees them at its end.",
    "filter rule": "Who may run: a rule accepts, delays, refuses or limits the jobs that its filter hits: "
    "gantry-filters(7).",
    "resource": "Units, such as licences or memory, of which each job takes some while it runs: gantry-resource(1).",
    "schedule": "A job that is submitted again and again: gantry-schedule(1).",
    "batch": "Jobs that were submitted together, for several nodes or values: gnt-job-batch(1).",
    "master, candidates": "The node whose daemons hold the queue, and the nodes that have copies of it.",
}
_DAEMONS: Final[Mapping[str, str]] = {
    "gantry-luxid": "keeps the queue, decides which jobs begin, and answers the programs.",
    "gantry-wconfd": "keeps locks and configuration.",
    "gantry-forkserver": "makes the process of each job.",
    "gantry-noded": "serves the master on every node, if there are several.",
    "gantry-keeperd": "holds the mastership under a lease in etcd.",
    "gantry-rapid": "serves HTTP: programs on other machines, and the web page.",
    "gantry-confd": "answers signed questions about the configuration.",
    "gantry-mond": "tells what a node measures of itself.",
    "gantry-launcher": "starts commands as other users, where root wants that.",
    "gantry-supervisor": "keeps the daemons running where systemd does not.",
}


def overview_page(pages: Sequence[ManualPage]) -> ManualPage:
    """Args: pages: all others."""
    return ManualPage(
        "gantry",
        7,
        "the job engine of a cluster",
        (
            Section("Description", tuple(map(paragraph, _ABOUT))),
            Section("Words", (Definitions(described(_WORDS)),)),
            Section("Daemons", (Definitions(_daemons({page.link for page in pages})),)),
            Section("Files", (FILES,)),
            Section("See also", tuple(_see_also(pages))),
        ),
    )


_ABOUT: Final = (
    "Gantry takes jobs, keeps each as a file, decides which may run, and starts a process for each. A job runs under "
    "locks, after the jobs that it depends on, and is never lost: whatever is killed, an acknowledged job is queued, "
    "running or ended, and nothing runs twice.",
    "The programs talk to the daemons over Unix sockets, and none of them changes a file of the queue by itself. "
    "'gantry up' starts all daemons of an empty folder; a package starts them by systemd. gantry(1) has all programs "
    "as groups of verbs; those whose names begin with gnt- are the same groups under the names of Ganeti's tools.",
    "Every program has `--help`, and `--output json` for programs that read its output.",
)


def _daemons(known: set[PageLink]) -> tuple[Definition, ...]:
    links = {name: PageLink(name, 8) for name in _DAEMONS}
    return tuple(
        Definition((links[name] if links[name] in known else Literal(name),), (paragraph(text),))
        for name, text in _DAEMONS.items()
    )


def _see_also(pages: Sequence[ManualPage]) -> list[Block]:
    """The pages but those of verbs."""
    chosen = [
        page.link for page in pages if page.volume != 1 or page.name.count("-") < (2 if page.name[1] == "n" else 1)
    ]
    return [linked(chosen)]


_CHAPTERS: Final[Mapping[int, str]] = {
    1: "Programs",
    5: "Files",
    7: "Languages and tables",
    8: "Daemons",
}


@cache
def all_pages() -> tuple[ManualPage, ...]:
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


def language_pages() -> tuple[ManualPage, ...]:
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


def _index(pages: Sequence[ManualPage]) -> Iterator[str]:
    yield "# Reference"
    yield ""
    yield "These pages are made from the programs, the settings and the tables of this release."
    yield ""
    below = {link for page in pages for link in children_of(page)}
    for volume, title in _CHAPTERS.items():
        found = [page.link for page in pages if page.volume == volume and page.link not in below]
        if found:
            yield from toctree([file_name(link).removesuffix(".md") for link in found], caption=title)
