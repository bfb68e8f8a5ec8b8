"""Write a page for a terminal, as `gantry help` shows it."""

import textwrap
from collections.abc import Iterator, Sequence
from typing import assert_never

from cli.manual.page import Block, Code, Definitions, ManualPage, Paragraph, Section, plain

_INDENT = "  "


def plain_lines(page: ManualPage, width: int) -> Iterator[str]:
    """The lines of a page, as wide as `width` at most where the words allow it; code stays as it is."""
    yield f"{page.link}: {page.summary}"
    for section in page.sections:
        yield ""
        yield from _section(section, "", width)


def section_text(section: Section, width: int) -> str:
    """The text of a section, without its title."""
    return "\n".join(list(_section(section, "", width))[1:])


def _section(section: Section, indent: str, width: int) -> Iterator[str]:
    yield f"{indent}{section.title}:"
    yield from _blocks(section.blocks, indent + _INDENT, width)
    for place, part in enumerate(section.parts):
        if place or section.blocks:
            yield ""
        yield from _section(part, indent + _INDENT, width)


def _blocks(blocks: Sequence[Block], indent: str, width: int) -> Iterator[str]:
    for place, block in enumerate(blocks):
        if place:
            yield ""
        yield from _block(block, indent, width)


def _block(block: Block, indent: str, width: int) -> Iterator[str]:
    match block:
        case Paragraph(text):
            yield from _wrapped(plain(text), indent, width)
        case Code(text):
            yield from (f"{indent}{line}" if line else "" for line in text.splitlines())
        case Definitions(items):
            for item in items:
                yield from _wrapped(plain(item.term), indent, width)
                yield from _blocks(item.blocks, indent + _INDENT * 2, width)
        case _:
            assert_never(block)


def _wrapped(text: str, indent: str, width: int) -> list[str]:
    # words such as --dry-run stay whole
    return textwrap.wrap(
        text, width, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
