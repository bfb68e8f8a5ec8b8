"""The page of errors: codes, with cause and remedy; names on the wire; what the state of an installation may lack."""

from collections.abc import Iterator, Mapping
from typing import Final

import common.query.predicate
import common.queue.filters.rules
from cli.manual.commands.surroundings import described
from cli.manual.page import Block, Definition, Definitions, Literal, Page, PageLink, Paragraph, Section, Text, paragraph
from common.errors import GantryError, RemoteError
from common.reference.errorcodes import ERROR_CODES, HTTP_CODES, PREREQUISITES, ErrorCode

# modules with error classes that have names of their own on the wire
_MORE: Final = (common.query.predicate, common.queue.filters.rules)
_ABOUT: Final = (
    "A program says what went wrong in one line on standard error: what, which value, and what to do. Its exit code "
    "is one of gantry-exit-codes(7). Each error of a daemon has a code besides, for programs: over HTTP as `code` "
    "of the problem, in the calls of luxid and wconfd beside the message."
)


def errors_page() -> Page:
    return Page(
        "gantry-errors",
        7,
        "codes of errors, with cause and remedy",
        (
            Section("Description", (paragraph(_ABOUT),)),
            Section("Codes", (_codes(ERROR_CODES),)),
            Section("Codes of the HTTP interface", (_codes(HTTP_CODES),)),
            Section(
                "Names on the wire",
                (
                    paragraph(
                        "In the dialect of Ganeti an error is a name and its arguments; Ganeti's clients raise an "
                        "exception of that name. Several errors may have one name."
                    ),
                    Definitions(tuple(_names())),
                ),
            ),
            Section(
                "Unmet prerequisites",
                (
                    paragraph("The second argument of `OpPrereqError` says what is in the way:"),
                    Definitions(described(PREREQUISITES)),
                ),
            ),
            Section("Messages that say internal error", (paragraph(_INTERNAL),)),
            Section("See also", (_see_also(),)),
        ),
    )


_INTERNAL: Final = (
    "A program that ends with `internal error` and a number has met a fault of its own. The number is in the log of "
    "the programs, with the place: 'gantry logs' shows it; with `GANTRY_DEBUG` set the program tells it itself."
)


def _codes(codes: Mapping[str, ErrorCode]) -> Definitions:
    return Definitions(
        tuple(
            Definition(
                (Literal(code), f": {each.title[:1].lower()}{each.title[1:]}"),
                (paragraph(each.meaning), paragraph(each.remedy)),
            )
            for code, each in codes.items()
        )
    )


def _names() -> Iterator[Definition]:
    """The names on the wire, each with all that it may mean."""
    texts: dict[str, dict[str, None]] = {}
    for kind in error_classes():
        texts.setdefault(kind.wire_name, {}).setdefault(f"{_first_line(kind)} ({kind.code})")
    for name in sorted(texts):
        yield Definition((Literal(name),), tuple(_sentences(list(texts[name]))))


def _sentences(texts: list[str]) -> Iterator[Block]:
    for text in texts:
        yield paragraph(f"{text[:1].upper()}{text[1:]}.")


def error_classes() -> Iterator[type[GantryError]]:
    """The classes of errors that daemons send; those that clients make of them are left out."""
    kinds = {kind for module in _MORE for kind in vars(module).values() if isinstance(kind, type)}
    for kind in _with_children(GantryError):
        is_sent = kind.__module__ == GantryError.__module__ or kind in kinds
        if is_sent and not issubclass(kind, RemoteError) and kind is not GantryError:
            yield kind


def _with_children(kind: type[GantryError]) -> Iterator[type[GantryError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _with_children(child)


def _first_line(kind: type[GantryError]) -> str:
    return (kind.__doc__ or "").strip().splitlines()[0].rstrip(".")


def _see_also() -> Paragraph:
    links = (
        ("gantry-exit-codes", 7),
        ("gantry-reasons", 7),
        ("gantry-status", 1),
        ("gantry-logs", 1),
        ("gnt-job-why", 1),
    )
    spans: Text = tuple(span for name, volume in links for span in (PageLink(name, volume), ", "))
    return Paragraph(spans[:-1])
