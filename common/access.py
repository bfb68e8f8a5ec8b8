"""Access rights: the roles, and the users and groups that have them.

Theory. The kernel names the caller (SO_PEERCRED); the settings say what that user may do. The roles are ordered, and
each includes the rights of those before it:

    read      look: lists, locks, rules, reasons; others' jobs without arguments, environment, results and output
    submit    submit jobs, whose commands run as the submitter; cancel, reprioritize and archive one's own
    operate   see all of every job and change it; drain, filter rules, opcodes that act with the daemons' rights, locks
              that block everybody: the BGL and whole levels
    admin     change the configuration; commands as any user, root too
    full      act as the daemons' user: root, that user, and the users and groups of `uids` and `gids` (Ganeti's rule)

Daemons that run as users of their own may read, whatever groups they are in. One of them, the gateway, calls in the
names of HTTP users (`protocol.serving.service`).

A user with several roles, own or by groups, has the highest.

Source: DESIGN section 4, "Who is calling".
"""

import enum
from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from common.errors import Denied

_GIVEN_HERE: Final = "an administrator gives roles in '[access]' of the settings, and restarts the daemons"
_GIVEN_OVER_HTTP: Final = (
    "an administrator gives HTTP users roles with 'gantry user', and tokens rights with 'gantry token'"
)


class Role(enum.IntEnum):
    """The rights of a user; a greater role includes all smaller ones."""

    # may not even connect
    NONE = 0
    READ = 1
    SUBMIT = 2
    OPERATE = 3
    ADMIN = 4
    FULL = 5

    @property
    def word(self) -> str:
        """The role as the settings name it."""
        return self.name.lower()


@attrs.frozen
class Grantee:
    """A user or a group to whom a role is given."""

    number: int
    is_group: bool = False


@attrs.frozen
class Access:
    """The roles of an installation; root and the daemons' user have all rights."""

    own_uid: int
    uids: Mapping[int, Role] = attrs.field(factory=dict)
    gids: Mapping[int, Role] = attrs.field(factory=dict)
    # users who may submit in the name of others, besides root and the daemons' user
    trusted: frozenset[int] = frozenset()
    # users of daemons that do not run as the daemons' user
    apart: frozenset[int] = frozenset()
    # the one of them who calls in the names of HTTP users, with the rights that root has given these
    gateway: int | None = None

    def role_of(self, uid: int, gids: Iterable[int]) -> Role:
        """The highest role of the user, own or by a group; NONE if the user has none."""
        if uid in (0, self.own_uid):
            return Role.FULL
        if uid in self.apart:
            return Role.READ
        by_group = (self.gids.get(gid, Role.NONE) for gid in gids)
        return max(self.uids.get(uid, Role.NONE), max(by_group, default=Role.NONE))

    def may_speak_for_others(self, uid: int) -> bool:
        """Whether the user may submit jobs in another user's name."""
        return uid in (0, self.own_uid) or uid in self.trusted

    @property
    def is_shared(self) -> bool:
        """Whether any user or group has a role with less than all rights."""
        return any(role < Role.FULL for role in (*self.uids.values(), *self.gids.values()))


def grant(own_uid: int, given: Mapping[Role, Iterable[Grantee]], trusted: Iterable[int] = ()) -> Access:
    """Build the access table; a user or group with several roles gets the highest."""
    uids: dict[int, Role] = {}
    gids: dict[int, Role] = {}
    for role in sorted(given):
        for grantee in given[role]:
            (gids if grantee.is_group else uids)[grantee.number] = role
    return Access(own_uid, uids, gids, frozenset(trusted))


# a Unix user's number; or the name of a user or token of the HTTP interface, "" without one
Caller = int | str


def caller_text(caller: Caller) -> str:
    """The caller as messages name them."""
    if isinstance(caller, int):
        return f"user {caller}"
    return f"HTTP user {caller!r:.80}" if caller else "an HTTP caller without a name"


def check_role(role: Role, needed: Role, caller: Caller, what: str) -> None:
    """Check that a user may do something.

    Args:
        what: first words of the message, up to the one who needs the role: "SetDrainFlag", "...; another user".
    Raises: Denied: says which role is missing, and who gives it.
    """
    if role < needed:
        had = f"has only '{role.word}'" if role > Role.NONE else "has no role"
        how = _GIVEN_HERE if isinstance(caller, int) else _GIVEN_OVER_HTTP
        raise Denied(
            f"{what} needs the role '{needed.word}', and {caller_text(caller)} {had}; {how}", needed=needed.word
        )
