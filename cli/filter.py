"""The program `gnt-filter`; each verb is a module of `cli.filters`."""

from typing import Final, NoReturn

from cli.commands import Group, Verb
from cli.run import run

VERBS: Final = {
    "pause": Verb("cli.filters.shortcuts:pause", "Let jobs wait until the rule is deleted."),
    "drain": Verb("cli.filters.shortcuts:drain", "Refuse jobs from now on; those in the queue go on."),
    "soft-drain": Verb("cli.filters.shortcuts:soft_drain", "Take jobs from now on, but let them wait."),
    "limit": Verb("cli.filters.shortcuts:limit", "Let only so many jobs run at once."),
    "add": Verb("cli.filters.add:add", "Add a rule, as predicates and action."),
    "replace": Verb("cli.filters.add:replace", "Replace a rule."),
    "delete": Verb("cli.filters.delete:delete", "Delete rules."),
    "list": Verb("cli.filters.list:list_rules", "List the rules, in the order in which they are asked."),
    "list-fields": Verb("cli.filters.list_fields:list_fields", "Tell the fields that a list can have."),
    "info": Verb("cli.filters.info:info", "Tell everything about rules."),
}

group = Group(
    "gnt-filter",
    VERBS,
    help="Rules that say which jobs may run, and how many at once.",
    examples=(
        "gnt-filter pause --where 'op=OP_RUN_COMMAND & reason=~upgrade' --reason 'the mirror is down' --dry-run",
        "gnt-filter limit 2 --where 'reason=backup'",
        "gnt-filter list",
        "gnt-filter delete 7f4b2cb5-5b4c-4ba0-9ba3-4e1c4c0a9a2b",
    ),
)


def main() -> NoReturn:
    run(group, "gnt-filter")
