"""Jobs on nodes whose parameters are not just those of the body.

Source: rapi.md 6.6, 7.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from common.errors import InvalidRequest
from daemons.rapid.ganeti.core.arguments import Arguments
from daemons.rapid.ganeti.core.bodies import optional_object, word_for
from daemons.rapid.ganeti.core.writes import Asking, OpInput, Write, one_opcode, opcode_of

_ROLES: Final[Mapping[str, Mapping[str, bool]]] = {
    "regular": {"master_candidate": False, "offline": False, "drained": False},
    "master-candidate": {"master_candidate": True},
    "drained": {"drained": True},
    "offline": {"offline": True},
}
# what the letter of a node's role means
ROLE_WORDS: Final[Mapping[str, str]] = {
    "M": "master",
    "C": "master-candidate",
    "D": "drained",
    "O": "offline",
    "R": "regular",
}
_MODES: Final = {True: "live", False: "non-live"}


def set_role(write: Write, asking: Asking) -> Sequence[OpInput]:
    """The body is the role. Raises: InvalidRequest: it is none that a node can be given."""
    role = asking.body
    if not isinstance(role, str):
        raise InvalidRequest(f"the body must be a role as a JSON string, got {word_for(role)}")
    if role not in _ROLES:
        raise InvalidRequest(f"a node's role is {', '.join(_ROLES)}; got {role!r:.60}")
    return [opcode_of(write, asking, _ROLES[role])]


def migrate(write: Write, asking: Asking) -> Sequence[OpInput]:
    """The parameters are in the body or, as old clients have it, in the query string.

    Raises: InvalidRequest: in both, or `live` and `mode`.
    """
    arguments = asking.arguments
    if "live" not in arguments and "mode" not in arguments:
        return [one_opcode(write, asking)]
    if "live" in arguments and "mode" in arguments:
        raise InvalidRequest("the query string has both 'live' and 'mode', which are the same; leave one out")
    if optional_object(asking.body):
        raise InvalidRequest("parameters are in the body or in the query string, not in both")
    mode = _MODES[arguments.flag("live")] if "live" in arguments else arguments.text("mode")
    return [opcode_of(write, asking, {"mode": mode})]


def storage_changes(arguments: Arguments) -> dict[str, object]:
    """What to change of a storage unit."""
    return {"allocatable": arguments.flag("allocatable")} if "allocatable" in arguments else {}
