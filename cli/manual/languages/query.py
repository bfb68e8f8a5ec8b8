"""The page of the query language: conditions as JSON, in calls and in filter rules."""

from typing import Final

from cli.manual.commands.surroundings import described
from cli.manual.page import Code, Definitions, Page, PageLink, Paragraph, Section, paragraph
from common.query.kinds import QueryKind
from common.query.qlang import DEEPEST
from common.query.regex import LONGEST

_FORMS: Final = {
    "null": "Always true.",
    '["&", expression, ...]': "All hold; true if there are none.",
    '["|", expression, ...]': "At least one holds; false if there are none.",
    '["!", expression]': "It does not hold.",
    '["?", field]': "The field is true: not null, false, 0, or empty.",
    '["==", field, value]': "They are equal. Also written `=`; `!=` is the negation.",
    '["<", field, value]': "The value of the field is less; so for `>`, `<=` and `>=`.",
    '["=~", field, expression]': "The regular expression is found anywhere in the text.",
    '["=[]", field, value]': "The list has this value.",
}
_RULE: Final = {
    '["jobid", expression]': "About the job's number: field `id`.",
    '["terms", expression]': "About the job itself: fields `name` and `label.KEY`. Ganeti has no such predicate.",
    '["opcode", expression]': "About an opcode: `OP_ID` and its parameters; one of the job must fit.",
    '["reason", expression]': "An entry of a reason trail: fields `source`, `reason` and `timestamp`; one must fit.",
}
_EXAMPLE: Final = """\
gnt-filter add --predicates '[["opcode", ["=", "OP_ID", "OP_RUN_COMMAND"]]]' \\
    --action PAUSE
gnt-filter add --predicates '[["jobid", [">", "id", 27491]],
    ["reason", ["=~", "reason", "^backup"]]]' --action 'RATE_LIMIT 2'"""


def query_page() -> Page:
    return Page(
        "gantry-query",
        7,
        "the query language: conditions in calls and filter rules",
        (
            Section("Description", tuple(map(paragraph, _ABOUT))),
            Section("Expressions", (Definitions(described(_FORMS)),)),
            Section("Predicates of filter rules", (paragraph(_PREDICATES), Definitions(described(_RULE)))),
            Section("Limits", (paragraph(_LIMITS),)),
            Section("Examples", (Code(_EXAMPLE),)),
            Section("See also", (_SEE_ALSO,)),
        ),
    )


_ABOUT: Final = (
    "Queries to luxid, and the predicates of filter rules, have conditions on the fields of things. In JSON an "
    "expression is null, or a list that begins with an operator. The filters that people type, gantry-filters(7), "
    "become such lists.",
    f"Things that can be asked about are {', '.join(kind.value for kind in QueryKind)}; gantry-fields(7) has their "
    "fields.",
    "Values are texts and whole numbers. A fault is refused with its place: `filter $[2][1]: unknown operator "
    "'~~'`, where $ is the whole expression.",
)
_PREDICATES: Final = "A rule has a list of predicates, all of which must hold. Each is a list of two: what is "
"tested, and an expression on it."
_LIMITS: Final = (
    f"Expressions are nested at most {DEEPEST} deep. A regular expression has at most {LONGEST} characters, and "
    "neither look-around nor back references: so its time grows with the text alone."
)
_SEE_ALSO: Final = Paragraph(
    (PageLink("gantry-filters", 7), ", ", PageLink("gantry-fields", 7), ", ", PageLink("gnt-filter-add", 1))
)
