"""The program `gnt-filter`; each verb is a module beside this one."""

from typing import Final, NoReturn

from cli.commands import CommandGroup, CommandVerb
from cli.program import run
from cli.remoteoptions import remote_options

VERBS: Final = {
    "pause": CommandVerb("cli.filter.changing:pause", "Let jobs wait until the rule is deleted."),
    "drain": CommandVerb("cli.filter.changing:drain", "Refuse jobs from now on; those in the queue go on."),
    "soft-drain": CommandVerb("cli.filter.changing:soft_drain", "Take jobs from now on, but let them wait."),
    "limit": CommandVerb("cli.filter.changing:limit", "Let only so many jobs run at once."),
    "add": CommandVerb("cli.filter.changing:add", "Add a rule, as predicates and action."),
    "replace": CommandVerb("cli.filter.changing:replace", "Replace a rule."),
    "delete": CommandVerb("cli.filter.changing:delete", "Delete rules."),
    "list": CommandVerb("cli.filter.list:list_rules", "List the rules, in order of evaluation."),
    "list-fields": CommandVerb("cli.filter.list:list_fields", "List the fields that a list can show."),
    "info": CommandVerb("cli.filter.list:info", "Show everything about rules."),
}

group = CommandGroup(
    "gnt-filter",
    VERBS,
    help="Rules that say which jobs may run, and how many at once.",
    examples=(
        "gnt-filter pause --where 'op=OP_RUN_COMMAND & reason=~upgrade' --reason 'the mirror is down' --dry-run",
        "gnt-filter limit 2 --where 'reason=backup'",
        "gnt-filter list",
        "gnt-filter delete 7f4b2cb5-5b4c-4ba0-9ba3-4e1c4c0a9a2b",
    ),
    shared=remote_options,
)


def main() -> NoReturn:
    run(group, "gnt-filter")
