"""The page of plans: files with jobs, from the keys that `gnt-job submit` reads."""

from collections.abc import Mapping
from typing import Final

from cli.manual.page import Code, Definitions, ManualPage, Section, capital, described, paragraph, see_also
from protocol.plans.jobs import COMMAND, ENDS, OPCODES, PRIORITY, REASON, RUN, SHELL, TERMS, PlanField

_ABOUT: Final = (
    "A plan is a file of several jobs, in YAML or JSON, that 'gnt-job submit' submits together: all or none. A "
    "fault is told with its line and column, and nothing is submitted. 'gnt-job submit --schema' prints the form as "
    "JSON Schema, for editors.",
    "At the top `jobs` is the list of jobs, and `defaults` has keys for all of them; a key of a job wins, and "
    "labels are joined. Keys that begin with `x-` are for the writer of the file, such as anchors of YAML, and are "
    "not read.",
    "Each job has exactly one of `run`, `shell` and `ops`.",
)
_EXAMPLE: Final = """\
defaults: {labels: {team: web}, retries: 2}
jobs:
  - name: backup
    run: [tar, -czf, /backup/web1.tgz, /srv]
    locks: {node/web1: exclusive, node-res/store: shared}
  - name: upgrade
    after: backup              # or {backup: failure}, [backup, 17]
    shell: apt-get --yes upgrade && reboot-if-needed
    locks: node/web1
    timeout: 30m
  - after: {backup: failure}
    run: [logger, the backup of web1 failed]"""
_AFTER: Final = (
    "Jobs after whose success it begins: names of jobs above, or ids; a list of them; or names and ids with the way "
    f"they end: {', '.join(sorted(ENDS))}."
)
_TYPES: Final = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "names with values",
}


def plan_page() -> ManualPage:
    return ManualPage(
        "gantry-plan",
        5,
        "files with jobs to submit",
        (
            Section("Description", tuple(map(paragraph, _ABOUT))),
            Section("Work", (_keys({"run": RUN, "shell": SHELL, "ops": OPCODES}),)),
            Section("Order", (Definitions(described({"after": _AFTER})),)),
            Section("Job", (_keys({**TERMS, "priority": PRIORITY, "reason": REASON}),)),
            Section("Command", (paragraph("For `run` and `shell`:"), _keys(COMMAND))),
            Section("Examples", (Code(_EXAMPLE), Code("gnt-job submit --wait plan.yaml"))),
            see_also("gnt-job-submit(1), gnt-job-run(1), gantry-opcodes(7)"),
        ),
    )


def _keys(fields: Mapping[str, PlanField]) -> Definitions:
    return Definitions(
        described({key: f"{each.help} {capital(kind_of(each.schema))}." for key, each in fields.items()})
    )


def kind_of(schema: Mapping[str, object]) -> str:
    """What a value may be, in words."""
    match schema:
        case {"anyOf": [*members]}:
            return " or ".join(dict.fromkeys(kind_of(each) for each in members if isinstance(each, Mapping)))
        case {"enum": [*values]}:
            return " or ".join(map(str, values))
        case {"type": [*names]}:
            return " or ".join(_TYPES[str(name)] for name in names)
        case {"type": str(name)}:
            return _TYPES[name]
        case _:
            return "any value"
