"""A page of the manual, as values: what it says, without how it is written.

A page has sections, a section has blocks, and a block has texts of spans. The writers (`cli.manual.roff`,
`cli.manual.markdown`) know all kinds of blocks and spans, and no source knows a writer.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, assert_never

import attrs

from common.settingsfile import ROOT_VARIABLE, SYSTEM_FILE, SYSTEM_PATHS


@attrs.frozen
class Literal:
    """Words that are typed or shown as they stand."""

    text: str


@attrs.frozen
class Placeholder:
    """A word that stands for what the user writes."""

    text: str


@attrs.frozen
class PageLink:
    """A reference to another page, `gnt-job(1)`."""

    name: str
    volume: int

    def __str__(self) -> str:
        return f"{self.name}({self.volume})"


Span = str | Literal | Placeholder | PageLink
Text = tuple[Span, ...]


@attrs.frozen
class Paragraph:
    text: Text


@attrs.frozen
class Code:
    """Lines as they stand, such as a command or a file."""

    text: str


@attrs.frozen
class Definition:
    term: Text
    blocks: "tuple[Block, ...]"


@attrs.frozen
class Definitions:
    """Terms, each with what it means."""

    items: tuple[Definition, ...]


Block = Paragraph | Code | Definitions


@attrs.frozen
class Section:
    title: str
    blocks: tuple[Block, ...] = ()
    parts: "tuple[Section, ...]" = ()


@attrs.frozen
class ManualPage:
    """A page of a volume of the manual: 1 programs, 5 files, 7 languages and tables, 8 daemons.

    Sections that every page has, NAME first, are made by the writers.
    """

    name: str
    volume: int
    # what it is, in a line without a full stop
    summary: str
    sections: tuple[Section, ...]
    # names under which the page is found as well
    aliases: tuple[str, ...] = ()

    @property
    def link(self) -> PageLink:
        return PageLink(self.name, self.volume)


_MARKS: Final = (
    r"`(?P<code>[^`]+)`"
    r"|'(?P<command>(?:gantry|gnt-[a-z]+) [^']*)'"
    r"|(?<![\w./-])(?P<link>(?:gantry|gnt)[a-z.-]*\([1-8]\))"
    r"|(?<![\w-])(?P<option>--[a-z][a-z-]*[a-z])(?![\w-])"
)


def marked(text: str, variables: Collection[str] = ()) -> Text:
    """The spans of a text: code in back quotes, quoted commands of ours, options, pages, and these variables."""
    names = "|".join(re.escape(name) for name in sorted(variables, key=len, reverse=True))
    pattern = rf"{_MARKS}|(?<![\w-])(?P<variable>{names})(?![\w-])" if names else _MARKS
    return tuple(_spans(" ".join(text.split()), re.compile(pattern)))


def _spans(text: str, pattern: re.Pattern[str]) -> Iterator[Span]:
    done = 0
    for found in pattern.finditer(text):
        if found.start() > done:
            yield text[done : found.start()]
        done = found.end()
        yield _span(str(found.lastgroup), found[str(found.lastgroup)])
    if done < len(text):
        yield text[done:]


def _span(kind: str, text: str) -> Span:
    match kind:
        case "link":
            name, _, rest = text.partition("(")
            return PageLink(name, int(rest[0]))
        case "variable":
            return Placeholder(text)
        case _:
            return Literal(text)


def plain(text: Text) -> str:
    """The text without marks."""
    return "".join(
        span if isinstance(span, str) else str(span) if isinstance(span, PageLink) else span.text for span in text
    )


def paragraph(text: str, variables: Collection[str] = ()) -> Paragraph:
    return Paragraph(marked(text, variables))


def linked(links: Iterable[PageLink]) -> Paragraph:
    """These references, with commas between them."""
    return Paragraph(tuple(span for link in links for span in (link, ", "))[:-1])


def see_also(pages: str) -> Section:
    """The last section of a page. Args: pages: `gnt-job-run(1), gantry(7)`."""
    return Section("See also", (paragraph(pages),))


def capital(text: str) -> str:
    """The text, with a capital at its beginning."""
    return f"{text[:1].upper()}{text[1:]}"


def sentence(text: str) -> str:
    """The text with a capital at its beginning and a full stop at its end; nothing stays nothing."""
    return f"{capital(text).rstrip('.')}." if text else ""


def links_of(page: ManualPage) -> Iterator[PageLink]:
    """All references of a page to others."""
    for section in page.sections:
        yield from _links(section)


def _links(section: Section) -> Iterator[PageLink]:
    for text in _texts(section.blocks):
        yield from (span for span in text if isinstance(span, PageLink))
    for part in section.parts:
        yield from _links(part)


def _texts(blocks: tuple[Block, ...]) -> Iterator[Text]:
    for block in blocks:
        match block:
            case Paragraph(text):
                yield text
            case Definitions(items):
                for item in items:
                    yield item.term
                    yield from _texts(item.blocks)
            case Code():
                pass
            case _:
                assert_never(block)


# What all programs share: their environment, their files, and the pages that explain the words of their options.


def described(rows: Mapping[str, str]) -> tuple[Definition, ...]:
    """Args: rows: what is typed -> what it means."""
    return tuple(Definition((Literal(name),), (paragraph(text),)) for name, text in rows.items())


ENVIRONMENT: Final = described(
    {
        ROOT_VARIABLE: "Folder of the installation, as --root.",
        "GANTRY_SESSION": "Name of a session of its own for PREV, the last submission; else there is one a terminal.",
        "GANTRY_DEBUG": "If it is set, an error is shown with the place in the program where it came up.",
        "GANTRY_PAGER": "Command that shows long tables on a terminal, in place of PAGER, less or more; empty: none.",
        "NO_COLOR": "If it is set, there are no colours.",
        "XDG_STATE_HOME": "Folder in which the last submissions are noted; `~/.local/state` if it is not set.",
    }
)
REMOTE_ENVIRONMENT: Final = described(
    {
        "GANTRY_REMOTE": "URL of the cluster of another machine, as --remote. Programs without it are refused.",
        "GANTRY_TOKEN": "Token for it. See --token-file, which other users' lists of processes do not show.",
        "GANTRY_CA": "File of certificates that are trusted, as --ca.",
        "GANTRY_FINGERPRINT": "The one certificate that is trusted, as --fingerprint.",
    }
)
FILES: Final = Definitions(
    described(
        {
            str(SYSTEM_FILE): "Settings of the system's installation: gantry.toml(5).",
            "DIR/gantry.toml": "Settings of the installation in the folder of --root.",
            str(SYSTEM_PATHS.data): "Queue, locks, configuration and outputs; of a private installation DIR/lib.",
            str(SYSTEM_PATHS.run): "Sockets and livelocks; of a private installation DIR/run.",
            str(SYSTEM_PATHS.log): "Logs, which 'gantry logs' puts together; of a private installation DIR/log.",
        }
    )
)

_FILTERS: Final = PageLink("gantry-filters", 7)
_FIELDS: Final = PageLink("gantry-fields", 7)
_OPCODES: Final = PageLink("gantry-opcodes", 7)
_PLAN: Final = PageLink("gantry-plan", 5)
# what stands for the value of an option -> the page that explains it
_VALUES: Final[Mapping[str, PageLink]] = {"FILTER": _FILTERS, "FIELDS": _FIELDS}
_PAGES: Final[Mapping[str, tuple[PageLink, ...]]] = {
    "gantry": (PageLink("gantry", 7), PageLink("gantry.toml", 5)),
    "gantry-up": (PageLink("gantry.toml", 5), PageLink("gantry-supervisor", 8), PageLink("gantry-down", 1)),
    "gantry-down": (PageLink("gantry-up", 1),),
    "gantry-status": (PageLink("gantry-logs", 1), PageLink("gantry.toml", 5)),
    "gantry-prune": (PageLink("gantry.toml", 5),),
    "gantry-help": (PageLink("gantry", 7),),
    "gantry-schedule-add": (_PLAN, PageLink("gnt-job-run", 1)),
    "gnt-job-run": (PageLink("gnt-job-submit", 1), PageLink("gnt-job-why", 1), _OPCODES),
    "gnt-job-submit": (_PLAN, _OPCODES, PageLink("gnt-job-run", 1)),
    "gnt-job-list": (_FILTERS, _FIELDS),
    "gnt-job-history": (_FILTERS, _FIELDS),
    "gnt-job-why": (PageLink("gnt-debug-locks", 1), PageLink("gantry-errors", 7)),
    "gnt-filter-add": (PageLink("gantry-query", 7),),
    "gnt-filter-replace": (PageLink("gantry-query", 7),),
    "gnt-debug-simulate": (PageLink("gantry-simulate", 1),),
}


def related(name: str, metavars: Collection[str]) -> Iterator[PageLink]:
    """The pages that a reader of this program's page may want next.

    Args: metavars: what stands for the values of its options.
    """
    yield from _PAGES.get(name, ())
    yield from (link for metavar, link in _VALUES.items() if metavar in metavars)
    if "list-fields" in name:
        yield _FIELDS
    yield PageLink("gantry", 7)
