"""Who may make which call. Source: rapi.md sections 2 and 5; issue 12, deliverable 1."""

import pytest

from common.access import Role
from common.webaccess.rights import NOBODY, Principal, Right, Rights
from daemons.rapid.access.authenticator import AccessRules, verdict
from daemons.rapid.calls import Asked, Call, Face
from daemons.rapid.refusals import RequestRefused


async def handler(_: Asked) -> object:
    return None


def call(*rights: Right, ganeti: tuple[str, ...] | None = None, face: Face = Face.GANETI) -> Call:
    return Call("GET", "/x", handler, "", face, rights, ganeti_rights=ganeti)


# as in the table of the sheet: "-", "R", "W"
VERSION = call(ganeti=())
JOBS = call(Right.JOBS_READ, ganeti=())
QUERY = call(Right.CLUSTER_READ, ganeti=("write", "read"))
WAIT = call(Right.JOBS_READ, ganeti=("write",))
CANCEL = call(Right.JOBS_CANCEL, Right.JOBS_SUBMIT, ganeti=("write",))
OURS = call(Right.JOBS_READ, face=Face.OURS)
PAGE = call(face=Face.PAGE)


def user(role: Role = Role.NONE, *single: Right) -> Principal:
    return Principal("jack", Rights(role, frozenset(single)))


OPTIONLESS, READER, SUBMITTER = user(), user(Role.READ), user(Role.SUBMIT)
WRITER, ADMIN, TOKEN = user(Role.OPERATE), user(Role.ADMIN), user(Role.NONE, Right.JOBS_CANCEL)
STRICT = AccessRules()
OPEN = AccessRules(anonymous_read=True)
GANETI = AccessRules(ganeti_rights=True)
LOCKED = AccessRules(ganeti_rights=True, require_authentication=True)
# statuses of refusals
UNNAMED, FORBIDDEN = 401, 403


def judged(asked: Call, caller: Principal, rules: AccessRules) -> Role | int:
    try:
        return verdict(asked, caller, rules)
    except RequestRefused as refused:
        return refused.status


@pytest.mark.parametrize(
    ("rules", "asked", "caller", "expected"),
    [
        # ours: nobody without a name, but where there is nothing to protect
        (STRICT, VERSION, NOBODY, Role.NONE),
        (STRICT, PAGE, NOBODY, Role.NONE),
        (STRICT, JOBS, NOBODY, UNNAMED),
        (STRICT, OURS, NOBODY, UNNAMED),
        (STRICT, JOBS, OPTIONLESS, FORBIDDEN),
        (STRICT, JOBS, READER, Role.READ),
        (STRICT, WAIT, READER, Role.READ),
        (STRICT, CANCEL, READER, FORBIDDEN),
        (STRICT, CANCEL, SUBMITTER, Role.SUBMIT),
        (STRICT, CANCEL, WRITER, Role.OPERATE),
        (STRICT, OURS, ADMIN, Role.ADMIN),
        # a right alone: no more than the role that comes with it
        (STRICT, CANCEL, TOKEN, Role.OPERATE),
        (STRICT, JOBS, TOKEN, FORBIDDEN),
        # everybody may read, as a stranger, and no more
        (OPEN, JOBS, NOBODY, Role.READ),
        (OPEN, OURS, NOBODY, Role.READ),
        (OPEN, VERSION, NOBODY, Role.READ),
        (OPEN, CANCEL, NOBODY, UNNAMED),
        (OPEN, JOBS, OPTIONLESS, Role.READ),
        (OPEN, JOBS, TOKEN, Role.READ),
        (OPEN, CANCEL, OPTIONLESS, FORBIDDEN),
        (OPEN, JOBS, ADMIN, Role.ADMIN),
        # Ganeti's: an empty list is for everybody, and a user without options is like one without a name
        (GANETI, JOBS, NOBODY, Role.ADMIN),
        (GANETI, JOBS, OPTIONLESS, Role.ADMIN),
        (GANETI, QUERY, NOBODY, UNNAMED),
        (GANETI, QUERY, OPTIONLESS, FORBIDDEN),
        (GANETI, QUERY, READER, Role.ADMIN),
        (GANETI, WAIT, READER, FORBIDDEN),
        (GANETI, WAIT, WRITER, Role.ADMIN),
        (GANETI, CANCEL, SUBMITTER, FORBIDDEN),
        (GANETI, CANCEL, WRITER, Role.ADMIN),
        (GANETI, CANCEL, user(Role.FULL), Role.FULL),
        # a token has no options of Ganeti's
        (GANETI, CANCEL, TOKEN, Role.OPERATE),
        # Ganeti's rule knows nothing of what is ours
        (GANETI, OURS, NOBODY, UNNAMED),
        (GANETI, OURS, READER, Role.READ),
        # with --require-authentication nothing is for everybody, but the page with the login form
        (LOCKED, VERSION, NOBODY, UNNAMED),
        (LOCKED, JOBS, NOBODY, UNNAMED),
        (LOCKED, JOBS, OPTIONLESS, Role.ADMIN),
        (LOCKED, PAGE, NOBODY, Role.NONE),
    ],
)
def test_the_rules_judge_each_call(rules: AccessRules, asked: Call, caller: Principal, expected: Role | int) -> None:
    assert judged(asked, caller, rules) == expected
