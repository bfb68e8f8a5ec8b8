"""`gnt-filter delete`: delete rules.

Source: cli.md 3, "delete".
"""

from collections.abc import Sequence

import click

from cli.commands import Command
from cli.connection import open_luxid
from cli.context import wants_json
from cli.exitcodes import DONE, FAILED
from cli.filter.list import find_rules
from cli.filter.rulenames import complete_rule, is_uuid, rules_in_order
from cli.screen import complain, say, say_json
from common.errors import RemoteError
from common.words.filters.ruletext import action_text
from protocol.luxi.filters import DeleteFilter


@click.command("delete", cls=Command, examples=("gnt-filter delete 7f4b", "gnt-filter delete 1 3"))
@click.argument("names", metavar="RULE...", nargs=-1, required=True, shell_complete=complete_rule)
def delete(names: Sequence[str]) -> int:
    """Delete these rules; jobs that waited because of them may run.

    A rule is named by its UUID, by a beginning of it that no other rule has, or by its number in gnt-filter list.
    """
    rules = [] if all(map(is_uuid, names)) else rules_in_order()
    uuids = [name for name in names if is_uuid(name)]
    # all names are understood before the first rule goes: numbers change then
    short, is_lost = find_rules(rules, [name for name in names if not is_uuid(name)])
    deleted = []
    with open_luxid() as client:
        for uuid in dict.fromkeys([*uuids, *short]):
            try:
                client.call(DeleteFilter(uuid))
                deleted.append(uuid)
            except RemoteError as error:
                is_lost = True
                complain(error.message)
    if wants_json():
        say_json(deleted)
    else:
        for rule in rules:
            if rule["uuid"] in short and rule["uuid"] in deleted:
                say(f"deleted rule {rule['uuid']}: {action_text(rule['action'])}")
    return FAILED if is_lost else DONE
