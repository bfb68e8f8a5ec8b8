"""The pages of filters and of the query language."""

from typing import Final

from cli.manual.page import Code, Definitions, ManualPage, Section, described, paragraph, see_also
from common.objects.kinds import QueryKind
from common.query.qlang import DEEPEST, LONGEST
from common.queue.jobs import SUBMIT_PRIORITIES, JobState
from common.words.filters.jobfilter import COMPARED, DURATIONS, INSTANTS

# The page of filters, as people type them.


_EXAMPLES: Final = """\
gnt-job list 'status=running & op=run_command'
gnt-job list --where 'label.team=web & name=~^backup'
gnt-job list 'received < 2h ago & end > yesterday 14:00'
gnt-job cancel --where 'user=ada & (hold | tries > 1)'
gnt-filter pause --where 'op=OP_RUN_COMMAND & reason=~upgrade'
gnt-job history --where 'status=failed & wait > 10m'
gnt-node list --where 'name =* "web*" and not offline'"""
_OPERATORS: Final = {
    "field = value, field == value": "They are equal.",
    "field != value": "They are not.",
    "field < value, <=, >, >=": "For numbers, times and durations; texts are compared from a to z.",
    "field =~ expression": "The regular expression is found in the text: `web[0-9]+`, or `m/web[0-9]+/i` and `/web/` "
    "with the flags i (capitals do not count) and s (a dot is also the end of a line). There are no look-around and no "
    "back references, so that no expression takes long.",
    "field !~ expression": "It is not found.",
    "field =* pattern": "The text matches, where * stands for any characters and ? for one; a domain may follow.",
    "field !* pattern": "It does not.",
    "value in field": "The list has this value.",
    "value not in field": "It has not.",
    "field": "It is true, or a text that is not empty.",
}
_JOINING: Final = {
    "! condition, not condition": "The condition does not hold.",
    "condition & condition, and": "Both hold.",
    "condition | condition, or": "At least one holds.",
    "( ... )": "Brackets; without them ! comes before &, and & before |.",
}
_RULE_FIELDS: Final = {
    "id": "Number of the job.",
    "op": "Id of an opcode of the job, such as `OP_RUN_COMMAND` or `run_command`.",
    "name, label.KEY": "Name of the job, and the value of one of its labels.",
    "reason, source, timestamp": "Parts of one entry of a reason trail.",
    "any other name": "A parameter of the opcode, from gantry-opcodes(7): `argv`, `node`, `user`.",
}
_INSTANT_FORMS: Final = """\
now                @1790000000            2026-11-21
in 3h              +2h                    in 1h 30m
2h ago             3 days ago             in 2 days
today              tomorrow 02:00         yesterday
monday             next fri 9:30          last sunday
14:00              2pm                    noon, midnight
2026-11-21 02:00:30                       2026-11-21T02:00Z"""


def filters_page() -> ManualPage:
    return ManualPage(
        "gantry-filters",
        7,
        "filters of jobs, rules and other objects, as people type them",
        (
            Section("Synopsis", (Code("gnt-job list 'status=running & op=run_command'"),)),
            Section("Description", tuple(map(paragraph, _ABOUT_FILTERS))),
            Section("Conditions", (Definitions(described(_OPERATORS)),)),
            Section("Joined conditions", (Definitions(described(_JOINING)),)),
            Section("Fields of jobs", tuple(map(paragraph, _JOBS))),
            Section("Fields of the history", tuple(map(paragraph, _PAST))),
            Section("Fields of rules", (paragraph(_RULES), Definitions(described(_RULE_FIELDS)))),
            Section("Order of rules", (paragraph(_ORDER),)),
            Section("Times", (*map(paragraph, _TIMES), Code(_INSTANT_FORMS))),
            Section("Examples", (Code(_EXAMPLES),)),
            see_also("gantry-fields(7), gantry-query(7), gnt-job-list(1), gnt-job-history(1), gnt-filter-pause(1)"),
        ),
    )


