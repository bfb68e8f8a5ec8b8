"""The first rules of the launcher, made from the roles of an installation. They are root's from then on.

Source: DESIGN sections 7 and 16; daemons/launcher/core/rules.py.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from common.access import Grantee
from common.settings import AccessSettings
from common.system.accounts.users import group_numbered, user_numbered

RULES_FILE: Final = Path("/etc/gantry/launcher.toml")
_HEADER: Final = """\
# Who may run commands of jobs as whom on this machine. gantry-launcher reads this file at each command; only root may
# write it. What is not listed is refused. To switch the launcher off: gantry cluster run-as-submitter --off

# the user whose daemons may call the launcher
callers = [{caller}]

# submitter, or "@group" = users as whom their jobs may run: a login, "@group", "self", or "*": everybody but root and
# the callers. Jobs of root, and jobs without an owner, are root's.
[run_as]
root = ["self", "*"]
"""


def first_rules(access: AccessSettings, caller: str) -> str:
    """The text of the rules: root as everybody, submitters as themselves, administrators as everybody, also root.

    Raises: Unavailable: users cannot be read now.
    """
    lines: dict[str, Sequence[str]] = {}
    for grantees, targets in _by_role(access).items():
        for name in filter(None, map(_name, grantees)):
            lines[name] = targets
    rows = (f"{json.dumps(name)} = {json.dumps(targets)}\n" for name, targets in lines.items() if name != "root")
    return _HEADER.format(caller=json.dumps(caller)) + "".join(rows)


def _by_role(access: AccessSettings) -> Mapping[tuple[Grantee, ...], Sequence[str]]:
    """The weaker roles first: the strongest role of a user counts."""
    return {(*access.submit, *access.operate): ["self"], access.admin: ["self", "*", "root"]}


def _name(grantee: Grantee) -> str | None:
    """The grantee as the rules name it; None: the number has no name."""
    if grantee.is_group:
        group = group_numbered(grantee.number)
        return None if group is None else f"@{group.gr_name}"
    user = user_numbered(grantee.number)
    return None if user is None else user.pw_name
