"""A page of the manual, as values: what it says, without how it is written.

A page has sections, a section has blocks, and a block has texts of spans. The writers (`cli.manual.roff`,
`cli.manual.markdown`) know all kinds of blocks and spans, and no source knows a writer.
"""

import re
from collections.abc import Collection, Iterator
from typing import Final, assert_never

import attrs


@attrs.frozen
class Literal:
    """Words that are typed or shown as they stand."""

    text: str


@attrs.frozen
class Variable:
    """A word that stands for what the user writes."""

    text: str


@attrs.frozen
class PageLink:
    """A reference to another page, `gnt-job(1)`."""

    name: str
    volume: int

    def __str__(self) -> str:
        return f"{self.name}({self.volume})"


Span = str | Literal | Variable | PageLink
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


@attrs.frozen
class Table:
    """Rows of short cells; the last column may have sentences."""

    # as many as each row has cells
    columns: tuple[str, ...]
    rows: tuple[tuple[Text, ...], ...]


Block = Paragraph | Code | Definitions | Table


@attrs.frozen
class Section:
    title: str
    blocks: tuple[Block, ...] = ()
    parts: "tuple[Section, ...]" = ()


@attrs.frozen
class Page:
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
            return Variable(text)
        case _:
            return Literal(text)


def plain(text: Text) -> str:
    """The text without marks."""
    return "".join(
        span if isinstance(span, str) else str(span) if isinstance(span, PageLink) else span.text for span in text
    )


def paragraph(text: str, variables: Collection[str] = ()) -> Paragraph:
    return Paragraph(marked(text, variables))


def links_of(page: Page) -> Iterator[PageLink]:
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
            case Table(_, rows):
                for row in rows:
                    yield from row
            case Code():
                pass
            case _:
                assert_never(block)
