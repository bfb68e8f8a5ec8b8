"""The page of reasons: why a job does not run, from the classes with which the daemons tell it."""

from collections.abc import Iterator
from typing import Final, cast

import attrs

import common.queue.explanation
from cli.manual.page import Definition, Definitions, Literal, Page, PageLink, Paragraph, Section, paragraph
from common.reference.fieldnotes import notes_of, summary_of
from common.shapes import Tagged

_ABOUT: Final = (
    "'gnt-job why' tells in words why a job does not run, to the root of the chain: what it waits for, what that "
    "waits for, and so on. With `--output json`, over HTTP and in the call ExplainJobs each reason is an object "
    "with its `kind` and the fields below.",
)


def reasons_page() -> Page:
    return Page(
        "gantry-reasons",
        7,
        "why a job does not run: the kinds of reasons",
        (
            Section("Description", tuple(map(paragraph, _ABOUT))),
            Section("Reasons", (Definitions(tuple(_reasons())),)),
            Section(
                "See also",
                (
                    Paragraph(
                        (PageLink("gnt-job-why", 1), ", ", PageLink("gnt-debug-locks", 1), ", ", PageLink("gantry", 7))
                    ),
                ),
            ),
        ),
    )


def _reasons() -> Iterator[Definition]:
    for kind in vars(common.queue.explanation).values():
        if isinstance(kind, type) and issubclass(kind, Tagged) and "KIND" in vars(kind):
            notes = notes_of(kind)
            fields = [
                (field.name, notes.get(field.name, "")) for field in attrs.fields(cast(type[attrs.AttrsInstance], kind))
            ]
            told = tuple(Definition((Literal(name),), (paragraph(note),)) for name, note in fields)
            yield Definition(
                (Literal(kind.KIND),), (paragraph(summary_of(kind)), *([Definitions(told)] if told else []))
            )
