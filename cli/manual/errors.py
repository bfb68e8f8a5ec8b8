"""The page of errors: codes, with cause and remedy; names on the wire; what the state of an installation may lack."""

from collections.abc import Iterator, Mapping
from typing import Final, cast

import attrs

import common.query.predicate
import common.queue.explanation
import common.queue.filters
from cli.manual.page import (
    Definition,
    Definitions,
    Literal,
    ManualPage,
    Section,
    capital,
    described,
    paragraph,
    see_also,
)
from common.errors import ERROR_CODES, HTTP_CODES, PREREQUISITES, ErrorCode, GantryError, RemoteError
from common.reference import notes_of, summary_of
from common.shapes import TaggedObject

# modules with error classes that have names of their own on the wire
_MORE: Final = (common.query.predicate, common.queue.filters)
_ABOUT_ERRORS: Final = (
    "A program says what went wrong in one line on standard error: what, which value, and what to do. Its exit code "
    "is one of gantry-exit-codes(7). Each error of a daemon has a code besides, for programs: over HTTP as `code` "
    "of the problem, in the calls of luxid and wconfd beside the message."
)


def errors_page() -> ManualPage:
    return ManualPage(
        "gantry-errors",
        7,
        "codes of errors, with cause and remedy",
        (
            Section("Description", (paragraph(_ABOUT_ERRORS),)),
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
            see_also("gantry-exit-codes(7), gantry-reasons(7), gantry-status(1), gantry-logs(1), gnt-job-why(1)"),
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
        yield Definition((Literal(name),), tuple(paragraph(f"{capital(text)}.") for text in texts[name]))


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


# The page of reasons: why a job does not run, from the classes with which the daemons tell it.


_ABOUT_REASONS: Final = (
    "'gnt-job why' tells in words why a job does not run, to the root of the chain: what it waits for, what that "
    "waits for, and so on. With `--output json`, over HTTP and in the call ExplainJobs each reason is an object "
    "with its `kind` and the fields below.",
)


def reasons_page() -> ManualPage:
    return ManualPage(
        "gantry-reasons",
        7,
        "why a job does not run: the kinds of reasons",
        (
            Section("Description", tuple(map(paragraph, _ABOUT_REASONS))),
            Section("Reasons", (Definitions(tuple(_reasons())),)),
            see_also("gnt-job-why(1), gnt-debug-locks(1), gantry(7)"),
        ),
    )


def _reasons() -> Iterator[Definition]:
    for kind in vars(common.queue.explanation).values():
        if isinstance(kind, type) and issubclass(kind, TaggedObject) and "KIND" in vars(kind):
            notes = notes_of(kind)
            fields = [
                (field.name, notes.get(field.name, "")) for field in attrs.fields(cast(type[attrs.AttrsInstance], kind))
            ]
            told = tuple(Definition((Literal(name),), (paragraph(note),)) for name, note in fields)
            yield Definition(
                (Literal(kind.KIND),), (paragraph(summary_of(kind)), *([Definitions(told)] if told else []))
            )
