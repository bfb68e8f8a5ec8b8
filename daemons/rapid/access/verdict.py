"""Whether a caller may make a call, and with which role luxid carries it out. Pure.

Theory. There are two rules. Ours looks at the rights that the call names: the caller has one of them, by role or by
name; if not, and the settings let everybody read, a call that the role *read* covers is made with that role, for a
stranger who owns nothing. Ganeti's rule, where the settings keep it, holds for Ganeti's resources only, and there it
counts instead: it looks at the options `read` and `write`, which are the roles *read* and *operate* here; a call
without options is for everybody; whoever may call sees and does all. Beside it only single rights count, which
Ganeti's users cannot have, but tokens do.

Source: rapi.md section 2; DESIGN section 15.
"""

import enum
from collections.abc import Sequence
from typing import Final

import attrs

from common.access import Role
from common.webaccess.principal import Principal
from common.webaccess.rights import ROLE_OF, Rights
from daemons.rapid.calls import Call, Face


@attrs.frozen
class Rules:
    """The settings of access."""

    # whether callers without a name may read
    anonymous_read: bool = False
    # whether Ganeti's rule holds for Ganeti's resources
    ganeti_rights: bool = False
    # whether every call needs a name, also one to an unknown path
    require_authentication: bool = False


class Outcome(enum.Enum):
    ALLOWED = "allowed"
    # 401: with a name it may be allowed
    UNNAMED = "unnamed"
    # 403
    FORBIDDEN = "forbidden"


@attrs.frozen
class Verdict:
    outcome: Outcome
    # role with which the call is made, if it is allowed
    role: Role = Role.NONE


# what an option of Ganeti's users file demands
_GANETIS: Final = {"read": Role.READ, "write": Role.OPERATE}


def verdict(call: Call, caller: Principal, rules: Rules) -> Verdict:
    """Judge a call."""
    if caller.is_anonymous and rules.require_authentication and call.face is not Face.PAGE:
        return Verdict(Outcome.UNNAMED)
    if rules.ganeti_rights and call.ganeti_rights is not None:
        role = _by_ganeti(call.ganeti_rights, call, caller)
    else:
        role = _by_ours(call, caller, rules)
    if role is not None:
        return Verdict(Outcome.ALLOWED, role)
    return Verdict(Outcome.UNNAMED if caller.is_anonymous else Outcome.FORBIDDEN)


def _by_ganeti(options: Sequence[str], call: Call, caller: Principal) -> Role | None:
    if not options or any(caller.rights.role >= _GANETIS[option] for option in options):
        return max(Role.ADMIN, caller.rights.role)
    return Rights(single=caller.rights.single).role_for(call.rights) or None


def _by_ours(call: Call, caller: Principal, rules: Rules) -> Role | None:
    everybody = Role.READ if rules.anonymous_read else Role.NONE
    if not call.rights:
        return max(caller.rights.role, everybody)
    is_reading = any(ROLE_OF[right] is Role.READ for right in call.rights)
    return max(caller.rights.role_for(call.rights), everybody if is_reading else Role.NONE) or None
