"""A filter rule in the body of a request.

Source: rapi.md 6.4; filters design, "REST API".
"""

from typing import Final

from daemons.rapid.ganeti.core.bodies import check_names, member, object_of
from protocol.luxi.filters import ReplaceFilter

_NAMES: Final = ("priority", "predicates", "action", "reason")


def rule_of(uuid: str | None, body: object) -> ReplaceFilter:
    """The request that sets the rule; what the body does not say has the defaults.

    Args: uuid: None: a new rule.
    Raises: InvalidRequest: the body is no object, has unknown parameters, or values of a wrong type; what is in
        predicates and action is luxid's to judge.
    """
    given = object_of(body)
    check_names(given, _NAMES)
    return ReplaceFilter(
        uuid,
        member(given, "priority", int, 0),
        tuple(member(given, "predicates", list, [])),
        "CONTINUE" if given.get("action") is None else given["action"],
        tuple(member(given, "reason", list, [])),
    )