_ABOUT_FILTERS: Final = (
    "A filter says which jobs, rules or other objects a command is for. It is an argument, or the value of "
    "`--where`; put it into quotes for the shell.",
    'Values need quotes only if they have blanks or one of the signs ( ) & | ! = < >,  or quotes: "two words" or '
    "'two words', with \\ before a quote within. `and`, `or` and `not` may be written instead of &, | and !. A "
    "whole number is compared as a number where the field is one.",
    "A fault in a filter is told with its character, and nothing is done.",
)
_JOBS: Final = (
    f"Filters of jobs compare: {', '.join(COMPARED)}, and `label.KEY` for one label. gantry-fields(7) tells what "
    "each is.",
    f"States are {', '.join(state.value for state in JobState)}; failed and succeeded are understood, too. "
    f"Priorities are {', '.join(f'{name} ({number})' for name, number in SUBMIT_PRIORITIES.items())}, or numbers; a "
    "smaller number is more urgent. `op` is the id of an opcode, also without `OP_` and in small letters. "
    "`reason=TEXT` is for a whole entry of a reason trail, `reason=~TEXT` for a part of one. `age` is a duration "
    "since the arrival.",
)
_PAST: Final = (
    f"'gnt-job history' compares the fields that 'gnt-job history --help' lists. {', '.join(INSTANTS)} are times, "
    f"{' and '.join(DURATIONS)} durations such as 90s, 10m or 2h.",
)
_RULES: Final = (
    "The filter of a rule ('gnt-filter pause --where') tests a job when it is submitted or chosen. Conditions that "
    "are joined by & and test the same thing must hold for the same opcode, or for the same entry of its reason "
    "trail; & alone joins conditions on different things."
)
_ORDER: Final = (
    "Rules are asked by priority, the smallest first. Rules of the same priority are asked by watermark, the id of "
    "the last job when the rule was set, and rules of the same watermark by UUID, which is random. So of two rules "
    "with one priority the older is asked first only if a job was submitted between them; a rule that is replaced "
    "gets a new watermark. Give rules different priorities where their order matters. 'gnt-filter list' shows the "
    "order."
)
_TIMES: Final = (
    "Times of jobs may have several words without quotes. A time is local; a day without a time is its midnight, and a "
    "weekday or a time without a day is the latest one. A number is in seconds since 1970.",
)


# The page of the query language: conditions as JSON, in calls and in filter rules.


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


def query_page() -> ManualPage:
    return ManualPage(
        "gantry-query",
        7,
        "the query language: conditions in calls and filter rules",
        (
            Section("Description", tuple(map(paragraph, _ABOUT_QUERY))),
            Section("Expressions", (Definitions(described(_FORMS)),)),
            Section("Predicates of filter rules", (paragraph(_PREDICATES), Definitions(described(_RULE)))),
            Section("Limits", (paragraph(_LIMITS),)),
            Section("Examples", (Code(_EXAMPLE),)),
            see_also("gantry-filters(7), gantry-fields(7), gnt-filter-add(1)"),
        ),
    )


_ABOUT_QUERY: Final = (
    "Queries to luxid, and the predicates of filter rules, have conditions on the fields of things. In JSON an "
    "expression is null, or a list that begins with an operator. The filters that people type, gantry-filters(7), "
    "become such lists.",
    f"Things that can be asked about are {', '.join(kind.value for kind in QueryKind)}; gantry-fields(7) has their "
    "fields.",
    "Values are texts and whole numbers. A fault is refused with its place: `filter $[2][1]: unknown operator "
    "'~~'`, where $ is the whole expression.",
)
_PREDICATES: Final = (
    "A rule has a list of predicates, all of which must hold. Each is a list of two: what is tested, and an expression "
    "on it."
)
_LIMITS: Final = (
    f"Expressions are nested at most {DEEPEST} deep. A regular expression has at most {LONGEST} characters, and "
    "neither look-around nor back references: so its time grows with the text alone."
)
