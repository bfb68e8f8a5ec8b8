"""Write a page as Markdown for Sphinx with MyST; definitions need its extension `deflist`."""

import re
from collections.abc import Iterator, Sequence
from typing import Final, assert_never

from cli.manual.page import (
    Block,
    Code,
    Definitions,
    Literal,
    ManualPage,
    PageLink,
    Paragraph,
    Placeholder,
    Section,
    Span,
    Text,
    capital,
)

_SIGNS: Final = re.compile(r"([\\`*_{}\[\]<>#|$~&!^])")
# beginnings of lists, headings, comments and definitions; and of numbered lists
_START: Final = re.compile(r"^(?=[-+=%:(])")
_NUMBERED: Final = re.compile(r"^(\d+)([.)])")


def markdown(page: ManualPage, children: Sequence[PageLink] = ()) -> str:
    """The page as Markdown.

    Args: children: pages listed below it.
    """
    return "\n".join(_lines(page, children))


def file_name(link: PageLink) -> str:
    return f"{link.name}.{link.volume}.md"


def escaped(text: str) -> str:
    """The text so that Markdown shows it as it is."""
    return _NUMBERED.sub(r"\1\\\2", _START.sub(r"\\", _with_signs(text)))


def toctree(links: Sequence[str], *, caption: str | None = None, is_hidden: bool = False) -> Iterator[str]:
    """The list of pages below one, by the names of their files."""
    yield "```{toctree}"
    yield ":maxdepth: 1"
    if caption:
        yield f":caption: {caption}"
    if is_hidden:
        yield ":hidden:"
    yield ""
    yield from links
    yield "```"
    yield ""


def _lines(page: ManualPage, children: Sequence[PageLink]) -> Iterator[str]:
    yield f"# {escaped(str(page.link))}"
    yield ""
    yield f"{escaped(capital(page.summary))}."
    yield ""
    for section in page.sections:
        yield from _section(section, 2)
    if children:
        yield from toctree([file_name(child).removesuffix(".md") for child in children], is_hidden=True)


def _section(section: Section, level: int) -> Iterator[str]:
    yield f"{'#' * level} {escaped(section.title)}"
    yield ""
    for block in section.blocks:
        yield from _block(block)
        yield ""
    for part in section.parts:
        yield from _section(part, level + 1)


def _block(block: Block) -> Iterator[str]:
    match block:
        case Paragraph(text):
            yield _inline(text)
        case Code(text):
            fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", text) or [""]))
            yield f"{fence}text"
            yield from text.splitlines()
            yield fence
        case Definitions(items):
            for item in items:
                yield _inline(item.term)
                lines = [line for inner in item.blocks for line in (*_block(inner), "")] or ["", ""]
                for place, line in enumerate(lines):
                    yield f": {line}" if place == 0 else f"  {line}" if line else ""
        case _:
            assert_never(block)


def _inline(text: Text) -> str:
    return "".join(_span(span, is_start=place == 0) for place, span in enumerate(text))


def _span(span: Span, *, is_start: bool) -> str:
    match span:
        case str():
            return escaped(span) if is_start else _with_signs(span)
        case Literal(text):
            return _literal(text)
        case Placeholder(text):
            return f"*{_with_signs(text)}*"
        case PageLink():
            return f"[{escaped(str(span))}]({file_name(span)})"
        case _:
            assert_never(span)


def _with_signs(text: str) -> str:
    return _SIGNS.sub(r"\\\1", text)


def _literal(text: str) -> str:
    fence = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"
