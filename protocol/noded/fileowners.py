"""The owners that files on nodes can have: calls name users and groups, of the daemons only.

Source: noded.md 6 and 9.
"""

from typing import Final

# users and groups of Ganeti's daemons; root's are also named by those that run as root
USERS: Final = frozenset(
    {"root", "gantry", "gnt-masterd", "gnt-confd", "gnt-wconfd", "gnt-luxid", "gnt-rapi", "gnt-noded"}
)
GROUPS: Final = frozenset({*USERS, "gnt-daemons", "gnt-admin"})
# for files of a user or group that is none of these, as in private installations; node daemons that do not know
# the name take the owner of the folder
_OURS: Final = "gantry"


def user_on_wire(name: str) -> str:
    """The user that a call names for a file of this user."""
    return name if name in USERS else _OURS


def group_on_wire(name: str) -> str:
    """The same for a group."""
    return name if name in GROUPS else _OURS
