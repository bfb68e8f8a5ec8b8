"""Write a page for man: macros of man(7) that mandoc and groff show alike, without warnings.

A paragraph is one line of the source, because both programs treat a full stop at the end of a line as the end of a
sentence. Characters that roff would take for its own, or change into similar ones, are written by their names.
"""

from collections.abc import Iterator
from typing import Final, assert_never

from cli.manual.page import (
    Block,
    Code,
    Definition,
    Definitions,
    Literal,
    ManualPage,
    PageLink,
    Paragraph,
    Placeholder,
    Section,
    Span,
    Text,
)

# width of a line of code: man indents by 7 columns of 80
CODE_WIDTH: Final = 72
_NAMED: Final = str.maketrans(
    {"\\": r"\(rs", "-": r"\-", "'": r"\(aq", '"': r"\(dq", "`": r"\(ga", "^": r"\(ha", "~": r"\(ti", "\t": "        "}
)
_VOLUMES: Final = {1: "Commands of Gantry", 5: "Files of Gantry", 7: "Gantry", 8: "Daemons of Gantry"}


def roff(page: ManualPage, release: str, date: str) -> str:
    """The source of a man page.

    Args: date: of the release, as 2026-11-23.
    """
    return "\n".join(_lines(page, release, date)) + "\n"


def roff_alias(page: ManualPage) -> str:
    """The source of a page that is this one under another name."""
    return f".so man{page.volume}/{page.name}.{page.volume}\n"


def escaped(text: str) -> str:
    """The text so that roff shows it as it is; not for the beginning of a line."""
    return "".join(char if char.isascii() else f"\\[u{ord(char):04X}]" for char in text.translate(_NAMED))


def _lines(page: ManualPage, release: str, date: str) -> Iterator[str]:
    heading = (page.name.upper(), str(page.volume), f"gantry {release}", _VOLUMES[page.volume])
    name, volume, source, title = (f'"{escaped(word)}"' for word in heading)
    # mandoc reads the date as it stands
    yield f".TH {name} {volume} {date} {source} {title}"
    # no word is divided: it may be one to type
    yield ".nr HY 0"
    yield ".nh"
    yield ".ad l"
    yield ".SH NAME"
    yield f"{escaped(page.name)} \\- {escaped(page.summary[:1].lower() + page.summary[1:])}"
    for section in page.sections:
        yield f'.SH "{escaped(section.title.upper())}"'
        yield from _body(section)


def _body(section: Section) -> Iterator[str]:
    for place, block in enumerate(section.blocks):
        yield from _block(block, is_first=place == 0)
    for part in section.parts:
        yield f'.SS "{escaped(part.title)}"'
        yield from _body(part)


def _block(block: Block, *, is_first: bool) -> Iterator[str]:
    match block:
        case Paragraph(text):
            if not is_first:
                yield ".PP"
            yield _started(_inline(text))
        case Code(text):
            yield from _code(text, is_first=is_first)
        case Definitions(items):
            for item in items:
                yield from _definition(item)
        case _:
            assert_never(block)


def _code(text: str, *, is_first: bool) -> Iterator[str]:
    if not is_first:
        yield ".PP"
    yield ".EX"
    for line in text.splitlines():
        # an empty line would end the mode of some readers
        yield _started(escaped(line)) or r"\&"
    yield ".EE"


def _definition(item: Definition) -> Iterator[str]:
    yield ".TP"
    yield _started(_inline(item.term))
    head, *rest = item.blocks or (Paragraph(("",)),)
    if isinstance(head, Paragraph):
        yield _started(_inline(head.text)) or r"\&"
    else:
        rest = [head, *rest]
        yield r"\&"
    if rest:
        yield ".RS"
        for block in rest:
            yield from _block(block, is_first=False)
        yield ".RE"


def _inline(text: Text) -> str:
    return "".join(map(_span, text))


def _span(span: Span) -> str:
    match span:
        case str():
            return escaped(span)
        case Literal(text):
            return rf"\fB{escaped(text)}\fR"
        case Placeholder(text):
            return rf"\fI{escaped(text)}\fR"
        case PageLink(name, volume):
            return rf"\fB{escaped(name)}\fR({volume})"
        case _:
            assert_never(span)


def _started(line: str) -> str:
    """A line that roff does not take for a request."""
    return rf"\&{line}" if line.startswith((".", r"\(aq")) else line
