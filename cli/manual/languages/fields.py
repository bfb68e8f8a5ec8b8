"""The page of fields: what lists, filters and queries can have of each kind of things."""

from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from cli.choosing.listfields import KINDS
from cli.job.list_fields import OWN_FIELDS
from cli.manual.commands.surroundings import described
from cli.manual.page import Definition, Definitions, Literal, Page, PageLink, Paragraph, Section, paragraph
from common.reference.daemonfacts import DaemonFacts, FieldFacts
from common.reference.fieldnotes import notes_of
from protocol.luxi.history import EndedJob

_TITLES: Final = {
    "job": "Fields of jobs",
    "lock": "Fields of locks",
    "filter": "Fields of filter rules",
    "node": "Fields of nodes",
    "group": "Fields of node groups",
    "network": "Fields of networks",
    "instance": "Fields of instances",
    "export": "Fields of exports",
}
# how many fields of instances are about one disk or network card each
_NUMBERED: Final = 3
_ABOUT: Final = (
    "A list takes the names of fields by `-o`: `-o id,status` are these columns, `-o +user` adds one to the usual "
    "ones. Filters and queries compare them: gantry-filters(7), gantry-query(7). 'gnt-job list-fields' tells the "
    "same of a running cluster; so do `gnt-node`, `gnt-group`, `gnt-network` and `gnt-filter`.",
    "`label.KEY` is the value of one label of a job.",
)


def fields_page(facts: DaemonFacts) -> Page:
    return Page(
        "gantry-fields",
        7,
        "fields of jobs, locks, rules, nodes and other things",
        (
            Section("Description", tuple(map(paragraph, _ABOUT))),
            *(Section(title, (_fields(kind, facts.fields[kind]),)) for kind, title in _TITLES.items()),
            Section("Fields of the history", (paragraph(_HISTORY), Definitions(tuple(_past())))),
            Section(
                "See also",
                (
                    Paragraph(
                        (
                            PageLink("gantry-filters", 7),
                            ", ",
                            PageLink("gantry-query", 7),
                            ", ",
                            PageLink("gnt-job-list", 1),
                        )
                    ),
                ),
            ),
        ),
    )


_HISTORY: Final = "Of jobs that have ended, as 'gnt-job history' shows them."


def _fields(kind: str, fields: Sequence[FieldFacts]) -> Definitions:
    own = [FieldFacts(each.name, "", "other", each.doc) for each in OWN_FIELDS] if kind == "job" else []
    rows = sorted([*_without_numbers(fields), *own], key=lambda each: each.name)
    return Definitions(tuple(map(_row, rows)))


def _without_numbers(fields: Sequence[FieldFacts]) -> Iterator[FieldFacts]:
    """The fields; of those that exist for each disk and network card the first, with N for its number."""
    for field in fields:
        head, slash, number = field.name.partition("/")
        if number.isdigit() and slash:
            if number == "0":
                yield attrs.evolve(field, name=f"{head}/N")
        else:
            yield field


def _row(field: FieldFacts) -> Definition:
    kind = KINDS.get(field.kind, "")
    is_told = field.kind not in ("other", "text")
    text = f"{field.text[:1].upper()}{field.text[1:].rstrip('.')}"
    return Definition((Literal(field.name),), (paragraph(f"{text}. {kind}." if is_told else f"{text}."),))


def _past() -> Iterator[Definition]:
    notes = notes_of(EndedJob)
    rows = {field.name: notes.get(field.name, "") for field in attrs.fields(EndedJob)}
    yield from described({name: f"{note[:1].upper()}{note[1:]}" for name, note in rows.items()})
